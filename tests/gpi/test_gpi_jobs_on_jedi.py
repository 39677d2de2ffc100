"""Jobs of the Python interface on JEDI, from submission to output.

Expected values: docs/reference/ganga.md#submission; docs/reference/ganga.md#verbs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jedi_client import JEDI, ArgSplitter, Executable, Job, Script
from jedi_client.gpi.session import SESSION
from support.commanding import everything, work_off
from support.herds import jobs as with_commands

from jedi.agent.base import World

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
    job = Job(name="fit", application=Script(str(script)), backend=JEDI(site="SITE_A"),
              splitter=ArgSplitter([["1"], ["2"], ["3"]]), outputsandbox=["hist.txt"])  # fmt: skip
    report = job.submit()
    assert report and len(job.subjobs) == 3 and job.status == "submitted"
    task = int(job.backend.id)
    everything(world)
    assert [one.jobparameters for one in with_commands(world, task)] == [
        f"/bin/sh ./fit.sh {n}" for n in (1, 2, 3)
    ]  # fmt: skip
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
