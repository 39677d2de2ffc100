"""Inputs that are missing or damaged where a job runs are skipped, and do no harm to others."""

# Raw UPDATEs: pilots that report bad files are not there.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from support.adder import ENDPOINT, Pilot, adder
from support.generate import inputs_of
from support.generating import SECOND, catalogue, document
from support.helpers import put_file_dataset
from support.pages import nodes, vacuum
from support.situations import pilots_ask
from support.task_rows import INPUT, good, put, row_of
from support.working import cycle

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import FileInfo
from jedi.model.jobs.wire import UnusableInput
from jedi.mover.agent import Mover
from jedi.service.tasks.commanding import command
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs.datasets import wake_consumers
from jedi.taskbuffer.jobs import bad_inputs as bad_files
from jedi.taskrefiner.agent import TaskRefiner


def files(world: World) -> list[Any]:
    with world.engine.begin() as tx:
        return list(
            tx.execute(
                text("SELECT * FROM jedi_dataset_contents WHERE type = 'input' ORDER BY fileid")
            )
        )


def fail(world: World, problem: Any, code: str, **task: Any) -> Pilot:
    """A pilot that found something wrong with the first of two inputs."""
    pilot = Pilot(world, 1, **task)
    (job,) = pilot.jobs
    lfn = next(file.lfn for file in job.files if file.type == "input")
    bad = [UnusableInput(lfn=lfn, problem=problem)]
    pilot.tell(job, "failed", [], error_code=code, error_diag="Input.", bad_inputs=bad)
    return pilot


@pytest.mark.parametrize(
    ("problem", "code"),
    [("missing", "stagein_missing"), ("broken", "stagein_checksum"), ("broken", "stagein_size")],
)
def test_who_is_to_blame_is_skipped_and_the_others_are_not_blamed(
    world: World, problem: str, code: str
) -> None:
    pilot = fail(world, problem, code, max_attempt=1, max_failure=1)
    assert adder(world).run_once() == 1
    assert pilot.error()[1] == code
    bad, other = files(world)
    assert (bad.status, bad.proc_status, bad.failedattempt) == (problem, "failed", 1)
    assert (other.status, other.maxattempt, other.failedattempt) == ("ready", 2, 0)
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
    assert (row.nfilesused, row.nfilesmissing, row.nfilesfailed) == (0, 1, 0)


def test_a_file_that_is_there_after_all_is_tried_again(world: World) -> None:
    """The site did not see it: that is an ordinary failure."""
    pilot = fail(world, "missing", "stagein_missing")
    lfn = files(world)[0].lfn
    put_file_dataset(world, pilot.dataset("input"), {lfn: b"abc"}, ENDPOINT)
    assert adder(world).run_once() == 1
    assert [(f.status, f.maxattempt, f.failedattempt) for f in files(world)] == [
        ("ready", 3, 1),
        ("ready", 3, 1),
    ]


def test_a_task_ends_without_its_bad_files_and_a_retry_looks_for_them(world: World) -> None:
    put_file_dataset(world, "demo:in", {f: f.encode() for f in "abc"}, ENDPOINT)
    (task,) = put(world, good(nFilesPerJob=3, site="SITE_A", maxAttempt=1))
    cycle(world, jobs_end_too=False)
    with world.engine.begin() as tx:
        (job,) = tx.scalars(text("SELECT pandaid FROM jedi_jobs"))
        tx.execute(
            text(
                "UPDATE jedi_job_files SET problem = CASE lfn WHEN 'a' THEN 'missing' "
                "WHEN 'b' THEN 'broken' END WHERE type = 'input'"
            )
        )
        job_ends.end_jobs(tx, [JobEnd(job, "failed", "stagein_missing", "Gone.")], "test")
    cycle(world)
    row = row_of(world, task)
    assert (row.status, row.errordialog) == (
        "finished",
        "1 of 3 input files were processed; 2 missing.",
    )
    world.ddm.path(ENDPOINT, "demo:in", "b").write_bytes(b"mended")
    with world.engine.begin() as tx:
        command(tx, "anna", task, "retry")
    cycle(world)
    assert row_of(world, task).status == "done"
    assert {f.lfn: (f.status, f.fsize) for f in files(world)} == {
        "a": ("finished", 1),
        "b": ("finished", 6),
        "c": ("finished", 1),
    }


def test_what_stays_away_ends_the_retry_as_before(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    (task,) = put(world, good(site="SITE_A"))
    cycle(world, jobs_end_too=False)
    world.ddm.path(ENDPOINT, "demo:in", "a").unlink()
    with world.engine.begin() as tx:
        (job,) = tx.scalars(text("SELECT pandaid FROM jedi_jobs"))
        tx.execute(text("UPDATE jedi_job_files SET problem = 'missing' WHERE type = 'input'"))
        job_ends.end_jobs(tx, [JobEnd(job, "failed", "stagein_missing", "Gone.")], "test")
    for _ in range(2):
        cycle(world)
        assert row_of(world, task).status == "failed"
        with world.engine.begin() as tx:
            command(tx, "anna", task, "retry")


def blame(world: World, panda_id: int, lfn: str, problem: str = "broken") -> None:
    """A job fails because this input is damaged, or missing."""
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_job_files SET problem = :why WHERE pandaid = :job AND lfn = :f"),
            {"job": panda_id, "f": lfn, "why": problem},
        )
        ends = [JobEnd(panda_id, "failed", "stagein_checksum", "Damaged.")]
        assert job_ends.end_jobs(tx, ends, "test")


def lines(world: World) -> list[tuple[Any, ...]]:
    return [(f.lfn, f.status, f.maxattempt, f.failedattempt) for f in files(world)]


@pytest.mark.parametrize("attributes", ["nosplit,repeat", "repeat", "nosplit"])
def test_a_file_that_goes_with_every_job_is_skipped(world: World, attributes: str) -> None:
    """Of a file that several jobs may have at a time no job has the row."""
    put_file_dataset(world, "demo:in", dict.fromkeys("abcd", b"x"), ENDPOINT)
    put_file_dataset(world, "demo:second", dict.fromkeys("stu", b"x"), ENDPOINT)
    second = {**SECOND, "attributes": attributes}
    given = document(second, nFilesPerJob=2, site="SITE_A", maxAttempt=1, noThrottle=True)
    (task,) = put(world, given)
    cycle(world, jobs_end_too=False)
    one, other = inputs_of(world, task)
    for job in (one, other):  # the second one reports what is known
        blame(world, job, "s")
    assert lines(world) == [
        ("a", "ready", 2, 0),
        ("b", "ready", 2, 0),
        ("c", "ready", 2, 0),
        ("d", "ready", 2, 0),
        ("s", "broken", 1, 0),
        ("t", "ready", 1, 0),
        ("u", "ready", 1, 0),
    ]
    with world.engine.begin() as tx:
        row = tx.execute(
            text("SELECT * FROM jedi_datasets WHERE datasetname = 'demo:second'")
        ).one()
    assert (row.nfilestobeused, row.nfilesused, row.nfilesmissing) == (3, 0, 1)
    cycle(world, jobs_end_too=False)
    later = {lfn for job, lfns in inputs_of(world, task).items() if job > other for lfn in lfns}
    assert later == {*"abcdtu"}
    cycle(world)
    assert row_of(world, task).status == "done"


def test_an_end_that_marks_no_file_is_an_attempt(world: World) -> None:
    """Nobody is acquitted for ever on account of a file that stays in use."""
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    put_file_dataset(world, "demo:second", {"s": b"s"}, ENDPOINT)
    (task,) = put(world, document(SECOND, site="SITE_A", maxAttempt=1))
    cycle(world, jobs_end_too=False)
    ((job, _),) = inputs_of(world, task).items()
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET pandaid = 0 WHERE lfn = 's'"))
    blame(world, job, "s")
    assert lines(world) == [("a", "failed", 1, 1), ("s", "running", 1, 0)]


def test_all_ranges_of_a_damaged_file_are_skipped(world: World) -> None:
    """Each range is a row of its own; the file is damaged as a whole."""
    catalogue(world, in_=[FileInfo(name, 10, "00000001", None, 150) for name in "abc"])
    (task,) = put(world, document(nEventsPerJob=100, site="SITE_A", noThrottle=True))
    cycle(world, jobs_end_too=False)
    _, second, third, *_ = inputs_of(world, task)
    assert inputs_of(world, task)[second] == ["a", "b"]
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(third, "failed", "transfer_failed", "Oh.")], "test")
    blame(world, second, "b")
    assert [(f.lfn, f.startevent, f.status) for f in files(world)] == [
        ("a", 0, "running"),
        ("a", 100, "ready"),
        ("b", 0, "broken"),
        ("b", 50, "broken"),
        ("c", 0, "running"),
        ("c", 100, "running"),
    ]
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
    assert (row.nfilestobeused, row.nfilesused, row.nfilesmissing) == (6, 3, 2)
    cycle(world, jobs_end_too=False)
    assert [lfns for job, lfns in inputs_of(world, task).items() if job > third] == [
        ["c"],
        ["c"],
        ["a"],
    ]


@pytest.mark.parametrize("problem", ["missing", "broken"])
def test_ranges_that_wait_for_more_files_are_skipped(world: World, problem: str) -> None:
    """The dataset is open: the last 50 events of a file wait for 50 of the next one. They are
    skipped with the file, and count as released: the task does not wait for them."""
    ddm = catalogue(world, in_=[FileInfo("a", 10, "00000001", None, 250)])
    ddm.state = "open"
    (task,) = put(world, document(nEventsPerJob=100, site="SITE_A", noThrottle=True))
    cycle(world, jobs_end_too=False)
    one, other = inputs_of(world, task)
    assert [(f.startevent, f.status) for f in files(world)] == [
        (0, "running"),
        (100, "running"),
        (200, "pending"),
    ]
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(other, "failed", "transfer_failed", "Oh.")], "test")
    blame(world, one, "a", problem)
    assert [f.status for f in files(world)] == [problem] * 3
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
        assert (row.nfilestobeused, row.nfilesused, row.nfilesmissing) == (3, 0, 3)
        assert row.neventstobeused == 250
        ddm.files, ddm.state = {"demo:in": [FileInfo("b", 10, "00000001", None, 100)]}, "closed"
        wake_consumers(tx, ["demo:in"])
    cycle(world, jobs_end_too=False)
    assert {(f.lfn, f.status) for f in files(world)} == {("a", problem), ("b", "running")}


def test_a_dataset_is_read_once_however_many_of_its_files_are_bad(world: World) -> None:
    """The ends of 1000 jobs read 80,000 ranges 1000 times."""
    catalogue(world, in_=[FileInfo(f"f{n}", 10, "00000001", None, 500) for n in range(20)])
    (task,) = put(world, document(nEventsPerJob=100, site="SITE_A", noThrottle=True))
    cycle(world, jobs_end_too=False)
    jobs = list(inputs_of(world, task))
    bad = jobs[::5]
    with world.engine.begin() as tx:
        ends = [JobEnd(job, "failed", "transfer_failed", "Oh.") for job in jobs if job not in bad]
        job_ends.end_jobs(tx, ends, "test")
        tx.execute(
            text(
                "UPDATE jedi_job_files SET problem = 'broken' WHERE type = 'input' "
                "AND pandaid = ANY(:jobs)"
            ),
            {"jobs": bad},
        )
    vacuum(world.engine)
    with world.engine.begin() as tx:
        explain = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {bad_files._SKIP.sql}")
        [found] = tx.scalar(explain, {"ids": bad})
    looks = [n for n in nodes(found["Plan"]) if n.get("Relation Name") == "jedi_dataset_contents"]
    of_dataset = [
        n for n in looks if "datasetid = s" in n.get("Index Cond", "") + n.get("Filter", "")
    ]
    assert [(n["Actual Rows"], n["Actual Loops"]) for n in of_dataset] == [(80, 1)]


def of_container(world: World) -> int:
    """A task over two datasets of a container with a job each; a second input is below both."""
    for name in "xy":
        put_file_dataset(world, f"demo:{name}", {name: b"x"}, ENDPOINT)
    put_file_dataset(world, "demo:second", dict.fromkeys("st", b"x"), ENDPOINT)
    world.ddm.create("demo:c", ENDPOINT, container=True)
    world.ddm.add_members("demo:c", ["demo:x", "demo:y"])
    world.ddm.close("demo:c")
    given = document(SECOND, nFilesPerJob=1, site="SITE_A", noThrottle=True)
    given["jobParameters"][0] = {**INPUT, "dataset": "demo:c/"}
    (task,) = put(world, given)
    cycle(world, jobs_end_too=False)
    assert list(inputs_of(world, task).values()) == [["x", "s"], ["y", "s"]]
    return task


def test_a_damaged_file_is_skipped_below_each_master(world: World) -> None:
    """The datasets of a container have rows of the same secondary file each."""
    task = of_container(world)
    one, other = inputs_of(world, task)
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(other, "failed", "transfer_failed", "Oh.")], "test")
    blame(world, one, "s")
    assert [(f.lfn, f.status) for f in files(world)] == [
        ("x", "ready"),
        ("y", "ready"),
        ("s", "broken"),
        ("t", "ready"),
        ("s", "broken"),
        ("t", "ready"),
    ]
    cycle(world, jobs_end_too=False)
    assert [lfns for job, lfns in inputs_of(world, task).items() if job > other] == [
        ["x", "t"],
        ["y", "t"],
    ]


def test_who_marks_a_file_waits_for_no_other_dataset(world: World) -> None:
    """Two that end jobs could wait for each other. The next job reports the file again."""
    task = of_container(world)
    one, other = inputs_of(world, task)
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(other, "failed", "transfer_failed", "Oh.")], "test")
        last = tx.scalar(
            text("SELECT max(datasetid) FROM jedi_datasets WHERE datasetname = 'demo:second'")
        )
    with world.engine.begin() as busy:
        busy.execute(text("SELECT FROM jedi_datasets WHERE datasetid = :d FOR UPDATE"), {"d": last})
        blame(world, one, "s")
    assert [f.status for f in files(world) if f.lfn == "s"] == ["broken", "ready"]
    cycle(world, jobs_end_too=False)
    blame(world, max(inputs_of(world, task)), "s")
    assert [f.status for f in files(world) if f.lfn == "s"] == ["broken", "broken"]


def test_scouts_stay_as_many_without_the_ranges_of_a_damaged_file(world: World) -> None:
    """Ranges that wait for the scouts are skipped, too, and leave those that are free to them."""
    catalogue(world, in_=[FileInfo(name, 10, "00000001", None, 2000) for name in "ab"])
    (task,) = put(world, document(nEventsPerJob=100, site="SITE_A", skipScout=False))
    cycle(world, jobs_end_too=False)
    jobs = list(inputs_of(world, task))
    assert (row_of(world, task).status, len(jobs)) == ("scouting", 10)
    blame(world, jobs[0], "a")
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
    # 9 scouts are at work, and 11 of the 20 ranges of `a` are gone
    assert (row.nfilestobeused, row.nfilesused, row.nfilesmissing) == (20, 9, 11)
    cycle(world, jobs_end_too=False)


def test_a_file_that_vanishes_before_its_job_is_skipped(
    world: World, at: Callable[[float], None]
) -> None:
    """It was there when the task was submitted. The other files of its job are processed."""
    at(0)
    pilots_ask(world)
    put_file_dataset(world, "demo:in", {f: f.encode() for f in "abc"}, ENDPOINT)
    (task,) = put(world, document(nFilesPerJob=3, site="SITE_A", maxAttempt=1))
    for agent in (TaskRefiner, ContentsFeeder):
        assert agent(world).run_once() == 1
    world.ddm.remove_files("demo:in", ["b"])
    cycle(world, jobs_end_too=False)
    Mover(world).run_once()
    at(world.knobs["mover.patience_s"])
    Mover(world).run_once()
    assert lines(world) == [("a", "ready", 2, 0), ("b", "missing", 1, 1), ("c", "ready", 2, 0)]
    cycle(world)
    row = row_of(world, task)
    assert (row.status, row.errordialog) == (
        "finished",
        "2 of 3 input files were processed; 1 missing.",
    )
