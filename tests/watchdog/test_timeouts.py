"""How long jobs may be in a status: each rule at both sides of its border."""

# Raw UPDATEs: attempts that have been used up.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Row, text
from support.dogs import run
from support.timeouts import put

from jedi.agent.base import World
from jedi.core.faults import NOBODYS_FAULT
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.jobs.timeouts import TIMEOUTS
from jedi.taskbuffer.sites import pilots
from jedi.watchdog.dog import Counts

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def turn(world: World, **knobs: str) -> None:
    with world.engine.begin() as tx:
        for key, value in knobs.items():
            tx.execute(
                text(
                    "INSERT INTO jedi_knobs (component, key, value) "
                    "VALUES ('timeout', :key, CAST(:value AS jsonb))"
                ),
                {"key": key, "value": value},
            )


def the_job(world: World) -> Row[Any]:
    with world.engine.begin() as tx:
        return tx.execute(text("SELECT * FROM jedi_jobs")).one()


EVGEN = "processingtype = 'evgen'"
URGENT = "priority = 800"
BORDERS = [
    ("waiting", "", "", 30 * MINUTE, "closed", "waiting_timeout"),
    ("activated", "kind = 'es_merge'", "status = 'offline'", 0, "closed", "given_back"),
    ("assigned", "kind = 'jumbo'", "status = 'paused'", 0, "closed", "given_back"),
    ("activated", "kind = 'merge'", "status = 'offline'", 0, "closed", "given_back"),
    ("assigned", "kind = 'merge'", "", 4 * HOUR, "closed", "not_taken"),
    ("activated", "kind = 'jumbo'", "status = 'brokeroff'", 4 * HOUR, "closed", "not_taken"),
    ("assigned", "kind = 'es_merge'", "", 4 * HOUR, "closed", "not_taken"),
    ("pending", "", "", HOUR, "closed", "setup_timeout"),
    ("defined", "", "", 4 * HOUR, "closed", "defined_timeout"),
    ("assigned", "", "", 12 * HOUR, "closed", "assigned_timeout"),
    ("activated", "", "", 2 * DAY, "closed", "activated_timeout"),
    ("starting", "heartbeat_at = '2040-01-01'", "", 2 * DAY, "closed", "activated_timeout"),
    ("activated", EVGEN, "tier = 'T2'", 6 * HOUR, "closed", "t2_timeout"),
    ("activated", "processingtype = 'simul'", "tier = 'T1'", 6 * HOUR, "closed", "t1_timeout"),
    ("activated", EVGEN, "tier = 'T1', cloud = 'US'", 2 * DAY, "closed", "activated_timeout"),
    ("activated", EVGEN, "tier = 'T3'", 2 * DAY, "closed", "activated_timeout"),
    ("activated", "processingtype = 'reco'", "tier = 'T2'", 2 * DAY, "closed", "activated_timeout"),
    ("activated", "prodsourcelabel = 'user'", "", 12 * HOUR, "closed", "rebrokered"),
    ("activated", "prodsourcelabel = 'managed'", "", 2 * DAY, "closed", "activated_timeout"),
    ("activated", URGENT, "", 4 * HOUR, "closed", "idle_site"),
    ("starting", f"{URGENT}, heartbeat_at = '2040-01-01'", "", 4 * HOUR, "closed", "idle_site"),
    ("activated", "priority = 799", "", 2 * DAY, "closed", "activated_timeout"),
    ("activated", URGENT, "laststart = 'infinity'", 2 * DAY, "closed", "activated_timeout"),
    ("throttled", "", "", 7 * DAY, "closed", "throttled_timeout"),
    ("sent", "", "", 30 * MINUTE, "failed", "sent_timeout"),
    ("sent", "pilot_id = 'gone'", "", MINUTE, "failed", "sent_timeout"),
    ("starting", "", "", 2 * HOUR, "failed", "lost_heartbeat"),
    ("running", "", "", 2 * HOUR, "failed", "lost_heartbeat"),
    (
        "running",
        "hold_kind = 'user_request', hold_deadline = statechangetime",
        "",
        0,
        "failed",
        "hold_timeout",
    ),
    (
        "running",
        "hold_kind = 'user_request', hold_deadline = '2040-01-01'",
        "",
        2 * HOUR,
        "failed",
        "lost_heartbeat",
    ),
    ("running", "heartbeat_at = '2040-01-01'", "", 21 * DAY, "failed", "running_timeout"),
    ("holding", "", "", 3 * HOUR, "failed", "holding_timeout"),
    ("transferring", URGENT, "", DAY, "failed", "transfer_timeout"),
    ("transferring", "priority = 799", "", 4 * DAY, "failed", "transfer_timeout"),
    ("transferring", URGENT, "transtimehi = 2", 2 * DAY, "failed", "transfer_timeout"),
    ("transferring", "priority = 1", "transtimelo = 9", 9 * DAY, "failed", "transfer_timeout"),
]


@pytest.mark.parametrize(("status", "columns", "site", "limit", "target", "code"), BORDERS)
def test_borders(
    world: World,
    at: Callable[[float], None],
    status: str,
    columns: str,
    site: str,
    limit: float,
    target: str,
    code: str,
) -> None:
    """An end costs the inputs an attempt. A failed job costs a failure, too, unless the end is
    nobody's fault: "recorded as an attempt that does not count against maxAttempt"."""
    put(world, status, columns, site)
    with world.engine.begin() as tx:
        pilots.insert_pilots(tx, "here", "SITE_A", "local", {"gone": "0"}, DAY)
        pilots.END_PILOTS.run(tx, status="ended", ids=["gone"], tidy=True)
    at(limit)
    assert run(world, "timeouts") == Counts()
    at(limit + 1)
    assert run(world, "timeouts") == Counts({code: 1})
    assert run(world, "timeouts") == Counts()
    job = the_job(world)
    assert (job.status, job.error_code) == (target, code)
    assert job.error_source == ("pilot" if code in ("sent_timeout", "lost_heartbeat") else "jedi")
    age = f"{(limit + 1) / MINUTE:.3g} min" if limit < 0.5 * HOUR else f"{(limit + 1) / HOUR:.3g} h"
    assert f" for {age}." in job.error_diag
    with world.engine.begin() as tx:
        files = tx.execute(
            text(
                "SELECT DISTINCT status, attemptnr, coalesce(failedattempt, 0) "
                "FROM jedi_dataset_contents WHERE type = 'input'"
            )
        ).one()
        failures = target == "failed" and code not in NOBODYS_FAULT
        assert tuple(files) == ("ready", 1, failures)
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 0


def test_every_rule_has_its_border() -> None:
    assert {rule.code for rule in TIMEOUTS} == {code for *_, code in BORDERS} | {"lost_site"}


def test_the_heartbeat_of_a_site(world: World, at: Callable[[float], None]) -> None:
    """All three pilots of a site fall silent within a minute: no job is to blame. At another site
    one pilot of two goes on: the other one's payload may have killed it. Expected: "a lost
    heartbeat of the *site*" against "2 hours for heartbeats from running jobs"."""
    put(world, "running", "pilot_id = CAST(pandaid AS text)", jobs=5)
    with world.engine.begin() as tx:
        ids = list(tx.scalars(text("SELECT pandaid FROM jedi_jobs ORDER BY pandaid")))
        for job in ids[3:]:
            tx.execute(text("UPDATE jedi_jobs SET site = 'SITE_B' WHERE pandaid = :j"), {"j": job})
    beat(world, ids[0], 60)
    beat(world, ids[4], 3 * HOUR)
    at(2 * HOUR + 1)
    assert run(world, "timeouts") == Counts(lost_site=2, lost_heartbeat=1)
    at(2 * HOUR + 61)  # the last of them alone
    assert run(world, "timeouts") == Counts(lost_site=1)
    with world.engine.begin() as tx:
        found = tx.execute(
            text(
                "SELECT j.error_code, c.failedattempt, c.maxattempt, c.freeattempt "
                "FROM jedi_jobs j JOIN jedi_dataset_contents c USING (pandaid) "
                "WHERE c.type = 'input' AND j.status = 'failed' GROUP BY 1, 2, 3, 4 ORDER BY 1"
            )
        )
        assert [tuple(row) for row in found] == [
            ("lost_heartbeat", 1, 3, 0),
            ("lost_site", 0, 4, 1),
        ]


def beat(world: World, panda_id: int, seconds: float) -> None:
    """The last heartbeat of a job's pilot is so much later."""
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_jobs SET heartbeat_at = heartbeat_at + make_interval(secs => :s) "
                "WHERE pandaid = :j"
            ),
            {"s": seconds, "j": panda_id},
        )


def test_urgent_jobs_wait_where_others_start(world: World, at: Callable[[float], None]) -> None:
    put(world, "activated", URGENT)
    at(3 * HOUR)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_sites SET laststart = jedi_now()"))
    at(5 * HOUR)
    assert run(world, "timeouts") == Counts()
    at(5 * HOUR + 1)
    assert run(world, "timeouts") == Counts(idle_site=1)


@pytest.mark.parametrize(("ratio", "closed"), [("0.0", True), ("1.5", True), ("3.0", False)])
def test_the_t2_line_looks_at_what_runs(
    world: World, at: Callable[[float], None], ratio: str, closed: bool
) -> None:
    """Two jobs wait for each that runs."""
    put(world, "activated", EVGEN, "tier = 'T2'", jobs=2)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO job_stats SELECT site, workqueue, gshare, resource_type, "
                "'running', 1, 1 FROM job_stats_delta"
            )
        )
    turn(world, t2_ratio=ratio)
    at(6 * HOUR + 1)
    assert run(world, "timeouts") == Counts({"t2_timeout": 2} if closed else {})


def test_limits_are_knobs(world: World, at: Callable[[float], None]) -> None:
    put(world, "activated", EVGEN, "tier = 'T1', cloud = 'DE'")
    turn(world, t1_spared='"US, DE"', activated_s="60.0")
    at(60)
    assert run(world, "timeouts") == Counts()
    at(61)
    assert run(world, "timeouts") == Counts(activated_timeout=1)


def test_what_a_person_holds_is_left_alone(world: World, at: Callable[[float], None]) -> None:
    """Holds have deadlines of their own; results that can't be added are the rule's business."""
    put(world, "holding", "hold_kind = 'user_request', hold_deadline = 'infinity'")
    made = put(world, "holding")
    with world.engine.begin() as tx:
        job_ends.hold(tx, made.jobs[0], 1, "The disk is full.", 30)
    at(3 * HOUR + 1)
    assert run(world, "timeouts") == Counts(holding_timeout=1)


def test_an_attempt_is_the_last_one_at_last(world: World, at: Callable[[float], None]) -> None:
    put(world, "running")
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET maxattempt = 1 WHERE type = 'input'"))
    at(2 * HOUR + 1)
    assert run(world, "timeouts") == Counts(lost_heartbeat=1)
    with world.engine.begin() as tx:
        found = text("SELECT DISTINCT status FROM jedi_dataset_contents WHERE type = 'input'")
        assert tx.execute(found).scalars().all() == ["failed"]
