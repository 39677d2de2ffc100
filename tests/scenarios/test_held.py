"""A job in its owner's hands all its life, in a running system: held before it runs, in its pilot
and after; cancelled with its outputs made; the next attempt is done."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scenarios.real_system import System, until
from sqlalchemy import text

from jedi.core.settings import caller
from jedi.service.jobs import job_details
from jedi.service.tasks import task_details
from jedi.taskbuffer.jobs.one_job import OneJob

pytestmark = pytest.mark.long

ME = caller()


def newest(system: System, task: int) -> OneJob | None:
    """The last attempt."""
    with system.engine.begin() as tx:
        found = [job.panda_id for job in task_details.jobs(tx, task)]
        return job_details.get(tx, [max(found)])[0] if found else None


def reach(system: System, task: int, state: str, status: str) -> int:
    """Wait until the last attempt is there; which it is."""

    def there() -> bool:
        job = newest(system, task)
        return job is not None and (job.pgi_state, job.status) == (state, status)

    until(there, f"{state}, {status}")
    job = newest(system, task)
    assert job is not None
    return job.panda_id


def states(system: System, task: int) -> set[str]:
    """Of the processes of payloads."""
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in system.payloads(task)]
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


@pytest.fixture
def go() -> Iterator[Path]:
    """A file that is not there yet, in a directory that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name) / "go"


def test_held_from_beginning_to_end(system: System, go: Path) -> None:
    system.put("pilot.share", str(go.parent))  # the payload's own /tmp lacks it
    system.put("hold.sites", "SITE_A")
    lines = system.texts("user:held", 1, "DISK_A")
    wait = f"sh -c 'while [ ! -e {go} ]; do sleep 0.1; done; cat $0'"
    task = system.copying(
        "user:held", wait, site="SITE_A", holdJobs=["manual_stage_in", "manual_stage_out"]
    )
    job = reach(system, task, "Pre-processing-Hold", "activated")
    with system.engine.begin() as tx:
        job_details.release(tx, ME, [job], None)
    reach(system, task, "Delegated", "running")
    with system.engine.begin() as tx:
        job_details.hold(tx, ME, [job], None)
    until(lambda: states(system, task) == {"T"}, "the payload stands still")
    go.touch()
    with system.engine.begin() as tx:
        job_details.release(tx, ME, [job], None)
    reach(system, task, "Post-processing-Hold", "holding")
    with system.engine.begin() as tx:
        job_details.cancel(tx, ME, [job], None)
    with system.engine.begin() as tx:
        job_details.tidy(tx, system.ddm(tx), [job])

    until(lambda: (new := newest(system, task)) and new.panda_id > job, "another attempt")
    job = reach(system, task, "Pre-processing-Hold", "activated")
    with system.engine.begin() as tx:
        job_details.release(tx, ME, [job], None)
    reach(system, task, "Post-processing-Hold", "holding")
    assert system.lines(task) == []
    with system.engine.begin() as tx:
        [told] = job_details.release(tx, ME, [job], None)
    assert (told.delegation_kind, bool(told.delegation_id)) == ("local", True)
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    with system.engine.begin() as tx:
        held = text("SELECT count(*) FROM jedi_job_allocations WHERE released_at IS NULL")
        assert tx.scalar(held) == 0
    system.check()
