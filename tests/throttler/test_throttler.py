"""Are there enough jobs? The throttler's tests, in their order."""

# Raw UPDATEs: catchall in forms that no site file may have.

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from jedi.agent.base import World
from jedi.core.knobs import Knobs
from jedi.taskbuffer.scheduling import throttling
from jedi.taskbuffer.sites import snapshot
from jedi.throttler.decide import (
    JobCounts,
    Pass,
    QueuedWork,
    Skip,
    Throttle,
    ThrottledQueue,
    Urgent,
    ceiling,
    outranks,
)

QUEUE = ThrottledQueue(1, "prod", "managed", None, 10, {})


def throttle(load: JobCounts, shape: str = "SCORE", **caps: int) -> Throttle:
    queue = ThrottledQueue(1, "prod", "managed", None, 10, caps)
    return Throttle([queue], {(1, shape): load}, Knobs())


def test_the_worked_example() -> None:
    load = JobCounts(running=200, not_running=150, defined=20)
    assert throttle(load).decide(1, "SCORE") == Pass(250, lacking=True)


def test_the_bunch_is_what_is_missing_within_bounds() -> None:
    some = JobCounts(running=1000, not_running=1450)
    assert throttle(some).decide(1, "SCORE") == Pass(275, lacking=True)
    many = JobCounts(running=1000, not_running=1450, defined=550)
    assert throttle(many).decide(1, "SCORE") == Pass(275, lacking=False)
    assert throttle(JobCounts(running=10_000)).decide(1, "SCORE") == Pass(300, lacking=True)


@pytest.mark.parametrize(
    ("load", "code"),
    [
        (JobCounts(not_running=2001), "none_running"),
        (JobCounts(running=100, not_running=2000, defined=1), "many_queued"),
        (JobCounts(running=5000, defined=2401), "many_defined"),
        (JobCounts(running=100, waiting=1001), "many_waiting"),
    ],
)
def test_enough_is_enough(load: JobCounts, code: str) -> None:
    found = throttle(load).decide(1, "SCORE")
    assert isinstance(found, Skip) and found.facts["test"] == code and found.yields
    assert found.code == "queue_throttled" and "Work queue prod, SCORE" in found.reason


@pytest.mark.parametrize(
    "load",
    [
        JobCounts(not_running=2000),
        JobCounts(running=100, not_running=2000),
        JobCounts(running=1001, not_running=2001),
        JobCounts(running=300, waiting=1200),
    ],
)
def test_what_is_at_its_limit_goes_on(load: JobCounts) -> None:
    assert isinstance(throttle(load).decide(1, "SCORE"), Pass)


def test_many_short_jobs_are_not_enough() -> None:
    loads = {(1, "SCORE"): JobCounts(not_running=2000, defined=1)}
    knobs = Knobs({"core.preset": "current"})

    def passes(*seconds: float | None, shape: str | None = "SCORE") -> bool:
        work = [QueuedWork(1, "SCORE", one) for one in seconds]
        return isinstance(Throttle([QUEUE], loads, knobs, (), work).decide(1, shape), Pass)

    assert passes(5e7) and passes(2e7, 3e7)
    assert not passes(5.1e7) and not passes(3e7, 3e7)
    assert not passes() and not passes(None) and not passes(1e7, None)  # nobody knows
    assert not passes(1e7, shape=None)  # event service
    found = Throttle([QUEUE], loads, Knobs(), (), [QueuedWork(1, "SCORE", 1.0)])
    assert isinstance(found.decide(1, "SCORE"), Skip)  # classic does not ask how long they take


def test_while_work_is_short_more_may_wait() -> None:
    load = {(1, "SCORE"): JobCounts(running=1000, not_running=2500)}
    short = Knobs({"core.work_shortage": 1, "throttler.threshold_when_short": 3.0})
    assert isinstance(Throttle([QUEUE], load, Knobs()).decide(1, "SCORE"), Skip)
    assert Throttle([QUEUE], load, short).decide(1, "SCORE") == Pass(250, lacking=False)


def test_caps_of_the_queue_come_last_and_the_one_on_running_jobs_yields_to_nobody() -> None:
    ran = throttle(JobCounts(running=51), NRUNNINGCAP=50).decide(1, "SCORE")
    assert isinstance(ran, Skip) and (ran.facts["test"], ran.yields) == ("running_cap", False)
    most = throttle(JobCounts(running=50, not_running=101), NQUEUECAP=100).decide(1, "SCORE")
    assert isinstance(most, Skip) and (most.facts["test"], most.yields) == ("queue_cap", True)
    few = throttle(JobCounts(running=300, not_running=90), NQUEUECAP=100, NQUEUELIMIT=40)
    assert few.decide(1, "SCORE") == Pass(20, lacking=True)


def test_the_most_special_limit_decides_what_is_compared() -> None:
    loads = {
        (1, "MCORE"): JobCounts(running=1, not_running=30),
        (1, "MCORE_HIMEM"): JobCounts(not_running=30),
        (1, "SCORE"): JobCounts(not_running=500),
    }

    def code(**caps: int) -> str:
        queue = ThrottledQueue(1, "prod", "managed", None, 10, caps)
        found = Throttle([queue], loads, Knobs()).decide(1, "MCORE")
        return str(found.facts["test"]) if isinstance(found, Skip) else "pass"

    assert code(NQUEUECAP=100) == "queue_cap"
    assert code(NQUEUECAP=100, NQUEUECAP_MCORE=61) == "pass"
    assert code(NQUEUECAP_MCORE=59) == "queue_cap"
    assert code(NQUEUECAP_SCORE=1) == "pass"
    assert code(NQUEUELIMIT_MCORE=59) == "many_queued"


def test_each_shape_counts_alone() -> None:
    loads = {
        (1, "SCORE"): JobCounts(not_running=1500),
        (1, "SCORE_HIMEM"): JobCounts(not_running=1500),
    }
    found = Throttle([QUEUE], loads, Knobs())
    assert all(isinstance(found.decide(1, shape), Pass) for _, shape in loads)


def test_event_service_counts_all_shapes_together() -> None:
    loads = {(1, "SCORE"): JobCounts(not_running=2000), (1, "MCORE"): JobCounts(not_running=100)}
    found = Throttle([QUEUE], loads, Knobs())
    assert isinstance(found.decide(1, "MCORE"), Pass)
    assert isinstance(found.decide(1, None), Skip)


def test_sub_queues_count_as_their_partition() -> None:
    queues = [
        ThrottledQueue(1, "whole", "managed", -1, 10, {}),
        ThrottledQueue(2, "part", "managed", 1, None, {}),
        ThrottledQueue(3, "other", "managed", 1, 5, {}),
    ]
    loads = {(2, "SCORE"): JobCounts(not_running=1500), (3, "SCORE"): JobCounts(not_running=600)}
    found = Throttle(queues, loads, Knobs())
    assert [isinstance(found.decide(q, "SCORE"), Skip) for q in (1, 2, 3)] == [True] * 3
    assert [(q, shape) for q, shape, _ in found.full()] == [(q, "SCORE") for q in (1, 2, 3)]


def test_a_queue_without_a_share_is_not_throttled_but_has_a_ceiling() -> None:
    free = ThrottledQueue(1, "free", "user", None, None, {})
    loads = {(1, "SCORE"): JobCounts(not_running=19_000)}
    assert Throttle([free], loads, Knobs()).decide(1, "SCORE") == Pass(1000)
    assert Throttle([], {}, Knobs()).decide(7, "SCORE") == Pass(20_000)
    full = ceiling(100, 100)
    assert isinstance(full, Skip) and full.code == "queue_full" and "100 jobs wait" in full.reason


@pytest.mark.parametrize(
    ("waiting", "queued", "not_running", "passes"),
    [
        (None, 5, 0, False),
        (900, None, 0, True),
        (900, 800, 9999, True),
        (900, 900, 499, True),
        (900, 900, 500, False),
        (800, 900, 0, False),
    ],
)
def test_urgent_work_passes_a_full_queue(
    waiting: Any, queued: Any, not_running: int, passes: bool
) -> None:
    assert outranks(Urgent(1, waiting, queued, not_running), 500) is passes


def test_a_full_queue_takes_urgent_work_only_unless_it_is_of_users() -> None:
    loads = {(1, "SCORE"): JobCounts(running=10, not_running=3000)}
    urgent = [Urgent(1, 950, 900, 3000)]
    found = Throttle([QUEUE], loads, Knobs(), urgent)
    assert found.full() == [(1, "SCORE", 950)]
    assert found.decide(1, "SCORE") == Pass(250, lacking=False, least=950)
    users = replace(QUEUE, label="user")
    assert Throttle([users], loads, Knobs(), urgent).full() == [(1, "SCORE", None)]


def test_slots_that_standby_sites_keep_count_as_running(world: World) -> None:
    kept = {"user": {"SCORE": 40, "MCORE": 0, "x": -1}, "nobody": {"SCORE": 1}, "managed": 7}
    with world.engine.begin() as tx:
        queue = tx.scalar(text("SELECT queue_id FROM jedi_work_queue WHERE queue_name = 'user'"))
        tx.execute(
            text(
                "UPDATE jedi_sites SET status = 'standby', catchall = CAST(:c AS jsonb) "
                "WHERE site = 'SITE_A'"
            ),
            {"c": json.dumps({"num_slots_map": kept})},
        )
        tx.execute(
            text("UPDATE jedi_sites SET catchall = CAST(:c AS jsonb) WHERE site = 'SITE_B'"),
            {"c": json.dumps({"num_slots_map": kept})},
        )
        tx.execute(
            text(
                "INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, jobs, "
                "cores) SELECT site, :q, 'user', t, s, 5, 5 "
                "FROM unnest(ARRAY['SITE_A', 'SITE_B']) site, "
                "unnest(ARRAY['SCORE', 'MCORE']) t, unnest(ARRAY['starting', 'activated']) s"
            ),
            {"q": queue},
        )
        found = {
            row.resource_type: (row.running, row.not_running) for row in throttling.LOADS.rows(tx)
        }
    assert found == {"SCORE": (40, 20), "MCORE": (5, 15)}


def test_brokers_know_the_slots_that_sites_declare_and_whose_pilots_come_first(
    world: World,
) -> None:
    """docs/reference/network-and-weights.md#bootstrap: declared slots are those of a share and
    type; pilots come before jobs at a unified site (capability ucore) whose workflow is to pull."""
    said = [
        ("SITE_A", "ucore", {"num_slots_map": {"user": {"SCORE": 40, "x": -1}, "nobody": 7}}),
        ("SITE_B", "ucore", {"num_slots_map": {"user": {"SCORE": 0}}, "workflow": "push"}),
    ]
    with world.engine.begin() as tx:
        for site, capability, keys in said:
            tx.execute(
                text(
                    "UPDATE jedi_sites SET capability = :k, catchall = CAST(:c AS jsonb) "
                    "WHERE site = :s"
                ),
                {"k": capability, "c": json.dumps(keys), "s": site},
            )
        found = snapshot.load(tx)
    slots = found.slots.row("user", "SCORE")
    assert slots is not None and found.slots.keys == (("user", "SCORE"),)
    at = {site: row for row, site in enumerate(found.sites)}
    assert [slots[at["SITE_A"]], slots[at["SITE_B"]]] == [40.0, 0.0]
    assert [found.streaming[at[one]] for one in ("SITE_A", "SITE_B")] == [1.0, 0.0]
    with world.engine.begin() as tx:  # most sites say nothing: they are not unified
        tx.execute(text("UPDATE jedi_sites SET capability = NULL, catchall = '{}'"))
        assert not snapshot.load(tx).streaming.any()
    assert {slots[row] for site, row in at.items() if site not in ("SITE_A", "SITE_B")} <= {np.inf}


def test_how_long_queued_jobs_take(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, "
                "attemptnr, status, site, workqueue_id, gshare, resource_type, priority, cores, "
                "memory_mb, walltime_s, disk_mb) "
                "SELECT n, 1, 1, n, n, 1, s, 'SITE_A', q, 'user', 'SCORE', 1, 1, 1, w, 1 "
                "FROM (VALUES (1, 'activated', 100, 1), (2, 'assigned', 0, 1), "
                "(3, 'running', 50, 1), (4, 'activated', 0, 2), (5, 'activated', 9, 3)) "
                "v(n, s, w, q)"
            )
        )
        _, work = throttling.urgency(tx, [1, 2], timed=True)
        assert throttling.urgency(tx, [1, 2], timed=False)[1] == []
    assert sorted(map(tuple, work)) == [(1, "SCORE", 200.0), (2, "SCORE", None)]


# --------------------------------------------------------------------------- the cap, as of old

CURRENT = Knobs({"core.preset": "current"})


def test_a_cap_holds_at_equal_priorities() -> None:
    """JEDI document, "Job throttling": "SKIP/PASS is decided … on lower and upper limits": more
    than the upper one are queued, and work as urgent as they gets no jobs. In current it passes
    while fewer than 500 such jobs wait (docs/reference/throttler-and-shares.md#throttler-tests)."""
    loads = {(1, "SCORE"): JobCounts(running=50, not_running=16)}
    capped = replace(QUEUE, caps={"NQUEUECAP": 15})

    def passes(knobs: Knobs, *told: Any, load: Any = loads) -> bool:
        found = Throttle([capped], load, knobs, [Urgent(1, *told)]).decide(1, "SCORE")
        return isinstance(found, Pass)

    assert not passes(Knobs(), 900, 900, 16) and passes(CURRENT, 900, 900, 16)
    assert passes(Knobs(), 901, 900, 16)
    assert not passes(Knobs(), 900, None, 0, 900)  # none is activated yet, but 900s are coming
    assert not passes(Knobs(), 901, 800, 3, 901)
    assert passes(Knobs(), 901, None, 0, None)
    # whatever other test holds before it
    many = {(1, "SCORE"): JobCounts(running=1, not_running=2500)}
    assert not passes(Knobs(), 900, 900, 16, load=many)
    assert Throttle([capped], many, Knobs()).capped() == [1]
    assert Throttle([capped], many, CURRENT).capped() == []
    assert Throttle([QUEUE], many, Knobs()).capped() == []


@pytest.mark.parametrize(
    ("caps", "classic", "current"),
    [
        ({"NQUEUECAP": 15}, Pass(3, lacking=False), Pass(100, lacking=True)),
        ({"NQUEUECAP": 4}, Pass(1, lacking=False), Pass(100, lacking=True)),
        ({"NQUEUECAP": 3000}, Pass(600, lacking=False), Pass(600, lacking=True)),
        ({"NQUEUECAP": 15, "NQUEUELIMIT": 400}, Pass(250, True), Pass(20, True)),
        ({"NQUEUECAP": 3000, "NQUEUELIMIT": 400}, Pass(250, True), Pass(600, True)),
        ({"NQUEUELIMIT": 6000}, Pass(300, True), Pass(300, True)),
        ({}, Pass(250, True), Pass(250, True)),
    ],
)
def test_a_fifth_of_the_cap_at_once(caps: dict[str, int], classic: Pass, current: Pass) -> None:
    """JEDI document, "Job throttling": "A max queued cap exists: cap/5"; "If there is a min queued
    limit and you are below 0.9*queue limit: max(queue limit/20, normal case). In this case the
    submission will not be locked"."""
    queue = replace(QUEUE, caps=caps)
    loads = {(1, "SCORE"): JobCounts(running=20, not_running=4)}
    assert Throttle([queue], loads, Knobs()).decide(1, "SCORE") == classic
    assert Throttle([queue], loads, CURRENT).decide(1, "SCORE") == current


def test_the_priority_of_jobs_on_their_way(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_tasks (jeditaskid, reqid, taskname, status, username, "
                "workqueue_id, currentpriority) VALUES (1, 1, 't', 'running', 'me', 1, 500)"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, "
                "attemptnr, status, site, workqueue_id, gshare, resource_type, priority, cores, "
                "memory_mb, walltime_s, disk_mb, kind) "
                "SELECT n, 1, 1, n, n, 1, s, 'SITE_A', 1, 'user', 'SCORE', p, 1, 1, 1, 1, k "
                "FROM (VALUES (1, 'assigned', 700, 'normal'), (2, 'starting', 800, 'normal'), "
                "(3, 'running', 950, 'normal'), (4, 'assigned', 5000, 'merge')) v(n, s, p, k)"
            )
        )
        coming = [throttling.urgency(tx, [1], ids, timed=False)[0][0].coming for ids in ([1], [])]
    assert coming == [800, None]
