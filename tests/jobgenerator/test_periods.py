"""Periodical tasks: a job at a time, when its time has come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.helpers import put_file_dataset
from support.situations import pilots_ask
from support.task_rows import good, put, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import BadInput
from jedi.model.tasks.period import Period
from jedi.model.tasks.text import validate
from jedi.service.tasks import commanding, why
from jedi.watchdog import periods

NOON = datetime(2027, 5, 3, 12, tzinfo=UTC)  # a Monday
GRACE = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def real_time() -> Iterator[None]:
    yield
    clock.turn_to(None)


def at(world: World, minutes: float) -> None:
    """So long after noon; pilots are about."""
    clock.turn_to(NOON + timedelta(minutes=minutes))
    with world.engine.begin() as tx:
        pilots_ask(tx)


def start(world: World, **keys: Any) -> int:
    at(world, 0)
    items = [{"type": "constant", "value": "true"}]
    asked = {"noInput": True, "jobParameters": items, **keys}
    (task_id,) = put(world, good(site="SITE_A", **asked))
    cycle(world)
    return task_id


def jobs(world: World) -> int:
    """How many there are, after whoever has something to do has done it."""
    periods.run(world)
    cycle(world)
    with world.engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_jobs")) or 0)


def files(world: World) -> dict[str, int]:
    with world.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT status, count(*) AS n FROM jedi_dataset_contents "
                "WHERE type LIKE '%input' GROUP BY 1"
            )
        )
        return {row.status: row.n for row in rows}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("10 min", "12:10"),
        ("1 d", "04 12:00"),
        ("90s", "12:01:30"),
        ("6 h", "18:00"),
        ("*/15 * * * *", "12:15"),
        ("30 6 * * *", "04 06:30"),
        ("0 0 * * 0", "09"),
        ("0 0 * * 7", "09"),
        ("0 0 * * sun", "09"),
        ("0 0 * * 1", "10"),
        ("0 0 * * fri-mon", "07"),
        ("0 0 * * 2-5/2", "04"),
        ("0 0 1 6 *", "06-01"),
        ("0 0 8 * fri", "07"),
        ("0 0 5 * fri", "05"),  # cron: either day
    ],
)
def test_periods(written: str, expected: str) -> None:
    found = Period.parse(written).after(NOON, NOON)
    assert expected in str(found)
    assert found > NOON


@pytest.mark.parametrize(
    "written",
    [
        "",
        "0 s",
        "10 minutes",
        "* * * *",
        "61 * * * *",
        "0 0 * * 8",
        "0 0 l * *",
        "0 0 * * 1#2",
        "r r * * *",
        "0 0 31 2 *",
        "0 0 * * x-y",
    ],
)
def test_what_is_no_period(written: str) -> None:
    """The refusal names the field and its range, if one field is wrong."""
    with pytest.raises(ValueError, match=r"like|field \d, the|never comes"):
        Period.parse(written)
    with pytest.raises(BadInput, match="period"):
        validate(good(noInput=True, jobParameters=[], period=written))


@pytest.mark.parametrize("written", ["0 0 31 2 *", "*/5 * 30,31 2 *", "* * 31 4,6,9,11 *"])
def test_a_cron_rule_that_never_comes_is_refused_quickly(written: str) -> None:
    """ "A cron rule that never comes is searched for a second"."""
    began = time.process_time()
    with pytest.raises(ValueError, match="never comes"):
        Period.parse(written)
    assert time.process_time() - began < 0.2
    found = Period.parse("0 0 29 2 *").after(NOON, NOON)
    assert (found.year, found.month, found.day) == (2028, 2, 29)


def test_a_period_is_served_once_and_not_made_up_for() -> None:
    hourly = Period.parse("0 * * * *")
    assert hourly.serve(None, NOON, GRACE) == (False, NOON + timedelta(hours=1))
    late = NOON + timedelta(minutes=4)
    assert hourly.serve(NOON, late, GRACE) == (True, NOON + timedelta(hours=1))
    missed = NOON + timedelta(hours=3, minutes=30)
    assert hourly.serve(NOON, missed, GRACE) == (False, NOON + timedelta(hours=4))
    often = Period.parse("1 min")
    assert often.serve(None, NOON, GRACE) == (True, NOON + timedelta(minutes=1))
    assert often.serve(NOON, late, GRACE) == (True, NOON + timedelta(minutes=5))


def test_a_job_each_period_until_all_files_are_used(world: World) -> None:
    task_id = start(world, period="10 min", nFiles=5, nFilesPerJob=2)
    assert files(world) == {"waiting": 5}
    assert jobs(world) == 1
    assert files(world) == {"finished": 2, "waiting": 3}
    at(world, 9)
    assert jobs(world) == 1
    with world.engine.begin() as tx:
        held = why.why(call(tx), task_id)
    assert (held.code, held.next_try) == ("period", NOON + timedelta(minutes=10))
    at(world, 11)
    assert (jobs(world), jobs(world)) == (2, 2)
    assert row_of(world, task_id).status == "running"
    at(world, 20)
    assert jobs(world) == 3
    assert files(world) == {"finished": 5}
    assert row_of(world, task_id).status == "done"


def test_an_endless_task_ends_when_it_is_told_to(world: World) -> None:
    task_id = start(world, period="0 * * * *")
    assert jobs(world) == 0
    for hour in (1, 2, 3):
        at(world, 60 * hour + 1)
        assert jobs(world) == hour
        assert files(world) == {"finished": hour, "waiting": 1}
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "finish")
    cycle(world)
    assert row_of(world, task_id).status == "finished"
    assert files(world) == {"finished": 3, "waiting": 1}
    at(world, 300)
    assert jobs(world) == 3


def test_periods_of_a_paused_task_are_lost(world: World) -> None:
    task_id = start(world, period="1 h", nFiles=9)
    assert jobs(world) == 1
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "pause")
    at(world, 150)
    assert jobs(world) == 1
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "resume")
    cycle(world)
    assert jobs(world) == 1
    at(world, 181)
    assert jobs(world) == 2


def test_files_of_a_dataset_are_used_one_by_one(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    at(world, 0)
    (task_id,) = put(world, good(site="SITE_A", period="1 d"))
    cycle(world)
    assert jobs(world) == 1
    at(world, 24 * 60)
    assert jobs(world) == 2
    assert row_of(world, task_id).status == "done"


def test_a_period_needs_a_number_of_files() -> None:
    with pytest.raises(BadInput) as wrong:
        validate(good(period="1 h", nGBPerJob=2))
    assert [problem.path for problem in wrong.value.problems] == ["nGBPerJob"]


@pytest.mark.parametrize("keys", [{}, {"nFiles": 3}])
def test_a_retry_goes_on_with_what_waits(world: World, keys: dict[str, Any]) -> None:
    """`finished`: some inputs were not processed since the task was terminated."""
    task = start(world, period="10 min", **keys)
    assert jobs(world) == 1
    for command in ("finish", "retry"):
        with world.engine.begin() as tx:
            commanding.command(tx, "anna", task, command, {})
        cycle(world)
        expected = {"finish": "finished", "retry": "ready"}[command]
        assert row_of(world, task).status == expected
    at(world, 10)
    assert jobs(world) == 2
    at(world, 20)
    assert jobs(world) == 3
    assert files(world)["finished"] == 3
    assert row_of(world, task).status == ("done" if keys else "running")
