"""Jobs of the Python interface on JEDI, from submission to output.

Expected values: docs/reference/ganga.md#submission; docs/reference/ganga.md#verbs.
"""

# Raw UPDATEs: lines that a pilot sent, ranges of events.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jedi_client import JEDI, ArgSplitter, Dataset, Executable, FileSplitter, Job, Script
from jedi_client.errors import NotFound
from jedi_client.gpi.report import JobError
from jedi_client.gpi.session import SESSION
from sqlalchemy import text
from support.commanding import cycle, end, everything, jobs, take, work_off
from support.helpers import put_file_dataset
from support.herds import jobs as with_commands
from support.situations import make_due

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.jobgenerator.agent import JobGenerator
from jedi.splitter.agent import Splitter
from jedi.taskrefiner.agent import TaskRefiner

pytestmark = pytest.mark.usefixtures("service", "home")


def fresh(job: Any) -> Any:
    """The job, and its state asked for anew."""
    SESSION.monitor.expire(job.id)
    return job


def test_split_job_on_jedi(world: World, tmp_path: Path) -> None:
    """Expected: subjobs exist after submit, 0 to N-1; kill of one leaves its siblings; the master
    follows the five rules; outputs lie under i/k/output; resubmit makes it submitted again."""
    script = tmp_path / "fit.sh"
    script.write_text("#!/bin/sh\necho $1 > hist.txt\n")
    job = Job(
        name="fit",
        application=Script(str(script)),
        backend=JEDI(site="SITE_A"),
        splitter=ArgSplitter([["1"], ["2"], ["3"]]),
        outputsandbox=["hist.txt"],
    )
    report = job.submit()
    assert report and len(job.subjobs) == 3 and job.status == "submitted"
    task = int(job.backend.id)
    everything(world)
    assert [one.jobparameters for one in with_commands(world, task)] == [
        f"/bin/sh ./fit.sh {n}" for n in (1, 2, 3)
    ]
    assert job.subjobs(1).kill()
    assert work_off(world, task) == "finished"
    fresh(job)
    assert [one.status for one in job.subjobs] == ["completed", "killed", "completed"]
    assert job.status == "completed"
    assert [(one.k, one.name) for one in job.outputs()] == [(0, "hist.txt"), (2, "hist.txt")]
    assert job.subjobs(1).resubmit()
    assert fresh(job).status == "submitted"
    assert work_off(world, task) == "done"
    assert [one.status for one in fresh(job).subjobs] == ["completed"] * 3


def test_copy_of_a_subjob_that_jedi_cut(world: World) -> None:
    """Expected (row 10, D2: "for server-split subjobs too"): a parentless new job with the files of
    that subjob and the job's paths, and no splitter. With parts of files it is refused."""
    data = {f"in{i}": b"x" for i in range(5)}
    put_file_dataset(world, "demo:in", data, "SITE_A_DATADISK")
    job = Job(
        application=Executable("cat"),
        backend=JEDI(site="SITE_A"),
        inputdata="demo:in",
        splitter=FileSplitter(files=2),
    )
    assert job.submit()
    cycle(world, TaskRefiner, ContentsFeeder, Splitter, JobGenerator)
    assert len(fresh(job).subjobs) == 3
    one = job.subjobs(1).copy()
    assert (one.parent, one.status, one.splitter, one.inputdata.name) == (None, "new", None, "")
    assert one.inputdata.files == ["lfn:/demo/in/in2", "lfn:/demo/in/in3"]
    assert one.application.exe == "cat" and one.submit()
    cycle(world, TaskRefiner, ContentsFeeder, Splitter, JobGenerator)
    [made] = with_commands(world, int(one.backend.id))
    assert "export JEDI_INPUTS=in2,in3;" in made.jobparameters
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET startevent = 0, endevent = 9"))
    with pytest.raises(JobError, match="reads events 0 to 9"):
        job.subjobs(1).copy()


def test_logs_of_a_running_subjob(world: World) -> None:
    """Expected (rows 141, 145; `peek`): the last lines that its pilot sent, while it runs, of any
    attempt; an attempt that is not there is refused."""
    job = Job(
        application=Executable("make"),
        backend=JEDI(site="SITE_A"),
        splitter=ArgSplitter([["1"], ["2"]]),
    )
    assert job.submit()
    task = int(job.backend.id)
    everything(world)
    first = jobs(world, task, "activated")[0]
    take(world, [first])
    assert job.subjobs(0).peek() == ""
    with world.engine.begin() as tx:
        sent = "INSERT INTO jedi_job_tail (pandaid, stdout_tail, stderr_tail) VALUES (:j, :o, :e)"
        tx.execute(text(sent), {"j": first, "o": "a\nb\nc\n", "e": "warned\n"})
    assert job.subjobs(0).peek() == "a\nb\nc" and job.subjobs(0).peek(lines=1) == "c"
    assert job.subjobs(0).peek("stderr") == "warned"
    end(world, [first], "failed")
    make_due(world)
    everything(world)
    assert len(job.subjobs(0).attempts) == 2
    assert (job.subjobs(0).peek(), job.subjobs(0).peek(attempt=1)) == ("", "a\nb\nc")
    assert job.subjobs(0).attempts[0].peek(lines=2) == "b\nc"
    with pytest.raises(NotFound, match="no attempt 3"):
        job.subjobs(0).log(attempt=3)


def test_job_without_splitter_on_jedi(world: World) -> None:
    """Expected: a task with one unit, which shows no subjobs; `kill` ends it, `resubmit` makes it
    submitted again, and it completes."""
    job = Job(application=Executable("echo", args=["a b"]), backend=JEDI(site="SITE_A"))
    assert job.submit() and list(job.subjobs) == []
    task = int(job.backend.id)
    everything(world)
    [one] = with_commands(world, task)
    assert one.jobparameters == "echo 'a b'"
    assert job.kill() and fresh(job).status == "killed"
    assert work_off(world, task) == "failed"
    assert job.resubmit() and fresh(job).status == "submitted"
    assert work_off(world, task) == "done"
    assert fresh(job).status == "completed"


def test_previews_ask_jedi_for_its_cuts(world: World) -> None:
    """Expected: `dry run: "412 files -> 21 subjobs"`, here 5 files by two; an unknown dataset is a
    mistake of the preview, and nothing is submitted."""
    files = {f"f{n}": b"1\n" for n in range(5)}
    put_file_dataset(world, "demo:in", files, "SITE_A_DATADISK")
    job = Job(
        application=Executable("true"),
        backend=JEDI(),
        inputdata=Dataset("demo:in"),
        splitter=FileSplitter(files=2),
    )
    assert str(job.preview()) == "5 inputs -> 3 subjobs"
    job.inputdata = Dataset("demo:nowhere")
    found = job.preview()
    assert not found and "demo:nowhere" in str(found)
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_tasks")) == 0
