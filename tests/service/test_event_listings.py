"""Ranges of events as people see them: numbers by status, file and consumer, rate and forecast."""

# Raw UPDATEs: statuses of ranges, and zip files, as their consumers would report them.

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, Engine, text
from support.calls import call
from support.event_rows import BuiltJobSet, make_job_set
from support.job_rows import make_jobs

from jedi.core import states
from jedi.core.errors import NotFound
from jedi.service.events import task_events
from jedi.service.jobs import job_details
from jedi.service.tasks import task_details
from jedi.taskbuffer.reports import changes
from jedi.taskbuffer.reports.changes import ChangeQuestion

MOST = 1_000


def _move(
    tx: Connection, built: BuiltJobSet, firsts: list[int], *statuses: str, owner: int | None = None
) -> None:
    for status in statuses:
        tx.execute(
            text(
                "UPDATE jedi_events SET status = :code, pandaid = coalesce(:owner, pandaid) "
                "WHERE jobsetid = :jobset AND job_processid = ANY(:firsts)"
            ),
            {
                "code": states.EVENT_CODES[status],
                "owner": owner,
                "jobset": built.jobset,
                "firsts": firsts,
            },
        )


@pytest.fixture
def built(engine: Engine) -> BuiltJobSet:
    """A job set of 10 ranges of 5 events: the first consumer has processed two and works on one,
    the second has one that failed; six are ready."""
    with engine.begin() as tx:
        made = make_job_set(tx, 10, 2)
        first, second = made.consumers
        _move(tx, made, [1, 6], "sent", "finished", owner=first)
        _move(tx, made, [11], "sent", owner=first)
        _move(tx, made, [16], "sent", "failed", owner=second)
    return made


def test_numbers_by_status_file_and_consumer(engine: Engine, built: BuiltJobSet) -> None:
    """10 of 45 events that are processed or left are processed; ready ranges have no consumer."""
    first, second = built.consumers
    with engine.begin() as tx:
        found = task_events.show(call(tx), built.task, None, status=None, limit=MOST)
    assert (found.n_processed, found.n_left) == (10, 35)
    assert [(one.status, one.n_ranges, one.n_events) for one in found.statuses] == [
        ("ready", 6, 30),
        ("sent", 1, 5),
        ("finished", 2, 10),
        ("failed", 1, 5),
    ]
    [file] = found.files
    assert (file.file_id, file.n_ranges, file.n_processed, file.n_left) == (built.file, 10, 2, 7)
    assert file.n_events == 50
    assert [
        (c.panda_id, c.kind, c.jobset_id, c.n_ranges, c.n_processed, c.n_left)
        for c in found.consumers
    ] == [
        (first, "consumer", built.jobset, 3, 2, 1),
        (second, "consumer", built.jobset, 1, 0, 0),
    ]
    assert found.ranges == []


def test_events_of_a_file_count_once(engine: Engine, built: BuiltJobSet) -> None:
    """The failed range was to be tried again when its task failed. Expected: 11 rows of ranges, and
    the 50 events that the file has. Raw: the second row of the range."""
    with engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_events (jeditaskid, jobsetid, pandaid, datasetid, fileid, "
                "job_processid, attemptnr, def_min_eventid, def_max_eventid, status) "
                "SELECT jeditaskid, jobsetid, jobsetid, datasetid, fileid, job_processid, "
                "attemptnr - 1, def_min_eventid, def_max_eventid, :cancelled "
                "FROM jedi_events WHERE jobsetid = :jobset AND job_processid = 16"
            ),
            {"jobset": built.jobset, "cancelled": states.EVENT_CODES["cancelled"]},
        )
        [file] = task_events.show(call(tx), built.task, None, status=None, limit=MOST).files
    assert (file.n_ranges, file.n_events, file.n_left) == (11, 50, 7)


def test_ranges_of_a_job_and_in_a_status(engine: Engine, built: BuiltJobSet) -> None:
    """A consumer has its own ranges; the merge job has those of its set. Each range is listed once,
    by file and first event."""
    first, _ = built.consumers
    with engine.begin() as tx:
        own = task_events.show(call(tx), built.task, first, status=None, limit=MOST)
        merge = task_events.show(call(tx), built.task, built.jobset, status=None, limit=MOST)
        failed = task_events.show(call(tx), built.task, None, status=["failed", "sent"], limit=MOST)
        shown = job_details.show(call(tx), first).ranges
    assert [one.status for one in own.ranges] == ["finished", "finished", "sent"]
    assert {one.panda_id for one in own.ranges} == {first}
    assert [one.range_id.split("-")[3] for one in merge.ranges] == [
        str(1 + 5 * n) for n in range(10)
    ]
    assert [one.panda_id for one in merge.ranges][4:] == [None] * 6
    assert [one.status for one in failed.ranges] == ["sent", "failed"]
    assert [(one.status, one.n_ranges) for one in shown] == [("sent", 1), ("finished", 2)]


def test_rate_and_forecast(
    engine: Engine, built: BuiltJobSet, at: Callable[[float], object]
) -> None:
    """Zips with 20 events came within the last 10 minutes, others earlier: 20 events in 600 s, and
    35 events are left: 1050 s."""
    with engine.begin() as tx:
        assert (
            task_events.show(call(tx), built.task, None, status=None, limit=MOST).rate_per_s is None
        )
    for second, name in ((0, "a"), (1_000, "b"), (1_100, "c")):
        at(second)
        with engine.begin() as tx:
            tx.execute(
                text(
                    "INSERT INTO jedi_event_zips (jeditaskid, jobsetid, pandaid, lfn, endpoint, "
                    "n_events) VALUES (:task, :jobset, :job, :lfn, 'DISK', 10)"
                ),
                {
                    "task": built.task,
                    "jobset": built.jobset,
                    "job": built.consumers[0],
                    "lfn": name,
                },
            )
            if not second:
                tx.execute(text("UPDATE jedi_jobs SET starttime = jedi_now()"))
    at(1_200)
    with engine.begin() as tx:
        found = task_events.show(call(tx), built.task, None, status=None, limit=MOST)
    assert found.rate_per_s == pytest.approx(20 / 600)
    assert found.left_s == pytest.approx(35 * 600 / 20)


def test_other_tasks(engine: Engine, built: BuiltJobSet) -> None:
    """A task without ranges has none; an unknown task is not found."""
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
        found = task_events.show(call(tx), made.task, None, status=None, limit=MOST)
        assert (found.statuses, found.files, found.consumers) == ([], [], [])
        assert job_details.show(call(tx), made.jobs[0]).ranges == []
        assert (
            task_events.show(call(tx), built.task, made.jobs[0], status=None, limit=MOST).statuses
            == []
        )
        with pytest.raises(NotFound):
            task_events.show(call(tx), 999_999, None, status=None, limit=MOST)


def test_watchers_see_events(engine: Engine, built: BuiltJobSet) -> None:
    """A reported zip changes the task for its watchers, that of a jumbo job, too: 20 of 50 events,
    then 30; no file has finished. A task of ordinary jobs has no such numbers."""
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET nevents = 50"))
        made = make_jobs(tx, 1)
    with engine.begin() as tx:
        version = changes.mark(tx)
    asked = ChangeQuestion(
        [built.task, made.task],
        frozenset(),
        active=False,
        all_fresh=False,
        bound=version.bound,
        log_id=None,
    )
    with engine.begin() as tx:
        assert changes.changed(tx, asked, [], 60.0)[1] == []
    seen = 0
    for lfn, jobset, n_events in (("a", built.jobset, 20), ("b", None, 10)):
        with engine.begin() as tx:
            tx.execute(
                text(
                    "INSERT INTO jedi_event_zips (jeditaskid, jobsetid, pandaid, lfn, endpoint, "
                    "n_events) VALUES (:task, :jobset, :job, :lfn, 'DISK', :n_events)"
                ),
                {
                    "task": built.task,
                    "jobset": jobset,
                    "job": built.consumers[0],
                    "lfn": lfn,
                    "n_events": n_events,
                },
            )
        with engine.begin() as tx:
            [changed] = changes.changed(tx, asked, [], 60.0)[1]
            other = task_details.get(tx, made.task)
        seen += n_events
        assert (changed.task.n_events, changed.task.n_events_processed) == (50, seen)
    assert changed.task.n_files_finished == 0
    assert (other.n_events, other.n_events_processed) == (None, None)
