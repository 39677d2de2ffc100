"""Merges that fail, and the status of their jobs. Source: docs/reference/ganga.md#status."""

from __future__ import annotations

from pathlib import Path

import pytest
from jedi_client import ArgSplitter, CustomMerger, Job, JobError, TextMerger, jobs
from jedi_client.gpi.report import MergeFailed
from jedi_client.gpi.session import SESSION
from support.bench import Bench, BenchRunner


def ended(runner: BenchRunner, program: Path) -> Job:
    """A job whose two subjobs have completed. Each has the output out.txt."""
    j = Job(backend=Bench(), splitter=ArgSplitter([["a"], ["b"]]), outputsandbox=["out.txt"])
    j.merge(CustomMerger(["out.txt"], program=str(program)))
    j.submit()
    runner.move(str(j.backend.id), "completed")
    SESSION.monitor.expire(j.id)
    return j


def merger(folder: Path, text: str) -> Path:
    program = folder / "add.py"
    program.write_text(text)
    return program


def test_a_failing_merge_fails_the_job(runner: BenchRunner, tmp_path: Path) -> None:
    """Check 24: "failing merge fails the master"; the reason says why, and another session sees
    it. Merged after all, it is completed (row 32: "else any completed → `completed`")."""
    program = merger(tmp_path, "raise SystemExit('no histogram h')")
    j = ended(runner, program)
    seen = []
    watching = jobs.watch(lambda change: seen.append((change.what, change.value)))
    assert j.status == "completed"
    with pytest.raises(MergeFailed, match=r"Job 0: .* ended with exit code 1: no histogram h"):
        j.wait()
    assert j.status == "failed" and [s.status for s in j.subjobs] == ["completed"] * 2
    assert "The merge failed: " in j.why and "no histogram h" in j.why
    assert ("status", "failed") in seen
    assert j.wait() == "failed"  # once is enough
    with pytest.raises(JobError, match=r"Job 0 has no merged file 'out.txt'\. The merge failed"):
        j.output("out.txt")
    SESSION.close()
    j = jobs(0)
    assert j.status == "failed"
    merger(tmp_path, "import sys; open(sys.argv[1], 'w').write('sum')")
    [path] = j.merge()
    assert path.read_text() == "sum" and j.status == "completed"
    watching.stop()


def test_a_resubmission_forgets_the_failed_merge(runner: BenchRunner, tmp_path: Path) -> None:
    """Row 42: "From completed/failed/killed/running masters, `sub.resubmit()` makes the master
    submitted"; the next end merges again."""
    j = ended(runner, merger(tmp_path, "raise SystemExit(1)"))
    with pytest.raises(MergeFailed):
        j.output("out.txt")
    assert j.status == "failed"
    assert j.subjobs(0).resubmit() and j.status == "submitted"
    merger(tmp_path, "import sys; open(sys.argv[1], 'w').write('sum')")
    runner.move(str(j.backend.id), "completed", [0])
    SESSION.monitor.expire(j.id)
    assert j.wait() == "completed" and j.output("out.txt").read_text() == "sum"


def test_another_merge_is_no_verdict(runner: BenchRunner, tmp_path: Path) -> None:
    """Expected: a merge by hand that fails, or whose result exists, changes no status."""
    j = ended(runner, merger(tmp_path, "import sys; open(sys.argv[1], 'w').write('sum')"))
    assert j.wait() == "completed"
    with pytest.raises(MergeFailed, match="exists"):
        j.merge()
    with pytest.raises(MergeFailed, match="exists"):
        j.merge(TextMerger(["out.txt"]))
    assert j.status == "completed"


def test_a_new_job_has_no_output(runner: BenchRunner, tmp_path: Path) -> None:
    """The error names the remedy; there is no subjob to look at yet."""
    j = Job(splitter=ArgSplitter([["a"]]), outputsandbox=["out.txt"])
    with pytest.raises(JobError, match="Job 0 is new: no backend has it"):
        j.output("out.txt")


def test_a_new_job_names_no_subjob_for_its_log(runner: BenchRunner) -> None:
    """The remedy is possible now: a new job has no subjobs yet."""
    j = Job(backend=Bench(), splitter=ArgSplitter([["a"]]))
    for ask in (j.log, j.peek, lambda: j.attempts):
        with pytest.raises(JobError, match=r"Job 0 is new: no backend has it\. Submit it\."):
            ask()
    j.submit()
    for ask in (j.log, j.peek, lambda: j.attempts):
        with pytest.raises(JobError, match=r"has subjobs: each has its own \w+: j.subjobs\(0\)"):
            ask()
