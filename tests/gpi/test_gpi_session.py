"""Jobs on this machine, from their description to their output. Source: docs/reference/ganga.md."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from jedi_client import (
    ArgSplitter,
    Executable,
    File,
    FileSplitter,
    Job,
    JobError,
    JobTemplate,
    Script,
    SizeSplitter,
    TextMerger,
    folders,
    jobs,
    templates,
)
from jedi_client.errors import NotFound
from jedi_client.gpi.report import NoSuchJob
from jedi_client.gpi.session import SESSION
from support.bench import Bench, BenchRunner

WAIT_S = 60.0


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the session, with the files of its job."""
    monkeypatch.chdir(tmp_path)
    Path("fit.sh").write_text('cat cuts.json calib.db\necho "$2 $3"\necho "$3" > hist.txt\n')
    Path("cuts.json").write_text("{}\n")
    Path("calib.db").write_text("first\n")
    for name in ("a", "b", "c"):
        Path(name).write_text(name)
    return tmp_path


def test_the_session_of_the_interface_on_this_machine(here: Path) -> None:
    """The session of the interface, statement by statement, with files of this machine instead of
    a dataset, and texts instead of ROOT files."""
    j = Job(name="Z->mumu, 2025", application=Script("fit.sh", args=["--year", "2025"]))
    j.inputsandbox = [str(here / "cuts.json"), File("calib.db", shared=True)]
    j.inputdata = ["a", "b", "c"]
    j.outputsandbox = ["hist.txt"]
    j.splitter = FileSplitter(files=2)
    j.merge(TextMerger(["hist.txt"]))
    JobTemplate(j, name="zmumu fit")
    folders.cd("/2025/zmumu").add(j)

    assert str(j.preview()) == "3 inputs -> 2 subjobs"
    report = j.submit(keep_going=True)
    assert report and not report.failed

    assert j.status in ("submitted", "running", "completed")
    assert jobs(f"{j.id}.1") is jobs((j.id, 1)) is jobs(j.id).subjobs(1)
    assert j.wait(WAIT_S) == "completed"
    assert not j.subjobs.select(status="failed").resubmit()
    assert j.subjobs(1).attempts[-1].log() == "{}\nfirst\n2025 \n"
    debug = j.subjobs(1).copy()
    assert debug.parent is None and debug.splitter is None and debug.status == "new"
    debug.application.args += ["--verbose"]
    debug.backend = "Local"
    (here / "calib.db").write_text("second\n")
    debug.submit()
    assert debug.wait(WAIT_S) == "completed"

    assert debug.log() == "{}\nfirst\n2025 --verbose\n" and debug.peek(lines=1) == "2025 --verbose"
    assert j.output("hist.txt").open().read() == "\n\n"
    assert j.output("hist.txt") == SESSION.workspace.output(j.id) / "hist.txt"
    assert debug.output("hist.txt").read_text() == "--verbose\n"
    assert debug.inputdata.files == [str(here / "c")]
    again = Job(templates("zmumu fit"))
    assert again == j and (again.status, again.folder, j.folder) == ("new", None, "/2025/zmumu")


def test_subjobs_die_and_live_again_one_by_one(home: Path) -> None:
    """Rows 11, 12, 42, 64, 65; checks 6, 7, 13: killing one leaves its siblings, then the master is
    killed cleanly; a resubmitted subjob keeps its id and its parent, in place."""
    sleep = [["-c", "sleep 60"]] * 2 + [["-c", "true"]]
    j = Job(application=Executable("sh"), splitter=ArgSplitter(sleep), backend={"type": "Local"})
    with pytest.raises(JobError, match="no backend has it"):
        j.kill()
    j.submit()
    first = j.subjobs(0)
    assert first.kill().done == [0]
    for change in j.watch():
        if j.subjobs(0).status == "killed" and j.subjobs(2).status == "completed":
            break
        assert change.job == j.id
    assert j.subjobs(1).status in ("submitted", "running")
    assert j.status in ("submitted", "running")
    assert j.subjobs.kill().done == [1]
    assert j.wait(WAIT_S) == "completed"  # rule 4 before rule 5: two are killed
    assert not j.kill() and not j.kill().failed
    assert j.subjobs(2).resubmit().done == [2] and j.subjobs(2) is not first
    assert j.status in ("submitted", "running", "completed")
    assert j.wait(WAIT_S) == "completed"
    assert [len(s.attempts) for s in j.subjobs][2] == 2


def test_removal_kills_and_leaves_nothing(home: Path) -> None:
    """Row 110: "kills if live, deletes workspace, id not reused, folder links vanish"; check 25."""
    j = Job(application=Executable("sleep", args=["60"]))
    folders.cd("/x").add(j)
    j.submit()
    assert j.remove().done == (0,)
    assert len(jobs) == 0 and not SESSION.workspace.of(0).exists()
    assert list(folders.cd("/x")) == []
    with pytest.raises(NotFound):
        j.comment = "gone"
    assert Job().id == 1


def test_the_last_changes_of_a_job_come_in_order(home: Path) -> None:
    """Check 17, row 124: "events `status` and `subjobs` (list of ids) arrive in order, once", also
    to the asynchronous twin."""
    j = Job(application=Executable("true"), splitter=ArgSplitter([["1"], ["2"]]))
    j.submit()

    async def seen() -> list[tuple[str, object]]:
        return [(one.what, one.value) async for one in j.watch()]

    found = asyncio.run(seen())
    statuses = [value for what, value in found if what == "status"]
    assert statuses[-1] == "completed" and len(set(map(str, statuses))) == len(statuses)
    assert {k for what, value in found if what == "subjobs" for k in list(value)} == {0, 1}  # type: ignore[call-overload]


def test_outputs_are_found_by_their_declared_names(home: Path, tmp_path: Path) -> None:
    """Row 73: `x` is kept as x, `/y` as y, `lfn:/z` as z; so is a file of a directory."""
    y = tmp_path / "y"
    made = f"mkdir d; echo x > d/x; echo y > {y}; echo z > z"
    declared = ["d/x", str(y), "lfn:/c/z"]
    j = Job(Executable("sh", args=["-c", made]), outputsandbox=declared)
    j.submit()
    assert j.wait(WAIT_S) == "completed", j.reason
    assert sorted(one.name for one in j.outputs()) == ["x", "y", "z"]
    for name, kept in zip(declared, "xyz", strict=True):
        assert j.output(name) == j.output(kept) == home / "jobs" / "0" / "output" / kept
        assert j.output(name).read_text() == f"{kept}\n"
    with pytest.raises(JobError, match="has no output 'e/x'"):
        j.output("e/x")


def test_merging_now_later_or_never(home: Path) -> None:
    """Row 77: "finished job: merges now; new job: at the end; `merge(None)` disables; result in the
    master's output"."""
    write = [["-c", f"echo {k} > out.txt"] for k in range(2)]
    merger = TextMerger(["out.txt"])
    j = Job(application=Executable("sh"), splitter=ArgSplitter(write), outputsandbox=["out.txt"])
    j.merge(merger)
    never = j.copy()
    never.merge(None)
    assert (j.merger, never.merger) == (merger, None)
    jobs[:].submit()
    jobs.wait(WAIT_S)
    assert j.output("out.txt").read_text() == "0\n1\n"
    with pytest.raises(JobError, match="no merged file"):
        never.output("out.txt")
    assert never.merge(merger) == [SESSION.workspace.output(never.id) / "out.txt"]
    assert never.output("out.txt").read_text() == "0\n1\n"


@pytest.mark.usefixtures("home")
def test_a_resubmission_merges_anew(tmp_path: Path) -> None:
    """Expected: the merged file has the outputs of the last attempts, never those of before."""
    turn = tmp_path / "turn"
    turn.write_text("first")
    show = [["-c", f"cat {turn} > out.txt; echo {k} >> out.txt"] for k in range(2)]
    j = Job(application=Executable("sh"), splitter=ArgSplitter(show), outputsandbox=["out.txt"])
    j.merge(TextMerger(["out.txt"]))
    j.submit()
    j.wait(WAIT_S)
    assert j.output("out.txt").read_text() == "first0\nfirst1\n"
    turn.write_text("second")
    j.subjobs(1).resubmit()
    j.wait(WAIT_S)
    assert j.output("out.txt").read_text() == "first0\nsecond1\n"


def test_a_lost_answer_is_settled_although_the_input_is_gone(home: Path, tmp_path: Path) -> None:
    """Row 45: an unknown job is settled by its key. Its input may be gone by then."""
    files = [tmp_path / f"{i}.dat" for i in range(3)]
    for one in files:
        one.write_bytes(b"0123456789")
    j = Job(
        application=Executable("true"),
        inputdata=[str(one) for one in files],
        splitter=SizeSplitter(gb=1e-8),
        backend="Local",
    )
    log = home / "helper.log"
    log.mkdir()  # no helper can be started: the submission is written, and has no answer
    with pytest.raises(IsADirectoryError):
        j.submit()
    assert j.record.status == "unknown"
    log.rmdir()
    files[0].unlink()
    assert j.wait(WAIT_S) == "completed"
    assert [one.status for one in j.subjobs] == ["completed"] * 3


def test_an_answer_without_news_reads_no_record(runner: BenchRunner) -> None:
    """Complaint: "slow with many subjobs": the status of one job costs no statement for the others,
    if its backend has no news. A number finds its subjob without a search."""
    many = [Job(backend=Bench(), splitter=ArgSplitter([["a"], ["b"]])) for _ in range(3)]
    for one in many:
        one.submit()
    SESSION.monitor.expire(0)
    assert many[0].status == "submitted"  # this answer brings the cursors
    store: Any = SESSION.store
    statements: list[str] = []
    store.file._opened().set_trace_callback(statements.append)
    SESSION.monitor.expire(0)
    assert many[0].status == "submitted"
    assert runner.count("states") == 2
    assert [one for one in statements if "FROM records" in one and " IN (" in one] == []
    assert many[0].subjobs.ids() == [0, 1] and many[0].subjobs(1).id == 1
    with pytest.raises(NoSuchJob):
        many[0].subjobs(2)
