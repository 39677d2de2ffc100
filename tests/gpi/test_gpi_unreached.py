"""Submissions that never reached their service, and jobs that nobody can settle.

Source: docs/reference/ganga.md#submission.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jedi_client import JEDI, ArgSplitter, Executable, Job, JobError, JobTemplate, jobs, templates
from jedi_client.errors import JediError
from jedi_client.gpi import verbs
from jedi_client.gpi.interfaces import Program, Submission, UnitPlan
from jedi_client.gpi.jedi_backend import JediBackend, NotSent
from jedi_client.gpi.session import SESSION
from support.bench import Bench, BenchRunner

NOWHERE = "http://127.0.0.1:1"
"""Nobody listens there: port 1 is reserved."""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("service", [NOWHERE, "unix:/nowhere/api.sock"])
def test_a_job_that_reaches_no_service_stays_new(service: str) -> None:
    """Row 56: "non-split job whose submit fails goes back to new, editable"; 55: "if no subjob was
    accepted the master is new and subjobs []". Only a lost *answer* makes it unknown (row 45)."""
    for splitter in (None, ArgSplitter([["a"], ["b"]])):
        j = Job(application=Executable("true"), backend=JEDI(server=service), splitter=splitter)
        with pytest.raises(JobError, match="JEDI does not answer at"):
            j.submit()
        assert j.status == "new" and j.subjobs == []
        assert "JEDI does not answer at" in j.why
        report = j.submit(keep_going=True)
        assert not report and "does not answer" in str(report)
        j.backend = "Local"  # editable
        assert j.remove()
    assert len(jobs) == 0


def test_a_request_that_was_not_sent_is_known(tmp_path: Path) -> None:
    """The name of the user's tasks is known since an earlier job: only the submission fails."""
    backend = JediBackend(JEDI(server=NOWHERE))
    backend._connection.scope = "user.ana"
    units = [UnitPlan(0, Program("true"))]
    asked = Submission("guid/0/1", "", {}, Program("true"), (), (), (), units, None, True, tmp_path)
    with pytest.raises(NotSent, match="does not answer"):
        backend.submit(asked)


def test_a_job_that_nobody_can_settle_is_removed_by_force(runner: BenchRunner) -> None:
    """Row 45: the unknown job waits. A user who does not want to wait forgets it; the report says
    that the backend may have it."""
    j = Job(backend=Bench())
    runner.lose, runner.down = "answer", True
    with pytest.raises(JobError, match=r"lost \(The answer was lost\)\. It is unknown"):
        j.submit()
    with pytest.raises(JobError, match=r"is unknown: wait .*, or forget it: remove\(force=True\)"):
        j.remove()
    report = j.remove(force=True)
    assert report and report.done == (0,)
    assert "not known whether Bench has the job" in str(report)
    assert len(jobs) == 0


def test_a_torn_record_without_an_end_is_removed_by_force(runner: BenchRunner) -> None:
    """Check 28: "torn record on disk: rest of registry usable"; the torn one can go, whatever its
    status was: a submission that was not settled, a live job, one of no known backend."""
    for _ in range(3):
        Job(backend=Bench())
    jobs(1).submit()
    jobs(2).submit()
    store: Any = SESSION.store
    with store.file.writing() as db:
        db.execute("UPDATE records SET document = '{'")
        db.execute("UPDATE records SET status = 'submitting', backend = 'Bench' WHERE id = 0")
        db.execute("UPDATE records SET backend = NULL WHERE id = 2")
    SESSION.close()
    assert not jobs[:1].remove(keep_going=True)
    report = jobs[:].remove(force=True)
    assert (report.done, jobs.ids()) == ([0, 1, 2], [])
    assert runner.count("kill") == 1 and runner.count("remove") == 1


def test_templates_are_removed_as_a_slice(home: Path) -> None:
    """Check 18: templates have "own registry"; a slice has the verbs of its members."""
    JobTemplate(name="a"), JobTemplate(name="b")
    assert templates[:].remove().done == [0, 1] and len(templates) == 0


def test_a_live_job_of_a_dead_service_is_removed_by_force(
    runner: BenchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ganga's `remove(force=True)`: also if the job can't be killed."""
    monkeypatch.setattr(verbs, "DYING_S", 0.5)
    runner.bulk = True
    j = Job(backend=Bench())
    j.submit()
    runner.unreachable = True
    with pytest.raises(JediError, match="away"):
        j.remove()
    report = j.remove(force=True)
    assert report and "It may go on there as bench-0." in str(report)
    assert len(jobs) == 0
