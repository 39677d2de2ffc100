"""The whole system in a scratch home, two of every agent, driven as people and operators drive it.

Two sites on this machine, SITE_A and SITE_B, each with an endpoint of its own, DISK_A and DISK_B.
Leases, polls and waits are short, so that what died is soon replaced.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from support.adding import add_files
from support.calls import call
from support.seen import note

from jedi.core import clock, states
from jedi.core.settings import caller
from jedi.ddm import factory
from jedi.ddm.interface import DDM
from jedi.demo.__main__ import still_running
from jedi.host import processes
from jedi.host.home import Home
from jedi.model.queries import JobQuery
from jedi.service.files import contents
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import knobs as system_knobs
from jedi.service.tasks import commanding, task_details, waiting
from jedi.service.tasks.task_details import TaskDetails
from jedi.service.tasks.why import why
from jedi.standalone.embedded import Embedded
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect

DEADLINE_S = 120.0
SCRATCH_MB = 400
"""What a payload may write."""

SITES = [
    {
        "site": f"SITE_{letter}",
        "nslots": 3,
        "submitter": "local",
        "maxwdir": SCRATCH_MB,
        "endpoints": [{"ddm_endpoint": f"DISK_{letter}", "path": f"storage/{letter}"}],
    }
    for letter in "AB"
]
KNOBS = {
    "agent.lease_s": 2,
    "agent.poll_s": 0.5,
    "agent.heartbeat_s": 1,
    "adder.retry_s": 1,
    "broker.min_free_gb": 0,
    "jobgen.retry_s": 0.5,
    "mover.retry_s": 0.5,
    "pilot.heartbeat_s": 0.5,
    "pilot.max_processes": 20,
    "pilot.poll_s": 0.1,
    "postprocessor.retry_s": 1,
    "submitter.check_s": 0.5,
    "taskcommando.retry_s": 1,
    "watchdog.gone_pilot_s": 1,
    "watchdog.leases_period_s": 1,
    "watchdog.pending_period_s": 0.5,
    "watchdog.statistics_period_s": 1,
    "watchdog.timeouts_period_s": 1,
    "scout.chunks": 0,  # all jobs at once: what goes wrong shall find many
}


def until(condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> None:
    """Wait for a condition, which does not hold while the database is away."""
    deadline = clock.monotonic() + within_s
    while True:
        with suppress(OperationalError):
            if condition():
                return
        assert clock.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        time.sleep(0.1)


class System:
    """One home. What goes wrong in a verb of `jedi` is an AssertionError with what it said."""

    def __init__(self, scratch: Path) -> None:
        self.home = Home(scratch / "home")
        self.home.prepare()
        self.inputs = scratch / "inputs"
        self.inputs.mkdir()
        self.site_file = scratch / "sites.yaml"
        self.site_file.write_text(yaml.safe_dump(SITES))
        self.engine = connect(Embedded(self.home).url(), "scenario", pool_size=1)

    # ------------------------------------------------------------------------- the system itself

    def up(self, **environment: str) -> None:
        """Bring everything up; `environment` is added to that of all its processes."""
        self.call("up", "--detach", "--copies", "2", "--sites", str(self.site_file), **environment)
        for name, value in KNOBS.items():
            self.put(name, value)

    def put(self, name: str, value: object) -> None:
        """Set a knob."""
        with self.engine.begin() as tx:
            system_knobs.put(call(tx, caller()), name, str(value))

    def down(self) -> None:
        """Bring everything down; nothing may be left."""
        note(Embedded(self.home).url())
        self.call("down", "--drain", "0")
        self.engine.dispose()
        assert still_running(self.home) == {}

    def call(self, *words: str, **environment: str) -> str:
        """What a verb of `jedi`, which must succeed, prints."""
        ours = {name: text for name, text in os.environ.items() if not name.startswith("JEDI_")}
        done = subprocess.run(
            [sys.executable, "-m", "jedi", *words],
            env={**ours, "JEDI_HOME": str(self.home.path), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"jedi {' '.join(words)}: {done.stdout}"
        return done.stdout

    def check(self) -> None:
        """The records agree with each other and with storage."""
        self.call("check", "--files")

    def kill_database(self) -> None:
        """SIGKILL for PostgreSQL's first process, and no return before it is gone."""
        pid = Embedded(self.home).pid()
        process = processes.note(pid) if pid else None
        assert process, "there is no PostgreSQL to kill"
        process.signal(signal.SIGKILL)
        until(lambda: not process.alive(), "PostgreSQL is dead")

    def kill_all(self) -> None:
        """SIGKILL for every process of the home at once: first all are stopped, so that none
        gets to tidy up after another."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in still_running(self.home):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        until(lambda: not still_running(self.home), "nothing of the home lives")

    def payloads(self, task: int) -> list[int]:
        """The processes that a task's payloads are made of."""
        mark = f"JEDITASKID={task}\0".encode()
        found = []
        for pid in still_running(self.home):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
        return found

    # ------------------------------------------------------------------------------------- tasks

    def texts(self, name: str, number: int, endpoint: str) -> list[str]:
        """Make a dataset at an endpoint of files that hold a line each; these lines."""
        lines = [f"{name}.{i:03}" for i in range(number)]
        paths = [self.inputs / f"{line.replace(':', '.')}.txt" for line in lines]
        for path, line in zip(paths, lines, strict=True):
            path.write_text(f"{line}\n")
        with self.engine.begin() as tx:
            add_files(tx, self.ddm(tx), name, paths, endpoint)
        return lines

    def seeds(self, files: int, events: int) -> None:
        """Make a dataset of files that hold so many lines each: number of an event and its seed."""
        paths = []
        for i in range(files):
            numbers = range(i * events + 1, (i + 1) * events + 1)
            paths.append(self.inputs / f"seeds{i}.txt")
            paths[-1].write_text("".join(f"{n} {100_000 + n}\n" for n in numbers))
        with self.engine.begin() as tx:
            add_files(tx, self.ddm(tx), "demo:seeds", paths, "DISK_A")

    def copying(self, dataset: str, command: str = "cat", **keys: Any) -> int:
        """Submit a task whose jobs write what `command` makes of their input files."""
        source = {"type": "template", "param_type": "input", "value": "${IN/S}"}
        return self.submit(command, {**source, "dataset": dataset}, **keys)

    def submit(self, command: str, *items: Mapping[str, Any], **keys: Any) -> int:
        """Submit a task; its output is what `command`, with the values of items, prints."""
        output = {
            "type": "template",
            "param_type": "output",
            "value": "> out.${SN}.txt",
            "dataset": "user:out.$JEDITASKID",
        }
        document = {
            "taskName": "scenario",
            "transPath": command,
            "jobParameters": [*items, output],
            **keys,
        }
        with self.engine.begin() as tx:
            done = storing.submit(
                tx,
                self.ddm(tx),
                examined(Document(yaml.safe_dump(document), "yaml", self.home.path), caller()),
            )
        return done.jedi_task_id

    def ask(self, command: str, task: int) -> None:
        """`kill` or `retry` a task."""
        with self.engine.begin() as tx:
            commanding.command(tx, caller(), task, command)

    def settle(self, *ids: int, within_s: float = DEADLINE_S) -> list[str]:
        """Wait until tasks have come to their ends; their statuses."""
        seen: list[waiting.Watched] = []

        def settled() -> bool:
            with self.engine.begin() as tx:
                seen[:] = waiting.look(call(tx), [*ids])
            return all(one.settled for one in seen)

        try:
            until(settled, f"tasks {ids} end", within_s)
        except AssertionError as error:
            left = [self.held(one.task.jedi_task_id) for one in seen if not one.settled]
            raise AssertionError("\n".join([str(error), *left])) from None
        return [one.task.status for one in seen]

    def held(self, task: int) -> str:
        """The reason that holds a task, and its jobs that are still alive."""
        with self.engine.begin() as tx:
            live = task_details.jobs(tx, task, JobQuery(status=sorted(states.JOB_LIVE)))
            return f"{why(call(tx), task)}\n{live}"

    def show(self, task: int) -> TaskDetails:
        with self.engine.begin() as tx:
            return task_details.show(call(tx), task)

    def statuses(self, task: int) -> list[str]:
        """Every status that a task has had, in order."""
        with self.engine.begin() as tx:
            return [step.status for step in task_details.history(call(tx), task)]

    def outputs(self, task: int) -> list[Path]:
        """Where the finished outputs of a task lie."""
        with self.engine.begin() as tx:
            asked = call(tx, ddm=self.ddm(tx))
            files = task_details.outputs(asked, task)
            return [contents.of_output(asked, task, file.file_id).path for file in files]

    def lines(self, task: int) -> list[str]:
        """Everything that the jobs of a task wrote, in order."""
        written = [path.read_text().splitlines() for path in self.outputs(task)]
        return sorted(line for lines in written for line in lines)

    def replicas(self, dataset: str) -> dict[str, int]:
        """How many files of a dataset lie at each endpoint."""
        with self.engine.begin() as tx:
            found = self.ddm(tx).replicas(dataset)
        return {replica.endpoint: replica.n_files for replica in found}

    def ddm(self, tx: Connection) -> DDM:
        """Data management as the system has it."""
        return factory.load(tx, knobs.load(tx))
