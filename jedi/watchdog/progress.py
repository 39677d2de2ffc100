"""The dog that records the progress of working tasks."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.scheduling import statistics
from jedi.taskbuffer.tasks import ending, tasks
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Record every task once. The PostProcessor handles the ones that end meanwhile."""
    last = 0

    def step(tx: Connection, limit: int) -> Counts:
        nonlocal last
        found = statistics.LOCK_WORKING.rows(
            tx, statuses=ending.PREPARABLE, after=last, limit=limit
        )
        statistics.NOTE_PROGRESS.run(tx, ids=found)
        last = max(found, default=last)
        return Counts(assessed=len(found))

    return in_batches(world, step)


def _any(tx: Connection) -> bool:
    return tasks.ANY_IN.value(tx, statuses=ending.PREPARABLE)


DOG = Dog("progress", "watchdog.progress_period_s", "progress of tasks is recorded", run, _any)
