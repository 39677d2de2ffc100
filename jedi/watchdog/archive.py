"""Jobs that ended some time ago go to the archive."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.jobs import archive
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Only readers of live jobs see a difference: they have fewer to look at."""
    age_s, last = float(world.knobs.archive.age_s), 0

    def step(tx: Connection, limit: int) -> Counts:
        nonlocal last
        moved = archive.ARCHIVE_JOBS.rows(tx, age_s=age_s, after=last, limit=limit)
        last = max(moved, default=last)
        return Counts(archived=len(moved))

    return in_batches(world, step)


DOG = Dog("archive", "watchdog.archive_period_s", "jobs that have ended are archived", run)
