"""Callers of a service: `python service_load.py URL CA TOKEN PILOT_TOKEN TASK` submits, lists,
beats and watches until its input ends, then prints its record of answers and errors."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from jedi_client.errors import JediError
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from jedi_client.watching import watch_tasks

from jedi.pilot.base import Stop
from jedi.pilot.wire import ServiceRefusal, ServiceUnreachable, Wire

TASK = """
taskName: {name}
noInput: true
nFiles: 1
jobParameters:
  - {{type: constant, value: "true"}}
  - {{type: template, param_type: output, value: "> o.${{SN}}.txt", dataset: "user.me:{name}"}}
"""
PAUSE_S = 0.03


class Load:
    """All callers, and the record of their answers."""

    def __init__(self, url: str, ca: str, token: str, pilot: str, task: int) -> None:
        self.profile = Profile(url, token, ca)
        self.wire = Wire(url, pilot, Stop(), 60.0, ca)
        self.task = task
        self.over = threading.Event()
        self.submitted: dict[str, int] = {}
        self.lists = self.beats = 0
        self.errors: list[str] = []
        self.statuses: list[str] = []

    def run(self) -> None:
        submitters = [partial(self.submit, number) for number in range(2)]
        callers = [*submitters, self.list, self.beat, self.watch]
        threads = [threading.Thread(target=self.guarded, args=(one,)) for one in callers]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        sys.stdin.read()
        self.over.set()
        for thread in threads:
            thread.join()
        print(
            json.dumps(
                {
                    "submitted": self.submitted,
                    "lists": self.lists,
                    "beats": self.beats,
                    "errors": self.errors,
                    "statuses": self.statuses,
                }
            )
        )

    def guarded(self, caller: Callable[[], None]) -> None:
        try:
            caller()
        except (JediError, ServiceRefusal, ServiceUnreachable) as error:
            self.errors.append(f"{time.strftime('%X')} {type(error).__name__}: {error}")

    def submit(self, number: int) -> None:
        with Client(self.profile) as jedi:
            for n in range(1_000_000):
                if self.over.wait(PAUSE_S):
                    return
                name = f"t{number}.{n}"
                text = {"text": TASK.format(name=name), "name": name}
                [done] = jedi.task_submit(texts=[text])
                self.submitted[name] = done.jedi_task_id

    def list(self) -> None:
        with Client(self.profile) as jedi:
            while not self.over.wait(PAUSE_S):
                jedi.task_list(limit=10)
                self.lists += 1

    def beat(self) -> None:
        slot = {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0}
        asked = {"request_id": "r1", "pilot_id": "p1", "site": "SITE_A", "n": 1, "resources": slot}
        [job] = self.wire.insist("acquire", asked)["jobs"]
        key = {"pandaid": job["pandaid"], "lock_seq": job["lock_seq"]}
        while not self.over.wait(PAUSE_S):
            answer = self.wire.insist("heartbeat", {"beats": [{**key, "measures": {}}]})
            if answer["commands"][0]["command"] != "none":
                self.errors.append(str(answer))
            self.beats += 1

    def watch(self) -> None:
        with Client(self.profile) as jedi:
            for changes in watch_tasks(jedi, [self.task], timeout_s=300.0):
                self.statuses += [one.task.status for one in changes]
                if "pending" in self.statuses:
                    return


if __name__ == "__main__":
    url, ca, token, pilot, task = sys.argv[1:]
    Load(url, ca, token, pilot, int(task)).run()
