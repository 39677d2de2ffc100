"""Input on tape: it is brought to disk, and used as it comes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import ask, status
from support.ddm_steps import swap
from support.helpers import put_file_dataset
from support.open_datasets import grow, master
from support.situations import make_due
from support.statuses import input_statuses
from support.task_rows import INPUT, OUTPUT, good, put, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import clock
from jedi.ddm import factory
from jedi.ddm.interface import TransferResult
from jedi.taskbuffer.db import knobs
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog import staging
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

TAPE = "SITE_A_TAPE"


def dog(world: World) -> dict[str, int]:
    """Let it run once; what it did."""
    return dict(+staging.run(world))


@pytest.fixture
def tape(world: World) -> World:
    """The same world; SITE_A has a tape beside its disk."""
    (world.settings.home / "storage" / TAPE).mkdir()
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, path, is_tape) "
                "VALUES (:name, :path, true)"
            ),
            {"name": TAPE, "path": str(world.settings.home / "storage" / TAPE)},
        )
        tx.execute(
            text("INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES ('SITE_A', :name)"),
            {"name": TAPE},
        )
    world.load_ddm = factory.load
    world.refresh()
    return world


def on_tape(world: World, *lfns: str, name: str = "demo:in") -> None:
    put_file_dataset(world, name, {lfn: lfn.encode() for lfn in lfns}, TAPE)


def start(world: World, **keys: Any) -> int:
    (task_id,) = put(world, good(site="SITE_A", **{"inputPreStaging": True, **keys}))
    TaskRefiner(world).run_once()
    return task_id


def turn(world: World, name: str, value: Any) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, name, value, "test")
    world.refresh()


def test_a_task_begins_with_the_first_of_its_input(tape: World) -> None:
    on_tape(tape, *"abcd")
    task_id = start(tape, nFilesPerJob=2)
    task = row_of(tape, task_id)
    assert (task.status, task.reason_code) == ("staging", "input_on_tape")
    assert task.reason_facts == {"dataset": "demo:in", "files": ["a", "b"]}
    assert dog(tape) == {"begun": 1}
    assert status(tape, task_id) == "staged"
    TaskRefiner(tape).run_once()
    ContentsFeeder(tape).run_once()
    assert input_statuses(tape, task_id) == {
        "a": "ready",
        "b": "ready",
        "c": "staging",
        "d": "staging",
    }
    assert (master(tape).status, master(tape).nfiles, master(tape).nfilestobeused) == (
        "running",
        4,
        2,
    )
    cycle(tape)
    assert (status(tape, task_id), row_of(tape, task_id).reason_code) == (
        "defined",
        "input_on_tape",
    )
    assert dog(tape) == {"staged": 2}
    cycle(tape)
    assert status(tape, task_id) == "done"
    assert tape.ddm.locate("demo:in", "abcd") == {lfn: [ENDPOINT, TAPE] for lfn in "abcd"}


def test_what_came_fills_whole_jobs(tape: World) -> None:
    on_tape(tape, *"abcde")
    tape.ddm.stage("demo:in", ["c"], "test")
    task_id = start(tape, nFilesPerJob=2, panda_data_carousel=True, inputPreStaging=False)
    assert status(tape, task_id) == "defined"
    ContentsFeeder(tape).run_once()
    assert input_statuses(tape, task_id) == {**dict.fromkeys("abde", "staging"), "c": "pending"}
    dog(tape)
    cycle(tape)
    assert status(tape, task_id) == "done"
    with tape.engine.begin() as tx:
        sizes = tx.scalars(text("SELECT n_inputs FROM jedi_jobs ORDER BY n_inputs")).all()
    assert list(sizes) == [1, 2, 2]


def test_what_stalls_is_asked_for_again(tape: World) -> None:
    on_tape(tape, *"ab")
    path = tape.ddm.path(TAPE, "demo:in", "b")
    tape.ddm.stage("demo:in", ["a"], "test")
    swap(path, "x")
    task_id = start(tape)
    cycle(tape)
    assert dog(tape) == {}
    assert input_statuses(tape, task_id) == {"a": "finished", "b": "staging"}
    task = row_of(tape, task_id)
    said = "The rest of the input is on its way from tape to disk. The last try failed: "
    assert (task.status, task.reason_code) == ("defined", "input_on_tape")
    assert task.errordialog.startswith(said)
    assert "adler32" in task.errordialog.removeprefix(said)
    swap(path, "b")
    assert dog(tape) == {"staged": 1}
    cycle(tape)
    assert status(tape, task_id) == "done"


def test_first_files_that_are_gone_are_not_waited_for(tape: World) -> None:
    """JEDI document, "Protection against lost/broken input files": JEDI generates new jobs by
    skipping lost files. a and b leave the dataset before they come: the job reads c."""
    on_tape(tape, *"abc")
    task_id = start(tape, nFilesPerJob=2)
    tape.ddm.remove_files("demo:in", ["a", "b"])
    assert dog(tape) == {"begun": 1}
    reason = "The files that it waited for are gone: it begins with the others."
    assert (status(tape, task_id), row_of(tape, task_id).errordialog) == ("staged", reason)
    cycle(tape)
    assert input_statuses(tape, task_id) == {"c": "staging"}
    assert dog(tape) == {"staged": 1}
    cycle(tape)
    assert (status(tape, task_id), input_statuses(tape, task_id)) == ("done", {"c": "finished"})


def test_why_the_first_file_does_not_come(tape: World) -> None:
    """The reason names the last failure; the files that the task waits for stay known."""
    on_tape(tape, *"ab")
    path = tape.ddm.path(TAPE, "demo:in", "a")
    swap(path, "x")
    task_id = start(tape)
    for _ in range(2):
        assert dog(tape) == {}
        task = row_of(tape, task_id)
        said = "The input is on tape: a of demo:in comes first. The last try failed: "
        assert (task.status, task.reason_code) == ("staging", "input_on_tape")
        assert task.errordialog.startswith(said)
        assert "adler32" in task.errordialog.removeprefix(said)
        assert task.reason_facts == {"dataset": "demo:in", "files": ["a"]}
    swap(path, "a")
    assert dog(tape) == {"begun": 1}
    assert status(tape, task_id) == "staged"


def test_secondary_files_come_from_tape_however_long_it_takes(tape: World) -> None:
    """The master (a, b) is on disk, a file beside each of its files is on tape for eight days, more
    than `watchdog.pending_timeout_s`. The status exhausted is for tasks "timed-out while pending
    in the brokerage"; this one waits for tape, so it goes on when the files come."""
    grow(tape, *"ab")
    tape.ddm.close("demo:in")
    on_tape(tape, "s", "t", name="demo:beside")
    beside = {**INPUT, "value": "${BESIDE/S}", "dataset": "demo:beside", "ratio": 1}
    task_id = start(tape, nFilesPerJob=1, jobParameters=[INPUT, beside, OUTPUT])
    cycle(tape)
    task = row_of(tape, task_id)
    assert (task.status, task.reason_code) == ("ready", "secondary_files_short")
    assert task.errordialog == (
        "The files that follow the master's do not suffice: a job wants 1 files of BESIDE, and 0 "
        "are left, 2 more on their way."
    )
    clock.turn_to(clock.now() + timedelta(days=8))
    try:
        walk(tape, DOGS["pending"])
        assert status(tape, task_id) == "ready"
    finally:
        clock.turn_to(None)
    assert dog(tape) == {"staged": 2}
    make_due(tape)
    cycle(tape)
    assert status(tape, task_id) == "done"


def test_a_user_has_so_much_staged_at_a_time(tape: World) -> None:
    """The dataset that needs staging waits; the task's other one goes on."""
    on_tape(tape, *"abc")
    grow(tape, "x", name="demo:disk")
    tape.ddm.close("demo:disk")
    both = {**INPUT, "dataset": "demo:in,demo:disk"}
    task_id = start(tape, jobParameters=[both, OUTPUT])
    turn(tape, "staging.limit_gb", 1.5 / 2**30)
    cycle(tape)
    expected = {"a": "staging", "b": "staging", "c": "staging", "x": "finished"}
    assert input_statuses(tape, task_id) == expected
    for first, came in (("a", 2), ("c", 1)):
        assert dog(tape) == {"staged": came}
        cycle(tape)
        assert input_statuses(tape, task_id)[first] == "finished"
    assert status(tape, task_id) == "done"


def test_what_is_on_its_way_counts_before_more_urgent_files(
    tape: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JEDI document, "Throttled jobs and tasks": "If the total size of staging/transferring data …
    is larger than PRESTAGE_LIMIT for a user". The limit is two files. Those of a task are on their
    way when a more urgent one comes: it waits until they are there."""
    asked: list[str] = []

    def stage(_: Any, name: str, lfns: list[str], activity: str) -> list[TransferResult]:
        asked.extend(lfns)
        return [TransferResult(name, lfn, "requested") for lfn in lfns]

    for name, lfns in (("demo:in", "abc"), ("demo:other", "de")):
        on_tape(tape, *lfns, name=name)
        grow(tape, "x", name=f"{name}_disk")
        tape.ddm.close(f"{name}_disk")
    turn(tape, "staging.limit_gb", 1.5 / 2**30)
    for number, (name, priority) in enumerate((("demo:in", 500), ("demo:other", 1000))):
        inputs = {**INPUT, "dataset": f"{name},{name}_disk"}
        start(
            tape,
            jobParameters=[inputs, {**OUTPUT, "dataset": f"a:{number}"}],
            taskPriority=priority,
        )
        cycle(tape)
        monkeypatch.setattr(type(tape.ddm), "stage", stage)
        asked.clear()
        assert dog(tape) == {}
        assert asked == ["a", "b"]
        monkeypatch.undo()
    assert dog(tape) == {"staged": 2}
    cycle(tape)
    assert dog(tape) == {"staged": 2}  # of the urgent one


@pytest.mark.parametrize("first", [True, False])
def test_a_dataset_that_cannot_be_looked_up_keeps_no_other_from_disk(
    tape: World, first: bool
) -> None:
    """Neither the first files of tasks nor further ones."""
    tasks = []
    for name in ("demo:in", "demo:other"):
        on_tape(tape, *"ab", name=name)
        items = [{**INPUT, "dataset": name}, {**OUTPUT, "dataset": name.replace("demo", "a")}]
        tasks.append(start(tape, jobParameters=items))
    if not first:
        dog(tape)
        TaskRefiner(tape).run_once()
        ContentsFeeder(tape).run_once()
    tape.ddm.path(TAPE, "demo:in", "a").with_name(".dataset.yaml").mkdir()
    assert dog(tape) == {"begun" if first else "staged": 1}
    assert [status(tape, one) for one in tasks] == (
        ["staging", "staged"] if first else ["ready", "ready"]
    )


def test_a_released_task_reads_the_tape_itself(tape: World) -> None:
    on_tape(tape, *"abc")
    tape.ddm.stage("demo:in", ["a"], "test")
    task_id = start(tape)
    cycle(tape)
    assert master(tape).nfilestobeused == 1
    ask(tape, task_id, "release")
    cycle(tape)
    assert status(tape, task_id) == "done"
    assert (master(tape).nfilestobeused, tape.ddm.on_tape("demo:in")) == (3, ["b", "c"])


def test_resume_does_not_wait_for_the_first_file(tape: World) -> None:
    on_tape(tape, "a")
    task_id = start(tape)
    ask(tape, task_id, "pause")
    TaskCommando(tape).run_once()
    ask(tape, task_id, "resume")
    TaskCommando(tape).run_once()
    assert status(tape, task_id) == "staging"
    ask(tape, task_id, "resume")
    TaskCommando(tape).run_once()
    assert status(tape, task_id) == "staged"
    TaskRefiner(tape).run_once()
    ContentsFeeder(tape).run_once()
    assert (status(tape, task_id), input_statuses(tape, task_id)) == ("defined", {"a": "staging"})


def test_a_retry_may_do_without_what_is_on_tape(tape: World) -> None:
    on_tape(tape, *"ab")
    tape.ddm.stage("demo:in", ["a"], "test")
    task_id = start(tape)
    cycle(tape)
    ask(tape, task_id, "finish")
    cycle(tape)
    assert status(tape, task_id) == "finished"
    ask(tape, task_id, "retry", staged=True)
    cycle(tape)
    assert (status(tape, task_id), input_statuses(tape, task_id)["b"]) == ("done", "finished")


def test_a_task_that_is_finished_while_its_input_is_on_tape(tape: World) -> None:
    """It has an input file, which nobody has read: its reason names the command."""
    on_tape(tape, "a")
    task_id = start(tape)
    ask(tape, task_id, "finish")
    cycle(tape)
    row = row_of(tape, task_id)
    assert (row.status, row.reason_code) == ("failed", "no_input")
    assert row.errordialog == (
        "No input file was ready for jobs when the task was finished. Finished by anna: it is time"
    )


def test_without_pre_staging_jobs_read_tapes(tape: World) -> None:
    on_tape(tape, "a")
    task_id = start(tape, inputPreStaging=False)
    cycle(tape)
    assert status(tape, task_id) == "done"


def test_a_retry_waits_for_what_is_on_tape(tape: World) -> None:
    """`finished`: some inputs were not processed since the task was terminated."""
    on_tape(tape, *"abcd")
    tape.ddm.stage("demo:in", ["a", "b"], "test")
    task = start(tape, nFilesPerJob=1)
    cycle(tape)
    ask(tape, task, "finish")
    cycle(tape)
    left = {"a": "finished", "b": "finished", "c": "staging", "d": "staging"}
    assert (status(tape, task), input_statuses(tape, task)) == ("finished", left)
    ask(tape, task, "retry")
    cycle(tape)
    assert (status(tape, task), input_statuses(tape, task)) == ("defined", left)
    assert dog(tape)["staged"] == 2
    cycle(tape)
    assert status(tape, task) == "done"
    assert input_statuses(tape, task) == dict.fromkeys("abcd", "finished")
