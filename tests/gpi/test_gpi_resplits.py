"""Units whose input is cut again.

Expected values: docs/reference/ganga.md#resplit; check 15: "old subjob frozen, new ids appended,
refused on live ones".
"""

from __future__ import annotations

import getpass

import pytest
from jedi_client import JEDI, ArgSplitter, Executable, FileSplitter, Job
from jedi_client.errors import BadInput
from jedi_client.gpi.report import JobError
from jedi_client.gpi.session import SESSION
from support.commanding import cycle, end, jobs, sound, take, work_off
from support.generating import rows
from support.helpers import put_file_dataset
from support.units import ask_units, job_of, now, of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.jobgenerator.agent import JobGenerator
from jedi.splitter.agent import Splitter
from jedi.taskrefiner.agent import TaskRefiner

pytestmark = pytest.mark.usefixtures("service", "home")


def made(world: World) -> None:
    cycle(world, TaskRefiner, ContentsFeeder, Splitter, JobGenerator)


@pytest.fixture
def job(world: World) -> Job:
    """A job of two subjobs with three files each: the first failed, the second lives."""
    data = {f"in{i}": b"x" for i in range(6)}
    put_file_dataset(world, "demo:in", data, "SITE_A_DATADISK")
    found = Job(
        application=Executable("cat"),
        backend=JEDI(site="SITE_A", max_attempts=1),
        inputdata="demo:in",
        splitter=FileSplitter(files=3),
        outputsandbox=["out.txt"],
    )
    assert found.submit()
    made(world)
    task = int(found.backend.id)
    take(world, [job_of(world, task, 1)])
    end(world, [job_of(world, task, 1)], "failed")
    return found


def states(job: Job) -> list[tuple[int, str, bool]]:
    SESSION.monitor.expire(job.id)
    return [(one.id, one.status, one.superseded) for one in job.subjobs]


@pytest.mark.parametrize("ended", [False, True])
def test_a_failed_subjob_is_cut_again(world: World, job: Job, ended: bool) -> None:
    """Expected: subjob 0 is frozen as failed; subjobs 2 to 4 have one of its files each; the job's
    state follows from those that count; each file is processed once."""
    task = int(job.backend.id)
    if ended:
        assert work_off(world, task) == "finished"
        assert job.status == "completed" or states(job)[0] == (0, "failed", False)
    report = job.subjobs(0).resplit(1)
    assert report.done == [0]
    second = "completed" if ended else "submitted"
    assert states(job) == [
        (0, "failed", True),
        (1, second, False),
        (2, "submitted", False),
        (3, "submitted", False),
        (4, "submitted", False),
    ]
    assert job.status == "submitted"
    sound(world)
    assert not job.subjobs(0).resubmit(keep_going=True)
    [refused] = ask_units(world, task, "resubmit", [1], who=getpass.getuser())
    assert refused.error == "superseded"
    assert work_off(world, task) == "done"
    assert [one[1] for one in states(job)] == ["failed"] + ["completed"] * 4
    assert job.status == "completed"
    query = (
        "SELECT f.lfn FROM jedi_job_files f JOIN jedi_jobs j USING (pandaid) "
        "WHERE j.status = 'finished' AND f.type = 'input' ORDER BY 1"
    )
    assert [row.lfn for row in rows(world, query)] == [f"in{n}" for n in range(6)]
    assert sorted(one.k or 0 for one in job.outputs()) == [1, 2, 3, 4]
    assert [one.status for one in job.subjobs(0).attempts] == ["failed"]
    sound(world)


def test_what_cannot_be_cut_is_refused(world: World, job: Job) -> None:
    """Expected: a live subjob, one with few files, an unknown one and other splitters are refused,
    and nothing changes."""
    before = states(job)
    with pytest.raises(JobError, match="submitted"):
        job.subjobs(1).resplit(1)
    report = job.subjobs.resplit(FileSplitter(files=3), keep_going=True)
    assert not report and "reads 3 files" in report.failed[0]
    with pytest.raises(BadInput, match="splitter"):
        job.subjobs(0).resplit("x")
    assert states(job) == before
    sound(world)


def test_a_job_that_was_just_submitted_is_refused(world: World) -> None:
    """Expected: JobError as for any live subjob, before an agent has looked at the task."""
    job = Job(application=Executable("cat"), backend=JEDI(), splitter=ArgSplitter([["a"], ["b"]]))
    assert job.submit() and len(job.subjobs) == 2
    with pytest.raises(JobError, match="registered"):
        job.subjobs(1).resplit(1)
    assert not job.subjobs(1).resplit(1, keep_going=True) and len(job.subjobs) == 2


def test_a_completed_subjob_gives_up_its_output(world: World, job: Job) -> None:
    """Expected: its outputs are superseded with it; nothing counts twice."""
    task = int(job.backend.id)
    assert work_off(world, task) == "finished"
    assert job.subjobs(1).resplit(2)
    assert states(job)[1:] == [
        (1, "completed", True),
        (2, "submitted", False),
        (3, "submitted", False),
    ]
    assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "failed completed completed completed"
    assert now(world, task).counts == {"failed": 1, "completed": 2}
    assert sorted(one.k or 0 for one in job.outputs()) == [2, 3]
    assert len(jobs(world, task, "finished")) == 3
    sound(world)
