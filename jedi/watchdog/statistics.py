"""Changes of job statuses are folded into the statistics."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.scheduling import statistics
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Readers see the same sums before and after."""

    def step(tx: Connection, limit: int) -> Counts:
        return Counts(folded=statistics.fold(tx, limit))

    return in_batches(world, step)


DOG = Dog(
    "statistics",
    "watchdog.statistics_period_s",
    "job statistics are folded",
    run,
    statistics.ANY_CHANGES.value,
)
