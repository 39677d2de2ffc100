"""Inputs that are missing or damaged where a job runs are skipped, and do no harm to others."""

# Raw UPDATEs: pilots that report bad files are not there.

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from support.adder import ENDPOINT, Pilot, adder
from support.helpers import put_file_dataset
from support.task_rows import good, put, row_of
from support.working import cycle

from jedi.agent.base import World
from jedi.service.commands import command
from jedi.spec.jobs.wire import UnusableInput
from jedi.taskbuffer.jobs import job_ends
from jedi.taskbuffer.jobs.job_ends import JobEnd


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
        ("ready", 3, 1), ("ready", 3, 1),
    ]  # fmt: skip


def test_a_task_ends_without_its_bad_files_and_a_retry_looks_for_them(world: World) -> None:
    put_file_dataset(world, "demo:in", {f: f.encode() for f in "abc"}, ENDPOINT)
    (task,) = put(world, good(nFilesPerJob=3, site="SITE_A", maxAttempt=1))
    cycle(world, jobs_end_too=False)
    with world.engine.begin() as tx:
        (job,) = tx.scalars(text("SELECT pandaid FROM jedi_jobs"))
        tx.execute(text("UPDATE jedi_job_files SET problem = CASE lfn WHEN 'a' THEN 'missing' "
                        "WHEN 'b' THEN 'broken' END WHERE type = 'input'"))  # fmt: skip
        job_ends.end_jobs(tx, [JobEnd(job, "failed", "stagein_missing", "Gone.")], "test")
    cycle(world)
    row = row_of(world, task)
    assert (row.status, row.errordialog) == (
        "finished", "1 of 3 input files were processed; 2 missing.",
    )  # fmt: skip
    world.ddm.path(ENDPOINT, "demo:in", "b").write_bytes(b"mended")
    with world.engine.begin() as tx:
        command(tx, "anna", task, "retry")
    cycle(world)
    assert row_of(world, task).status == "done"
    assert {f.lfn: (f.status, f.fsize) for f in files(world)} == {
        "a": ("finished", 1), "b": ("finished", 6), "c": ("finished", 1),
    }  # fmt: skip


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
