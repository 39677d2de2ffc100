"""The event service end to end: a real system runs a Monte-Carlo whose events are numbered, while
pilots die. Source: docs/payload-events.md; issue's rule: each event is merged exactly once."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from sqlalchemy import text
from support.adding import add_files

from jedi.core.settings import caller
from jedi.demo.__main__ import still_running
from jedi.service import events, submission, tasks
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long

FILES, EVENTS = 4, 60
KILLS = 4


def seeds(system: System, endpoint: str) -> None:
    """Files with EVENTS lines each: the number of an event and its seed."""
    paths = []
    for i in range(FILES):
        numbers = range(i * EVENTS + 1, (i + 1) * EVENTS + 1)
        paths.append(system.inputs / f"seeds{i}.txt")
        paths[-1].write_text("".join(f"{n} {100_000 + n}\n" for n in numbers))
    with system.engine.begin() as tx:
        add_files(tx, system.ddm(tx), "demo:seeds", paths, endpoint)


def submit(system: System, changes: dict[str, str] | None = None) -> int:
    """The example; `changes` are made in its text."""
    examples = packaged("examples")
    document = (examples / "eventservice.yaml").read_text()
    for before, after in (changes or {}).items():
        assert before in document
        document = document.replace(before, after)
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        return submission.submit(tx, ddm, caller(), document, "yaml", examples).jedi_task_id


def numbers_of(paths: list[Path]) -> list[list[int]]:
    """The numbers of the events in each output, in their order."""
    return [[int(line.split()[0]) for line in path.read_text().splitlines()] for path in paths]


def pilots(system: System) -> list[int]:
    """The processes of pilots that have a payload at work with events."""
    return [pid for pid, command in still_running(system.home).items()
            if " --pilot-id " in command]  # fmt: skip


def merged_once(system: System, task: int) -> None:
    """Each event is in the outputs exactly once, in the order of files and events within each; its
    range is merged."""
    outputs = numbers_of(system.outputs(task))
    assert sorted(n for one in outputs for n in one) == list(range(1, FILES * EVENTS + 1))
    with system.engine.begin() as tx:
        found = events.show(tx, task, None, None, 1000)
        kinds = {(job.kind, job.status) for job in tasks.jobs(tx, task)}
    assert {one.status: one.n_events for one in found.statuses}["merged"] == FILES * EVENTS
    assert found.n_left == 0
    assert ("es_merge", "finished") in kinds
    system.check()


def test_example(system: System) -> None:
    """Nobody dies: every file's events stand together, in their order."""
    seeds(system, "DISK_A")
    task = submit(system)
    assert system.settle(task) == ["done"]
    merged_once(system, task)
    for numbers in numbers_of(system.outputs(task)):
        halves = [numbers[:EVENTS], numbers[EVENTS:]]
        assert all(half == sorted(half) for half in halves)


@pytest.mark.timeout(300)
def test_pilots_die(system: System) -> None:
    """Pilots are killed with SIGKILL while their payloads process events; zips hold few ranges, so
    that every death leaves some behind."""
    system.put("pilot.zip_ranges", "2")
    slow = {"python3 simulate.py": "sleep 0.5; python3 simulate.py"}
    task = submit(system, {**slow, "demo:simulated": "demo:survivors"})
    dice = random.Random(4711)
    for _ in range(KILLS):
        _until_more_zips(system, task, _zips(system))
        for pid in dice.sample(alive := pilots(system), min(2, len(alive))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert system.settle(task) == ["done"]
    merged_once(system, task)


def _until_more_zips(system: System, task: int, before: int) -> None:
    until(lambda: (pilots(system) and _zips(system) > before) or _ended(system, task), "zips")


def _zips(system: System) -> int:
    with system.engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_event_zips")) or 0)


def _ended(system: System, task: int) -> bool:
    return system.show(task).task.status in ("done", "finished", "failed")
