"""Tasks that reach their goal finish."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.tasks import interventions
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Jobs that run already may end. Source: docs/reference/task-states.md#goal."""

    def step(tx: Connection, limit: int) -> Counts:
        return Counts(told_to_finish=interventions.finish_at_goal(tx, "WatchDog", limit))

    return in_batches(world, step)


DOG = Dog("goal", "watchdog.goal_period_s", "tasks that reach their goal finish", run)
