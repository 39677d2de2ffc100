"""Registries, templates and slices. Source: docs/reference/ganga.md#registries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jedi_client import (
    JEDI,
    ArgSplitter,
    Executable,
    Job,
    JobError,
    JobTemplate,
    Local,
    Script,
    folders,
    jobs,
)
from jedi_client import templates as recipes
from jedi_client.errors import BadInput
from jedi_client.gpi.refresh import Change
from jedi_client.gpi.report import NoSuchJob, NotWritable, RegistryIsReadOnly
from jedi_client.gpi.session import SESSION, Session
from jedi_client.gpi.store.opening import open_store
from support.bench import Bench, BenchRunner


def split(n: int = 3, **values: Any) -> Job:
    return Job(backend=Bench(), splitter=ArgSplitter([[str(k)] for k in range(n)]), **values)


def test_jobs_register_themselves(home: Path) -> None:
    """Row 97: "`Job()` gets an id and is in `jobs` after restart; `Executable()` alone is not
    persisted"; check 1: ids are consecutive, and agree on registry, selection and slice."""
    made = [Job(name=f"n{i}") for i in range(3)]
    Executable("true")
    assert [j.id for j in made] == jobs.ids() == jobs.select().ids() == jobs[:].ids() == [0, 1, 2]
    assert type(made[0].id) is int and made[0]._schemaVersion == 1
    SESSION.close()
    assert [(j.id, j.name, j.status) for j in jobs] == [
        (0, "n0", "new"),
        (1, "n1", "new"),
        (2, "n2", "new"),
    ]
    assert not home.joinpath("jobs").exists()


def test_the_constructor_of_a_job_reports_all_mistakes_at_once(home: Path) -> None:
    with pytest.raises(BadInput) as found:
        Job(nme=1, name=3, comment=5, backend="zz", splitter="x")
    assert {one.path for one in found.value.problems} == {
        "Job.nme",
        "name",
        "comment",
        "Job.backend",
        "Job.splitter",
    }
    assert "comment: 5: is not a string. Write '5'." in map(str, found.value.problems)
    assert jobs.ids() == []


def test_a_job_is_found_in_every_way(runner: BenchRunner) -> None:
    """Rows 17-20, 71; check 20: "id, tuple, name, negative index, slice, select by name/type,
    unknown attribute error"; "malformed string → key error"."""
    a, b = Job(name="twin"), split(name="large job")
    Job(name="twin")
    b.submit()
    s = b.subjobs(2)
    assert jobs(0) is jobs("0") is jobs[0] is a and jobs[-2] is jobs("large job") is b
    assert jobs() is jobs and jobs["large job"] is b
    assert s is b.subjobs(s.id) is b.subjobs[-1] is b[2] is jobs((1, 2)) is jobs("1.2")
    assert (b.fqid, s.fqid, b.ids, s.ids) == ("1", "1.2", [1], [1, 2])
    assert jobs[1:].ids() == [1, 2] and jobs.select(name="twin").ids() == [0, 2]
    assert jobs.select(backend="Bench").ids() == jobs.select(status="submitted").ids() == [1]
    assert jobs.select(minid=1, maxid=1, application=Executable()).ids() == [1]
    assert b.subjobs.select(minid=1)(2) is s and b.subjobs.select(status="new").ids() == []
    for wrong in ("1.x", "1.", "1.7", "none", (1, 9), 7, -1, True, (1, "2"), 1.5, "twin"):
        with pytest.raises(KeyError):
            jobs(wrong)
    for deep in ("1.2.0", (1, 2, 0)):
        with pytest.raises(NoSuchJob, match=r"Subjob 1\.2 has no subjobs"):
            jobs(deep)
    with pytest.raises(BadInput, match="colour"):
        jobs.select(colour="red")
    with pytest.raises(BadInput, match="colour"):
        b.subjobs.select(colour="red")
    with pytest.raises(IndexError):
        jobs[9]


def test_copies_are_equal_and_share_nothing(home: Path) -> None:
    """Checks 2, 3: all properties can be set, read back, copied; copies share nothing."""
    j = Job(name="a", comment="b", application=Executable("x", args=["1"]), outputsandbox="out")
    for other in (j.copy(), Job(j)):
        assert (other, other.name, other.comment) == (j, "a", "b") and other.id != j.id
        other.application.args += ["2"]
        other.outputsandbox.append("more")
        assert other != j and (j.application.args, j.outputsandbox) == (["1"], ["out"])
    assert Job(j, application="y" and Executable("y")).application.executable == "y"


def test_nested_changes_are_kept_at_once(home: Path) -> None:
    """Row 149: "`j.application.x=…` persists when j is managed; `b=LSF()` alone is transient;
    assigning copies into the job"."""
    own = Executable("x")
    j = Job(application=own)
    j.application.args += ["a"]
    j.application.environment["B"] = "c"
    own.args.append("lost")
    SESSION.close()
    assert jobs(0).application == Executable("x", args=["a"], environment={"B": "c"})


def test_submitted_jobs_are_read_only(runner: BenchRunner) -> None:
    """Rows 24, 70, 114, 153, check 16: new: writable, other: NotWritable, and then read-only
    registry, in that order; D16: name and comment are writable in any state."""
    j = split()
    for name, value in (("id", 3), ("status", "new"), ("folder", "/x"), ("fqid", "1")):
        with pytest.raises(BadInput, match="read-only"):
            setattr(j, name, value)
    j.submit()
    s = j.subjobs(1)
    with pytest.raises(NotWritable, match="only new jobs"):
        j.application = Script("x.py")
    for act in (
        lambda: j.application.args.append("x"),
        lambda: s.application.args.append("x"),
        lambda: setattr(s.application, "executable", "x"),
        lambda: setattr(s, "comment", "x"),
        lambda: s.inputsandbox.append("x"),
    ):
        with pytest.raises(NotWritable):
            act()
    assert s.application.args == ["1"] and j.application.args == []
    j.name, j.comment = "late", "remark"
    assert (jobs(0).name, s.name, s.comment) == ("late", "late", "remark")
    reader = Session(open_store(SESSION.workspace.root, read_only=True), SESSION.workspace.root)
    Job()
    with pytest.raises(NotWritable, match="only new jobs"):
        reader.jobs(0).splitter = None
    with pytest.raises(RegistryIsReadOnly):
        reader.jobs(1).splitter = None
    with pytest.raises(RegistryIsReadOnly):
        reader.jobs(0).name = "x"
    assert reader.jobs(0).status == "submitted" and len(reader.jobs(0).subjobs) == 3
    reader.close()


def test_two_sessions_never_lose_a_change(home: Path) -> None:
    """Rows 154, 157, 158: a late change is dropped, its writer is warned, and sees the other's."""
    other = Session(root=home)
    j = Job(application=Executable("x"))
    held = other.jobs(0)
    old = held.application
    assert old.args == []
    j.application.args = ["first"]
    with pytest.raises(NotWritable, match="Another session"):
        old.args.append("late")
    with pytest.raises(NotWritable, match="Another session"):
        old.executable = "lost"
    assert held.application.args == ["first"] == j.application.args
    held.application.args += ["second"]
    j.comment = "look"
    jobs.sync(0)
    assert j.application.args == ["first", "second"]
    other.close()


def test_templates_are_recipes(runner: BenchRunner) -> None:
    """Rows 101, 102; check 18: a registry of their own, ids that don't mix, copies both ways,
    neither submitted nor killed."""
    Job()
    j = split(name="recipe")
    t = JobTemplate(j)
    assert (t.id, t.name, recipes.ids(), recipes("recipe") is t) == (0, "recipe", [0], True)
    again = Job(t)
    assert again == j and again.id == 2
    t.application.args = ["changed"]
    assert again.application.args == []
    for verb in (t.submit, t.kill):
        with pytest.raises(JobError, match="not run"):
            verb()
    assert t.remove() and len(recipes) == 0


def test_subjobs_are_neither_submitted_nor_removed(runner: BenchRunner) -> None:
    """Rows 8, 9, 10; D4: "`sub.remove()` and `sub.submit()` return a **falsy report** that names
    the reason and change nothing; they don't raise"; a copy is a new job without parent."""
    j = split()
    j.submit()
    s = j.subjobs(1)
    for report in (s.submit(), s.remove()):
        assert not report and "with their job" in report.failed[1]
    assert len(j.subjobs) == 3 and s.status == "submitted"
    new = s.copy()
    assert (new.parent, new.status, new.splitter, new.id) == (None, "new", None, 1)
    assert new.application == s.application and new.application.args == ["1"]


def test_verbs_ask_once(runner: BenchRunner) -> None:
    """Rows 13, 60, 61, 68: "one backend call per master, not one per subjob (count calls)"; the
    hint `keep_going` counts for kill and resubmit, too."""
    a, b, c = split(), split(), Job(backend=Bench())
    assert jobs.select(maxid=1).submit() and runner.count("submit") == 2
    with pytest.raises(JobError, match="only new jobs"):
        jobs[:].submit()
    assert c.status == "new"
    report = jobs[:].kill(keep_going=True)
    assert (report.done, set(report.failed)) == ([0, 1], {2}) and runner.count("kill") == 2
    assert a.status == b.status == "killed"
    runner.refuse = {1: "no slot"}
    report = a.subjobs.resubmit(keep_going=True)
    assert (report.done, report.failed) == ([0, 2], {1: "no slot"})
    assert runner.count("resubmit") == 1 and a.status == "submitted"
    with pytest.raises(JobError, match="no slot"):
        b.subjobs.resubmit()
    assert [s.status for s in b.subjobs] == ["submitted", "killed", "submitted"]
    with pytest.raises(JobError, match="is submitted"):
        b.subjobs(0).resubmit()
    for other in ("Local", Local(slots=2), JEDI(cores=2)):
        for one in (b, b.subjobs(1)):
            with pytest.raises(JobError, match="on Bench; a resubmission can't move it"):
                one.resubmit(backend=other)
            report = one.resubmit(backend=other, keep_going=True)
            assert not report and "Submit a copy" in report.failed[None]
    runner.refuse = {}
    assert b.subjobs(1).resubmit(backend=Bench(cores=4))
    assert runner.calls[-2][1][1]["cores"] == 4 and runner.calls[-2][1][0] == [1]
    runner.kill = None  # type: ignore[assignment,method-assign]
    with pytest.raises(JobError, match="Backend Bench can't kill"):
        b.kill()
    assert b.status == "submitted"


def test_a_thousand_readings_ask_once(runner: BenchRunner) -> None:
    """Rows 119, 122: "1000 reads of `j.status` in a loop cause ≤ 1 query per 5 s", for all jobs of
    a backend together; row 129, check 26: none while monitoring is off."""
    made = [split() for _ in range(3)]
    for j in made:
        j.submit()
    jobs.monitoring = False
    runner.move("bench-0", "completed")
    assert {j.status for j in made} == {"submitted"} and runner.count("states") == 0
    jobs.monitoring = True
    assert [j.status for _ in range(400) for j in made][-3:] == ["completed"] + ["submitted"] * 2
    assert runner.count("states") == 1
    assert len(runner.calls[-1][1]) == 3
    runner.move("bench-1", "failed", [0])
    assert made[1].status == "submitted"
    SESSION.monitor._asked_at["Bench"] -= 5.0
    assert made[1].status == "submitted" and made[1].subjobs(0).status == "failed"
    assert runner.calls[-1][1] == {"bench-1": "3", "bench-2": "3"}


def test_observers_see_changes_in_order_and_harm_nobody(runner: BenchRunner) -> None:
    """Rows 124, 126, 128: "sees changes made by monitor and other sessions; exception in one
    observer harms none"; "1000 changes in a second give few messages"."""
    j = split(1000)
    j.submit()
    seen: list[Change] = []

    def broken(change: Change) -> None:
        raise ZeroDivisionError

    jobs.watch(broken)
    watching = jobs.watch(seen.append)
    runner.move("bench-0", "running")
    SESSION.monitor.expire(j.id)
    assert j.status == "running"
    runner.move("bench-0", "completed")
    other = Session(root=SESSION.workspace.root)
    assert other.jobs(0).status == "completed"
    jobs.sync(0)
    assert j.status == "completed"
    ks = list(range(1000))
    found = [(one.what, one.value) for one in seen]
    assert found[:2] == [("subjobs", ks), ("status", "running")]
    assert found[2:] == [("subjobs", ks), ("status", "completed")]
    assert len(SESSION.monitor.errors) == 1
    watching.stop()
    j.remove()
    assert len(seen) == 4
    other.close()


def test_a_service_that_is_away_leaves_the_last_state(runner: BenchRunner) -> None:
    """A reading with the service away gives the last known state; the error is kept."""
    j = split()
    j.submit()
    runner.down = True
    assert j.status == "submitted" and "Bench" in SESSION.monitor.errors
    with pytest.raises(TimeoutError, match="still submitted"):
        j.wait(0.01)
    for one in (j, jobs, jobs[:]):
        with pytest.raises(TimeoutError):
            one.wait(timeout=0.01)
    runner.down = False
    SESSION.monitor.expire(j.id)
    assert j.status == "submitted" and "Bench" not in SESSION.monitor.errors


def test_results_are_brought_here_once(runner: BenchRunner) -> None:
    """Row 28: "Output of (i,k) lies under `…/i/k/output`"; logs and attempts of each subjob."""
    j = split(2)
    j.submit()
    s = j.subjobs(1)
    assert s.output("out.txt") == SESSION.workspace.output(j.id, 1) / "out.txt"
    assert s.output("out.txt").read_text() == "1\n" and len(j.outputs()) == 2
    assert s.log("stderr") == "stderr of 1\nend\n" and s.peek(lines=1) == "end"
    assert s.attempts[0].panda_id == 101 and s.attempts[-1].log().startswith("stdout")
    with pytest.raises(JobError, match="no output"):
        s.output("none")
    with pytest.raises(JobError, match="own log"):
        j.log()
    with pytest.raises(JobError, match="no backend has it"):
        Job().log()


def test_folders_hold_jobs(home: Path) -> None:
    """Rows 112, 113: "`folders.cd('/myjobs')['large job']` is the job"; `j.folder` is read-only."""
    j = Job(name="large job")
    folders.cd("/myjobs").add(j)
    assert folders.cd("/myjobs")["large job"] is j and j.folder == "/myjobs"
    with pytest.raises(JobError, match="another registry"):
        Session(root=home).folders.cd("/x").add(j)


def test_a_job_is_short_in_print(runner: BenchRunner) -> None:
    """Complaint: "`print(j)` of a 1000-subjob master prints 196 000 characters"."""
    j = split(1000)
    j.submit()
    assert len(str(j)) < 1000 and "1000 submitted" in str(j)
    assert len(repr(j.subjobs)) < 5000 and "1000 in all" in repr(j.subjobs)


def test_a_torn_record_harms_nobody_else(home: Path) -> None:
    """Check 28: torn record on disk: rest of registry usable."""
    for name in ("a", "b"):
        Job(name=name)
    store: Any = SESSION.store
    with store.file.writing() as db:
        db.execute("UPDATE records SET document = '{' WHERE id = 0")
    SESSION.close()
    assert [j.name for j in jobs] == ["a", "b"] and jobs(1).application == Executable()
    with pytest.raises(JobError, match="damaged"):
        jobs(0).copy()
    assert jobs[:].remove() and len(jobs) == 0


def test_nothing_of_this_name(home: Path) -> None:
    """The errors name the remedy."""
    with pytest.raises(NoSuchJob, match="has none"):
        jobs(0)
    with pytest.raises(JobError, match="Submit it"):
        Job().wait(1)


def test_a_setting_puts_running_first(runner: BenchRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 29, 34: "any subjob submitted or submitting → master `submitted`, whatever the rest"; "a
    setting puts rule 2 before rule 1"."""
    for setting, expected in (("0", "submitted"), ("1", "running")):
        monkeypatch.setenv("JEDI_CLIENT_RUNNING_FIRST", setting)
        SESSION.close()
        j = split()
        j.submit()
        runner.move(str(j.backend.id), "running", [1])
        SESSION.monitor.expire(j.id)
        assert j.status == expected


def test_a_job_that_nobody_can_settle_stops_no_other(runner: BenchRunner) -> None:
    """Row 45: the unknown job waits; the states of the others are read all the same."""
    lost, j = split(), split()
    runner.lose = "request"
    with pytest.raises(JobError, match="lost"):
        lost.submit()
    runner.lose, runner.unsettled = "", True
    j.submit()
    runner.move(str(j.backend.id), "completed")
    assert (lost.status, j.status) == ("unknown", "completed")
    assert str(SESSION.monitor.errors["job 0"]) == "It is not known yet."


def test_an_import_loads_nothing_of_it(home: Path) -> None:
    """Target: "import within 0.15 s"; neither jobs, nor a database, nor a thread, nor `jedi`."""
    code = (
        "import sys, threading, jedi_client\n"
        "found = {'jedi', 'sqlite3', 'jedi_client.gpi'} & {*sys.modules}\n"
        "print(threading.active_count(), sorted(found))\n"
        "from jedi_client import Job, jobs, folders\n"
        "print(threading.active_count(), sorted({'jedi'} & {*sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "1 []\n1 []\n" and not home.exists()


def test_a_mistyped_property_of_a_job_has_a_remedy(home: Path) -> None:
    """Row 147: an unknown attribute is "refused at assignment, with a remedy", also one near to
    `name` or `comment`."""
    for mistake, asked in (("nam", "name"), ("coment", "comment"), ("backnd", "backend")):
        wrong: dict[str, Any] = {mistake: "x"}
        with pytest.raises(BadInput, match=f"Did you mean {asked}"):
            Job(**wrong)
        with pytest.raises(BadInput, match=f"Did you mean {asked}"):
            jobs.select(**wrong)


def test_an_error_of_a_backend_stops_no_other(runner: BenchRunner) -> None:
    """An error of one connection, also of a plug-in's own kind, leaves the last state and stops
    nobody else."""
    j, other = split(), Job()
    j.submit()

    def broken(cursors: Any) -> Any:
        raise KeyError("id")

    runner.states = broken  # type: ignore[method-assign]
    assert (other.status, j.status) == ("new", "submitted")
    assert repr(SESSION.monitor.errors["Bench"]) == "KeyError('id')"


def test_a_removed_job_can_be_shown(home: Path) -> None:
    j = Job()
    j.remove()
    assert repr(j) == "Job(id=0, removed)"


def test_a_job_that_is_being_submitted_is_not_removed(runner: BenchRunner) -> None:
    """A submission under way is never lost: its job is not removed meanwhile."""
    j, reports = split(), []
    submit = runner.submit

    def meanwhile(submission: Any) -> Any:
        other = Session()
        reports.append(other.jobs(j.id).remove(keep_going=True))
        other.close()
        return submit(submission)

    runner.submit = meanwhile  # type: ignore[method-assign]
    with SESSION.workspace.claim(j.id):  # another session is between its checks and `begin`
        assert not j.remove(keep_going=True)
    assert j.submit() and not reports[0] and j.status == "submitted"
