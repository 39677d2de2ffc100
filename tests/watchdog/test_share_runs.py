"""When the dog of shares computes them: while queues have work, else once a minute."""

# Raw UPDATEs: tasks that no agent works on.

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from sqlalchemy import text
from support.dogs import run

from jedi.agent.base import World


def do(world: World, statement: str) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement))


def computed(world: World) -> tuple[datetime, bool]:
    """When the dog computed shares the last time, and whether it found work."""
    run(world, "shares")
    with world.engine.begin() as tx:
        found = tx.execute(text("SELECT max(computed_at), bool_or(active) FROM jedi_queue_shares"))
        at, active = found.one()
    return at, active


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (
            "INSERT INTO jedi_tasks (status, reqid, workqueue_id) VALUES ('ready', 1, 1)",
            "UPDATE jedi_tasks SET status = 'paused'",
        ),
        (
            "INSERT INTO job_stats VALUES ('SITE_A', 1, 'user', 'SCORE', 'running', 1, 1)",
            "DELETE FROM job_stats",
        ),
        (
            "INSERT INTO job_stats_delta VALUES (1, 'SITE_A', 1, 'user', 'SCORE', 'running', 1, 1)",
            "DELETE FROM job_stats_delta",
        ),
    ],
    ids=["a task", "jobs", "jobs that are not folded yet"],
)
def test_shares_follow_work(
    world: World, at: Callable[[float], None], begin: str, end: str
) -> None:
    """By hand: at 0 s the first run; at 10 s there is no work and no run; at 20 and 30 s there is
    work; at 40 s it is over, and a last run says so; at 50 s none; at 101 s the last is older than
    a minute."""
    do(world, "DELETE FROM jedi_queue_shares")
    at(0)
    first = computed(world)
    at(10)
    assert computed(world) == first == (first[0], False)
    do(world, begin)
    seen = []
    for second in (20, 30):
        at(second)
        seen.append(computed(world))
    do(world, end)
    for second in (40, 50, 101):
        at(second)
        seen.append(computed(world))
    runs = [((when - first[0]).total_seconds(), active) for when, active in seen]
    assert runs == [(20, True), (30, True), (40, False), (40, False), (101, False)]
