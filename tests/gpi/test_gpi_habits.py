"""Habits of people who know Ganga, and the remedies that messages name. See docs/ganga.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jedi_client import (
    ArgSplitter,
    Executable,
    FileSplitter,
    Job,
    JobError,
    Script,
    TextMerger,
    folders,
    jobs,
)
from jedi_client.errors import BadInput
from jedi_client.gpi.report import NoSuchJob, Report
from jedi_client.gpi.session import SESSION, Session
from support.bench import Bench, BenchRunner

WAIT_S = 30

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("inputfiles", "j.inputsandbox"),
        ("outputfiles", "j.outputsandbox"),
        ("postprocessors", "j.merge"),
        ("outputdir", r"j.output\(name\)"),
        ("force_status", "force=True"),
    ],
)
def test_names_of_ganga_have_a_remedy(name: str, remedy: str) -> None:
    """Rule: "bad input gets errors that name field, value, rule and remedy"."""
    j = Job()
    with pytest.raises(AttributeError, match=f"Job has no {name}.*{remedy}"):
        getattr(j, name)
    with pytest.raises(BadInput, match=rf"Job\.{name}: 5: Job has no such property.*{remedy}"):
        setattr(j, name, 5)
    with pytest.raises(BadInput, match=remedy):
        Job(**{name: 5})
    assert jobs.ids() == [0]


def test_aliases_of_ganga() -> None:
    """Ganga: `Executable.env`, `SplitByFiles(filesPerJob=20)`, `TextMerger(ignorefailed=True)`."""
    j = Job(application=Executable("echo", env={"A": "1"}))
    j.application.env = {"B": "2"}
    assert j.application.environment == {"B": "2"} == j.application.env
    assert FileSplitter(filesPerJob=20) == FileSplitter(files=20)
    assert TextMerger(["x"], ignorefailed=True).ignore_missing


def test_names_of_classes_stand_for_their_defaults() -> None:
    """ "The name in quotes is enough": for backends, and for each other part."""
    j = Job(application="Script", backend="JEDI", splitter="ArgSplitter", merger="TextMerger")
    assert (j.application, j.splitter) == (Script(), ArgSplitter())
    for bad in ("Job", "JobTemplate", "Application", "TextMerger", "what?"):
        with pytest.raises(BadInput, match=r"is no application\. Give one of Executable, "):
            j.application = bad


def test_selections() -> None:
    """Row 20 of the suite: "select by name/type, unknown attribute error"; Ganga's patterns."""
    for name in ("fit 1", "fit 2", "fit [1]", "plot"):
        Job(name=name)
    assert jobs.select(name="fit*").ids() == [0, 1, 2]
    assert jobs.select(name="fit ?").ids() == [0, 1]
    assert jobs.select(name="fit [1]").ids() == [2]
    with pytest.raises(BadInput, match=r"status: 'complete': is no status\. Did you mean complet"):
        jobs.select(status="complete")
    with pytest.raises(
        BadInput, match=r"statu: 'new': is nothing that jobs have\. Did you mean sta"
    ):
        jobs.select(statu="new")
    assert jobs.select(status="new").ids() == [0, 1, 2, 3]
    with pytest.raises(NoSuchJob, match=r"There is no job -1\. .* jobs\[-1\] counts from the end"):
        jobs(-1)
    with pytest.raises(AttributeError, match=r"jobs has no kill. For all .* jobs.select\(\).kill"):
        jobs.kill()


def test_reports_in_print() -> None:
    """A report is short and says in words what was done."""
    assert repr(Report("submit", (None,))) == "submit: done"
    assert repr(Report("kill", ())) == "kill: nothing to do"
    assert repr(Report("kill", (0, 1))) == "kill: 2 done"
    assert str(Report("kill", (0,), {1: "why"})) == "kill: 1 done, 1 refused\n  1: why"


def test_folders_take_jobs_alone() -> None:
    """Ganga's `jobtree.add(j, "/x")`: the path is no job."""
    j = Job()
    values: list[Any] = ["/x/y", "x", None, 2.5]
    for bad in values:
        with pytest.raises(BadInput, match=r"is no job\. Give jobs, .* folders.cd\(path\).add"):
            folders.add(j, bad)
    assert folders.ls().jobs == []


def test_words_about_a_job_without_subjobs(tmp_path: Path, monkeypatch: Any) -> None:
    """A job without splitter has no subjobs: its reason names none. Row 74: "job fails with that
    file named"."""
    monkeypatch.chdir(tmp_path)
    j = Job(application=Executable("false"))
    j.submit()
    assert j.wait(WAIT_S) == "failed"
    assert j.why == "Job 0 is failed.\n  Its exit code is 1."
    assert j.reason == "Its exit code is 1." and "reason: Its exit code is 1." in str(j)
    assert jobs.select(reason="*exit code*").ids() == [0]
    silent = Job(application=Executable("true"), outputsandbox=["fit.root"])
    assert silent.reason is None
    silent.submit()
    assert silent.wait(WAIT_S) == "failed"
    assert silent.reason == "It made no fit.root."
    values: list[Any] = [0, -1, "cat"]
    for bad in values:
        with pytest.raises(BadInput, match=f"lines: {bad!r}: is no number above 0"):
            j.peek("stdout", bad)
    (tmp_path / "fit.sh").write_text("#!/bin/sh\n")
    j = Job(application=Executable("fit.sh"))
    with pytest.raises(JobError, match=r'no program fit.sh on this machine. .* Script\("fit.sh"\)'):
        j.submit()


def test_the_reason_of_a_subjob(runner: BenchRunner) -> None:
    j = Job(backend=Bench(), splitter=ArgSplitter([["a"], ["b"]]))
    j.submit()
    j.subjobs(1).kill()
    assert j.subjobs(0).why == "Subjob 0.0 is submitted."
    assert j.subjobs(1).why == "Subjob 0.1 is killed."
    with pytest.raises(AttributeError, match=r"Subjob has no outputdir\. j\.outputs"):
        _ = j.subjobs(0).outputdir
    with pytest.raises(BadInput, match="status: 'killd': is no status"):
        j.subjobs.select(status="killd")


def test_another_session_renames_a_job(runner: BenchRunner) -> None:
    """Row 154: two sessions; "a session finds the changes of others"."""
    j = Job(name="a", comment="b")
    other = Session()
    other.jobs(0).name, other.jobs(0).comment = "new", "remark"
    SESSION.jobs._synced_at = 0.0  # as if 0.2 s had passed
    assert (j.name, j.comment) == ("new", "remark")
    other.close()
