"""The event service end to end: a real system runs a Monte-Carlo whose events are numbered, while
pilots die: each event is merged exactly once. See docs/payload-events.md#zips."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from sqlalchemy import text
from support.adding import add_files
from support.calls import call

from jedi.core.settings import caller
from jedi.demo.__main__ import still_running
from jedi.service.events import task_events
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import task_details
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long

FILES, EVENTS = 4, 60
KILLS = (6, 2, 2, 2)
"""How many pilots die at a time: first all of them, one of which has just delivered a zip file."""
SLEEP = "        time.sleep(0.15)\n"
KILLER = """\
        if one["lfn"].startswith("fine1") and one["start"] == 21:
            os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module", autouse=True)
def seeds(system: System) -> None:
    system.seeds(FILES, EVENTS)


def submit(system: System, examples: Path, dataset: str = "demo:simulated") -> int:
    """The example of a directory, with this output dataset."""
    document = (examples / "eventservice.yaml").read_text().replace("demo:simulated", dataset)
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        return storing.submit(
            tx, ddm, examined(Document(document, "yaml", examples), caller())
        ).jedi_task_id


def slowed(examples: Path, target: Path) -> Path:
    """The examples with a payload that works for a while on each range."""
    return changed(examples, target, SLEEP)


def changed(examples: Path, target: Path, step: str) -> Path:
    """The examples with a payload that first takes this step for each range."""
    shutil.copytree(examples / "events", target / "events")
    shutil.copy(examples / "eventservice.yaml", target)
    payload = target / "events" / "simulate.py"
    before = "    for one in ranges:\n"
    code = payload.read_text()
    assert before in code
    payload.write_text(f"import time\n{code.replace(before, before + step)}")
    return target


def rewritten(directory: Path, changes: dict[str, str]) -> None:
    """The example of a directory, with other texts."""
    document = directory / "eventservice.yaml"
    written = document.read_text()
    for before, after in changes.items():
        assert before in written
        written = written.replace(before, after)
    document.write_text(written)


def numbers_of(paths: list[Path]) -> list[list[int]]:
    """The numbers of the events in each output, in their order."""
    return [[int(line.split()[0]) for line in path.read_text().splitlines()] for path in paths]


def pilots(system: System) -> list[int]:
    """The processes of pilots that have a payload at work with events."""
    return [pid for pid, command in still_running(system.home).items() if " --pilot-id " in command]


def merged_once(system: System, task: int) -> None:
    """Each event is in the outputs exactly once, in the order of files and events within each; its
    range is merged."""
    outputs = numbers_of(system.outputs(task))
    assert sorted(n for one in outputs for n in one) == list(range(1, FILES * EVENTS + 1))
    with system.engine.begin() as tx:
        found = task_events.show(call(tx), task, None, status=None, limit=1000)
        kinds = {(job.kind, job.status) for job in task_details.jobs(tx, task)}
    assert {one.status: one.n_events for one in found.statuses}["merged"] == FILES * EVENTS
    assert found.n_left == 0
    # "they processed some event ranges" (merging) and "finished": however their pilots ended
    assert {one.status for one in found.consumers if one.n_processed} == {"finished"}
    assert ("es_merge", "finished") in kinds
    system.check()


def test_example(system: System) -> None:
    """Nobody dies: every file's events stand together, in their order."""
    task = submit(system, packaged("examples"))
    assert system.settle(task) == ["done"]
    merged_once(system, task)
    for numbers in numbers_of(system.outputs(task)):
        halves = [numbers[:EVENTS], numbers[EVENTS:]]
        assert all(half == sorted(half) for half in halves)


def test_shell(system: System, tmp_path: Path) -> None:
    """The payload in shell asks for one range at a time (docs/payload-events.md#requests)."""
    examples = tmp_path / "examples"
    shutil.copytree(packaged("examples"), examples)
    rewritten(
        examples,
        {
            "[events/simulate.py]": "[events/simulate.sh, events/simulate.awk]",
            "python3 simulate.py": "sh simulate.sh",
        },
    )
    task = submit(system, examples, "demo:shell")
    assert system.settle(task) == ["done"]
    merged_once(system, task)


@pytest.mark.timeout(300)
def test_fine_grained(system: System, tmp_path: Path) -> None:
    """An event that cannot be read, and one that kills its payload, use up the attempts of just
    their ranges: these are fatal, and each other event is in the outputs exactly once
    (docs/reference/event-service.md#fine-grained-processing)."""
    paths = [system.inputs / f"fine{i}.txt" for i in range(2)]
    for i, path in enumerate(paths):
        path.write_text("".join(f"{60 * i + n} {n}\n" for n in range(1, EVENTS + 1)))
    paths[0].write_text(paths[0].read_text().replace("\n8 8\n", "\n8 8 8\n"))
    with system.engine.begin() as tx:
        add_files(tx, system.ddm(tx), "demo:fine_seeds", paths, "DISK_A")
    examples = changed(packaged("examples"), tmp_path, KILLER)
    rewritten(
        examples,
        {
            "nEventsPerWorker: 5": "nEventsPerWorker: 5\nfineGrainedProc: true\nmaxAttemptES: 2",
            "nFilesPerJob: 2": "nFilesPerJob: 1",
            "nEsConsumers: 2": "nEsConsumers: 1",
            "demo:seeds": "demo:fine_seeds",
        },
    )
    task = submit(system, examples, "demo:fine")
    assert system.settle(task) == ["done"]
    lost = {*range(6, 11), *range(81, 86)}
    outputs = numbers_of(system.outputs(task))
    assert sorted(n for one in outputs for n in one) == [
        n for n in range(1, 2 * EVENTS + 1) if n not in lost
    ]
    with system.engine.begin() as tx:
        found = task_events.show(call(tx), task, None, status=None, limit=1)
    counted = {one.status: one.n_events for one in found.statuses}
    assert counted["fatal"] == len(lost)
    assert counted["merged"] == 2 * EVENTS - len(lost)
    system.check()


@pytest.mark.timeout(300)
def test_pilots_die(system: System, tmp_path: Path) -> None:
    """Pilots are killed with SIGKILL while their payloads process events; zips hold few ranges, so
    that every death leaves some behind."""
    system.put("pilot.zip_ranges", "2")
    task = submit(system, slowed(packaged("examples"), tmp_path), "demo:survivors")
    dice, killed = random.Random(4711), 0
    for most in KILLS:
        _until_more_zips(system, task, _zips(system))
        for pid in dice.sample(alive := pilots(system), min(most, len(alive))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed >= 2
    assert system.settle(task) == ["done"]
    merged_once(system, task)
    with system.engine.begin() as tx:
        ends = {(job.kind, job.error_code) for job in task_details.jobs(tx, task)}
    assert ("consumer", "lost_pilot") in ends, ends


@pytest.mark.timeout(300)
def test_damaged_piece(system: System, tmp_path: Path) -> None:
    """A reported zip is damaged before it is merged. The merge job fails and names it; just its
    ranges are processed again, and another merge job ends well."""
    before = {*system.home.path.glob("storage/*/.eventservice/*/*/*.zip")}
    task = submit(system, slowed(packaged("examples"), tmp_path), "demo:mended")

    def fresh() -> set[Path]:
        return {*system.home.path.glob("storage/*/.eventservice/*/*/*.zip")} - before

    until(fresh, "a zip is published")
    piece = min(fresh())
    piece.write_bytes(b"x" * piece.stat().st_size)
    assert system.settle(task) == ["done"]
    merged_once(system, task)
    with system.engine.begin() as tx:
        merges = [job.error_code for job in task_details.jobs(tx, task) if job.kind == "es_merge"]
        ranges = task_events.show(call(tx), task, None, status=["corrupted"], limit=1000).ranges
    assert "stagein_checksum" in merges
    assert {one.zip_lfn for one in ranges} == {piece.name}


def _until_more_zips(system: System, task: int, before: int) -> None:
    until(lambda: (pilots(system) and _zips(system) > before) or _ended(system, task), "zips")


def _zips(system: System) -> int:
    with system.engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_event_zips")) or 0)


def _ended(system: System, task: int) -> bool:
    return system.show(task).task.status in ("done", "finished", "failed")


@pytest.mark.parametrize("clone", ["runonce", "storeonce"])
def test_copies_of_jobs(system: System, clone: str) -> None:
    """Each job has two copies, and one counts: every line is in the outputs once. The others
    are closed (docs/reference/event-service.md#job-cloning)."""
    task = system.copying("demo:seeds", nFilesPerJob=1, useJobCloning=clone, nEsConsumers=2)
    assert system.settle(task) == ["done"]
    numbers = sorted(int(line.split()[0]) for line in system.lines(task))
    assert numbers == list(range(1, FILES * EVENTS + 1))
    with system.engine.begin() as tx:
        ends = Counter((j.kind, j.status, j.substatus) for j in task_details.jobs(tx, task))
    assert ends["clone", "finished", None] == FILES
    assert ends["clone", "closed", "jc_unlock"] == FILES
    system.check()
