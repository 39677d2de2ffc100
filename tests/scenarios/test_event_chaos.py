"""Everything dies at random times while consumers process a Monte-Carlo whose events are numbered:
the merged output has each event exactly once.

`make stress` does it for STRESS_S seconds, with other deaths each time, and records it.
Source: docs/reference/event-service.md#invariants.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from scenarios.real_system import SITES, System
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from support.calls import call

from benchmarks.common import Result, host, save
from jedi.core import clock
from jedi.core.settings import caller
from jedi.demo.__main__ import still_running
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import waiting
from jedi.standalone.installation import DATABASE, packaged
from jedi.standalone.up import SERVICE

pytestmark = pytest.mark.long

STRESS_S = float(os.environ.get("JEDI_STRESS", "0"))
CHAOS_S = STRESS_S or 45.0
PAUSE_S = 1.5
"""Between two deaths, on average."""
REST_S = 300.0
"""For what is left when nobody dies any more."""
FILES, EVENTS, CONSUMERS = 4, 500, 5
"""Job sets of a task, ranges of each, and consumers: 2,000 ranges and 20 consumers."""
SLOTS = 20
"""Of a site: all consumers run at once."""
AFAR = {"ddm_endpoint": "DISK_A", "path": "storage/A", "is_local": False, "roles": "read"}
"""SITE_B reads the pieces of SITE_A, and not the other way round: merges run there."""
SLEEP = "        time.sleep(0.2)\n"
DOCUMENT = {
    "nFilesPerJob": 1,
    "nEventsPerInputFile": EVENTS,
    "nEventsPerWorker": 1,
    "nEsConsumers": CONSUMERS,
    "nSitesPerJob": 2,
    "maxAttempt": 1000,
    "maxAttemptES": 1000,
    "maxAttemptEsJob": 1000,
}


def slow_examples(target: Path) -> Path:
    """The examples with a payload that works for a while on each range."""
    shutil.copytree(packaged("examples") / "events", target / "events")
    payload = target / "events" / "simulate.py"
    before = "    for one in ranges:\n"
    code = payload.read_text()
    assert before in code
    payload.write_text(f"import time\n{code.replace(before, before + SLEEP)}")
    return target


def submit(system: System, examples: Path) -> int:
    """The Monte-Carlo, with an output dataset of its own."""
    document = yaml.safe_load((packaged("examples") / "eventservice.yaml").read_text())
    for item in document["jobParameters"]:
        item["dataset"] = item["dataset"].replace("demo:simulated", "demo:out.$JEDITASKID")
    with system.engine.begin() as tx:
        done = storing.submit(
            tx,
            system.ddm(tx),
            examined(Document(yaml.safe_dump(document | DOCUMENT), "yaml", examples), caller()),
        )
    return done.jedi_task_id


_KINDS = {DATABASE: "database", SERVICE: "service"}


def victims(system: System, task: int) -> dict[str, list[int]]:
    """What may die, by kind; of payloads those of a task."""
    with suppress(FileNotFoundError, ValueError):  # it is being written
        rows = json.loads((system.home.path / "processes.json").read_text())
        found: dict[str, list[int]] = {}
        for row in rows:
            if row["pid"]:
                kind = _KINDS.get(row["name"].partition("-")[0], "agent")
                found.setdefault(kind, []).append(row["pid"])
        for pid, command in still_running(system.home).items():
            if "--pilot-id" in command:
                found.setdefault("pilot", []).append(pid)
        if payloads := system.payloads(task):
            found["payload"] = payloads
        return found
    return {}


WEIGHTS = {"pilot": 6, "payload": 4, "agent": 4, "service": 2, "database": 1}


def kill_one(system: System, task: int, killed: Counter[str]) -> None:
    """SIGKILL for somebody, pilots more often than the database."""
    if found := victims(system, task):
        kinds = sorted(found)
        [kind] = random.choices(kinds, [WEIGHTS[one] for one in kinds])
        with suppress(ProcessLookupError):
            os.kill(random.choice(found[kind]), signal.SIGKILL)
            killed[kind] += 1


def live_through(system: System, examples: Path, killed: Counter[str]) -> list[int]:
    """Submit a task after the other, and kill until the time is over; the tasks."""
    tasks: list[int] = []
    end = clock.monotonic() + CHAOS_S
    while clock.monotonic() < end:
        with suppress(OperationalError), system.engine.begin() as tx:
            if all(one.settled for one in waiting.look(call(tx), tasks)):
                tasks.append(submit(system, examples))
        kill_one(system, tasks[-1], killed)
        time.sleep(random.expovariate(1 / PAUSE_S))
    return tasks


def numbers(system: System, task: int) -> list[int]:
    """The numbers of the events in all outputs of a task, in order."""
    return sorted(int(line.split()[0]) for line in system.lines(task))


@pytest.mark.timeout(0 if STRESS_S else 400)
def test_whatever_dies_each_event_counts_once(home: System, tmp_path: Path) -> None:
    seed = secrets.randbelow(2**32)
    print(f"the seed is {seed}")
    random.seed(seed)
    sites: list[dict[str, Any]] = [{**site, "nslots": SLOTS} for site in SITES]
    sites[1]["endpoints"] = [*sites[1]["endpoints"], AFAR]
    home.site_file.write_text(yaml.safe_dump(sites))
    home.up()
    for name, value in {"agent.max_deaths": 1000, "pilot.idle_s": 2, "pilot.zip_ranges": 5}.items():
        home.put(name, value)
    home.seeds(FILES, EVENTS)
    killed: Counter[str] = Counter()
    begin = clock.monotonic()
    tasks = live_through(home, slow_examples(tmp_path), killed)
    print(f"killed: {dict(killed)}")
    assert home.settle(*tasks, within_s=REST_S) == ["done"] * len(tasks)
    took = clock.monotonic() - begin

    for task in tasks:
        assert numbers(home, task) == list(range(1, FILES * EVENTS + 1))
    with home.engine.begin() as tx:
        ends = "SELECT kind, coalesce(error_code, status), count(*) FROM jedi_jobs GROUP BY 1, 2"
        jobs = {f"{kind} {end}": n for kind, end, n in tx.execute(text(ends))}
    assert jobs["es_merge finished"] == FILES * len(tasks)
    assert killed["pilot"] and killed["payload"] and killed.total() > 10
    home.check()
    if STRESS_S:
        said = f"{took:.0f} s; killed: {dict(killed)}; jobs: {jobs}"
        result = Result(
            f"{FILES * EVENTS * len(tasks):,} events amid deaths",
            "events/s",
            FILES * EVENTS * len(tasks) / took,
            note=said,
        )
        save("event-chaos", [result], host(home.engine))
