"""Ended jobs go to the archive, and what is old is forgotten, each at both sides of its border."""

# Raw UPDATEs: a rate that many failed jobs lead to.

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text
from support.calls import call
from support.dogs import run
from support.job_rows import Made, make_jobs

from jedi.agent.base import World
from jedi.core.knobs import KNOBS
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.housekeeping import checks, retention
from jedi.taskbuffer.inputs import validation
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.tasks import interventions, scouting
from jedi.watchdog.dog import Counts

DAY = 86_400.0


def ended(world: World, jobs: int, live: int = 0) -> Made:
    """Jobs that have failed just now, and some that live on."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, jobs + live)
        ends = [JobEnd(job, "failed", "payload_exit", "r") for job in made.jobs[:jobs]]
        assert len(job_ends.end_jobs(tx, ends, "test")) == jobs
    return made


def count(world: World, table: str) -> int:
    with world.engine.begin() as tx:
        return int(tx.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


def violations(world: World) -> set[str]:
    """Of what is said of jobs and files: tasks and datasets made by SQL have no logs."""
    with world.engine.begin() as tx:
        found = {one.invariant for one in checks.examine(tx) if one.violations}
    return found - {"task_log", "input_log", "output_log"}


# ---------------------------------------------------------------------------------- archive


def test_ended_jobs_are_archived_with_their_files(
    world: World, at: Callable[[float], None]
) -> None:
    made = ended(world, 5, live=2)
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_knobs (component, key, value) VALUES ('watchdog', 'batch', '2')")
        )
        before = service.jobs(tx, made.task)
        shown = service.show(call(tx), made.task)
    at(3 * DAY)
    assert run(world, "archive") == Counts()
    at(3 * DAY + 1)
    assert run(world, "archive") == Counts(archived=5)
    assert run(world, "archive") == Counts()
    assert [count(world, f"jedi_jobs{a}") for a in ("", "_archived")] == [2, 5]
    assert [count(world, f"jedi_job_files{a}") for a in ("", "_archived")] == [10, 25]
    assert violations(world) == set()
    assert count(world, "job_stats_archived") == 1
    with world.engine.begin() as tx:
        assert service.jobs(tx, made.task) == before
        assert service.show(call(tx), made.task) == shown


def test_the_archive_has_the_columns_of_what_lives() -> None:
    for live, archived in (
        (tables.jobs, tables.jobs_archived),
        (tables.job_files, tables.job_files_archived),
    ):
        stored = [c.name for c in live.columns if c.computed is None]
        assert stored == [c.name for c in archived.columns]


def test_those_who_judge_a_task_see_archived_jobs(
    world: World, at: Callable[[float], None]
) -> None:
    made = ended(world, 6, live=1)
    at(3 * DAY + 1)

    def judged() -> list[object]:
        with world.engine.begin() as tx:
            tx.execute(text("UPDATE jedi_tasks SET failurerate = 100"))
            found = interventions.failing(tx, 50.0, 3, 0, "failure_rate", 10)
            return [found, validation.duplicates(tx, [made.task]), scouting.to_measure(tx, [1], 10)]

    before = judged()
    assert before[0]
    assert run(world, "archive") == Counts(archived=6)
    assert judged() == before


# -------------------------------------------------------------------------------- retention


def forgotten(world: World, at: Callable[[float], None], days: float, name: str, n: int) -> None:
    """At both sides of the border: nothing but this is forgotten."""
    at(days * DAY)
    assert run(world, "retention")[name] == 0
    at(days * DAY + 1)
    assert run(world, "retention")[name] == n


def test_details_of_archived_jobs_are_forgotten(world: World, at: Callable[[float], None]) -> None:
    ended(world, 3, live=1)
    at(4 * DAY)
    run(world, "archive")
    forgotten(world, at, 90, "jobs", 3)
    assert [count(world, t) for t in ("jedi_job_params", "jedi_jobs_statuslog")] == [1, 1]
    assert violations(world) == set()


def test_decisions_are_forgotten_but_the_last_one_of_a_task_at_work(
    world: World, at: Callable[[float], None]
) -> None:
    with world.engine.begin() as tx:
        working, done = (
            tx.scalar(
                text("INSERT INTO jedi_tasks (status, reqid) VALUES (:s, 1) RETURNING jeditaskid"),
                {"s": status},
            )
            for status in ("running", "done")
        )
        for number, task in enumerate((working, working, done)):
            tx.execute(
                text("INSERT INTO jedi_snapshots (snapshot_hash, data) VALUES (:n, '')"),
                {"n": str(number)},
            )
            tx.execute(
                text(
                    "WITH d AS (INSERT INTO jedi_broker_decisions (jeditaskid, broker, "
                    "snapshot_hash, seed, knobs, outcome, chosen, weights, need) VALUES (:task, "
                    "'generic', :n, 1, '{}', 'none', '{}', '{}', '{}') RETURNING decision_id) "
                    "INSERT INTO jedi_broker_reasons SELECT decision_id, 'S', '{}', '{}', '{}' "
                    "FROM d"
                ),
                {"task": task, "n": str(number)},
            )
    forgotten(world, at, 30, "decisions", 2)
    with world.engine.begin() as tx:
        assert tx.scalars(text("SELECT snapshot_hash FROM jedi_broker_decisions")).all() == ["1"]
        assert tx.scalars(text("SELECT snapshot_hash FROM jedi_snapshots")).all() == ["1"]
    assert count(world, "jedi_broker_reasons") == 1


@pytest.mark.parametrize(
    ("name", "days", "row"),
    [
        (
            "requests",
            1,
            "jedi_acquire_requests (request_id, site, pandaids) VALUES ('r', 'S', '{1}')",
        ),
        (
            "pilots",
            7,
            "jedi_pilots (pilot_id, site, host, status, endtime) VALUES "
            "('p', 'S', 'h', 'ended', jedi_now()), ('q', 'S', 'h', 'running', NULL)",
        ),
        (
            "tokens",
            7,
            "jedi_tokens (token_hash, kind, revoked_at) VALUES "
            "('a', 'user', jedi_now()), ('b', 'user', NULL)",
        ),
        (
            "rates",
            90,
            "job_stats_hourly (hour, site, gshare, status, jobs) VALUES "
            "(jedi_now(), 'S', '', 'finished', 1)",
        ),
    ],
)
def test_what_is_old_is_forgotten(
    world: World, at: Callable[[float], None], name: str, days: float, row: str
) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(f"INSERT INTO {row}"))
    forgotten(world, at, days, name, 1)


def test_every_rule_has_its_knob_and_may_be_switched_off(
    world: World, at: Callable[[float], None]
) -> None:
    assert all(KNOBS[rule.knob].unit == "d" for rule in retention.RULES)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_tokens (token_hash, kind, revoked_at) VALUES "
                "('a', 'user', jedi_now())"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value) "
                "VALUES ('retention', 'tokens_days', '0.0')"
            )
        )
    at(1000 * DAY)
    assert run(world, "retention") == Counts()
