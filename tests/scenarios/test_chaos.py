"""Agents, the service and pilots die at random times while many short payloads run.

`make stress` does it for STRESS_S seconds, with other deaths each time, and records it.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest
from scenarios.real_system import System
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from support.calls import call

from benchmarks.common import Result, host, save
from jedi.core import clock
from jedi.demo.__main__ import still_running
from jedi.service.tasks import waiting

pytestmark = pytest.mark.long

STRESS_S = float(os.environ.get("JEDI_STRESS", "0"))
CHAOS_S = STRESS_S or 40.0
PAUSE_S = 1.5
"""Between two deaths, on average."""
FILES = 50
"""Input files of a task, a payload each."""
IN_FLIGHT = 4


def victims(system: System) -> dict[int, str]:
    """What may die, by process id: agents and the service, and pilots as often as all of these."""
    with suppress(FileNotFoundError, ValueError):  # it is being written
        rows = json.loads((system.home.path / "processes.json").read_text())
        agents = {r["pid"]: r["name"] for r in rows if r["pid"] and r["name"] != "PostgreSQL"}
        pilots = {p: "pilot" for p, c in still_running(system.home).items() if "--pilot-id" in c}
        return pilots if pilots and random.random() < 0.5 else agents
    return {}


def kill_one(system: System, killed: Counter[str]) -> None:
    found = victims(system)
    if not found:
        return
    pid = random.choice(sorted(found))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        killed[found[pid].partition("-")[0]] += 1


def live_through(system: System, killed: Counter[str]) -> list[int]:
    """Submit tasks and kill until the time is over; the tasks."""
    tasks: list[int] = []
    end = clock.monotonic() + CHAOS_S
    while clock.monotonic() < end:
        with suppress(OperationalError):
            with system.engine.begin() as tx:
                open_ones = [one for one in waiting.look(call(tx), tasks) if not one.settled]
            for _ in range(IN_FLIGHT - len(open_ones)):
                tasks.append(
                    system.copying(
                        "user:many",
                        nFilesPerJob=1,
                        maxAttempt=1000,
                        site=random.choice(("SITE_A", "SITE_B")),
                    )
                )
        kill_one(system, killed)
        time.sleep(random.expovariate(1 / PAUSE_S))
    return tasks


@pytest.mark.timeout(0 if STRESS_S else 300)
def test_whatever_dies_each_input_counts_once(home: System) -> None:
    seed = secrets.randbelow(2**32)
    print(f"the seed is {seed}")
    random.seed(seed)
    home.up()
    for name, value in {"agent.max_deaths": 1000, "pilot.idle_s": 2}.items():
        home.put(name, value)
    lines = home.texts("user:many", FILES, "DISK_A")
    killed: Counter[str] = Counter()
    begin = clock.monotonic()
    tasks = live_through(home, killed)
    assert home.settle(*tasks) == ["done"] * len(tasks)
    took = clock.monotonic() - begin

    for task in tasks:
        assert home.lines(task) == lines
        with home.engine.begin() as tx:
            assert len(home.ddm(tx).list_files(f"user:out.{task}")) == FILES
    with home.engine.begin() as tx:
        ends = (
            "SELECT coalesce(error_code, status) AS code, count(*) AS n FROM jedi_jobs GROUP BY 1"
        )
        jobs = {row.code: row.n for row in tx.execute(text(ends))}
    assert jobs["finished"] == FILES * len(tasks)
    assert killed["pilot"] and killed.total() > killed["pilot"]
    home.check()
    if STRESS_S:
        said = f"{took:.0f} s; killed: {dict(killed)}; jobs: {jobs}"
        result = Result(
            f"{jobs['finished']:,} payloads amid deaths",
            "payloads/s",
            jobs["finished"] / took,
            note=said,
        )
        save("chaos", [result], host(home.engine))
