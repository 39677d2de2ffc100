"""The price of a dog's look at live jobs that need nothing.

Expected: the scan of live jobs drops them at once. No join, sort or list has a row for each job.
"""

# Raw UPDATEs: many running jobs at once, which no pilot takes.

from __future__ import annotations

import pytest
from sqlalchemy import text
from support.job_rows import make_jobs
from support.pages import nodes, plan_of, rows_of_node, vacuum

from jedi.agent.base import World
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.taskbuffer.jobs import capping, timeouts
from jedi.watchdog.timeouts import _given

JOBS, FEW = 2_000, 100
_AT_WORK = text("""
UPDATE jedi_jobs SET prodsourcelabel = 'user', username = 'anna', heartbeat_at = jedi_now(),
  status = CASE WHEN pandaid % 10 = 0 THEN 'activated' ELSE 'running' END,
  statechangetime = jedi_now() - interval '10 h'
""")


@pytest.fixture
def busy(world: World) -> World:
    """Jobs of a user: a tenth of them have waited for 10 h, the others have run for as long."""
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        make_jobs(tx, JOBS, files=1)
        assert tx.execute(_AT_WORK).rowcount == JOBS
    vacuum(world.engine)
    return world


def test_young_jobs_are_dropped_by_the_scan(busy: World) -> None:
    """No time-out is over. Jobs of analysis may wait for 12 h; those that may wait for 6 h (evgen
    and simul) or 4 h (urgent) only are others. The scan gives no job to the rules."""
    limits = {
        timeouts._bind(one): busy.knobs[one.limit] for one in timeouts.TIMEOUTS if "." in one.limit
    }
    plan = plan_of(busy.engine, timeouts._OVERDUE, **limits, **_given(busy.knobs), limit=1000)
    scans = [one for one in nodes(plan) if one.get("Relation Name") == "jedi_jobs"]
    assert scans
    assert [rows_of_node(one) for one in scans] == [0.0] * len(scans)


def test_users_below_their_cap_cost_a_count_by_task(busy: World) -> None:
    """The user runs 1,800 jobs and may have 10,000: only tasks have rows beyond the scan."""
    values = {"production": list(PRODUCTION_LABELS), "user_cap": 10_000, "group_cap": 0}
    plan = plan_of(busy.engine, capping._CAPPED, **values)
    beyond = [one for one in nodes(plan) if one.get("Relation Name") != "jedi_jobs"]
    assert max(map(rows_of_node, beyond)) <= FEW
