"""Periodical tasks get their next job when its time has come."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.model.tasks.period import Period
from jedi.taskbuffer.tasks import periods
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Periods that went by while the task or the system stood still are left out. Source: JEDI
    document, "Periodical task execution"."""
    grace = timedelta(seconds=float(world.knobs.watchdog.period_grace_s))

    def step(tx: Connection, limit: int) -> Counts:
        found = {
            row.jedi_task_id: Period.parse(row.period).serve(row.next_period, row.now, grace)
            for row in periods.DUE.rows(tx, limit=limit)
        }
        if not found:
            return Counts()
        periods.SET_NEXT.run(tx, ids=list(found), times=[at for _, at in found.values()])
        released = periods.release(tx, [task for task, (now, _) in found.items() if now])
        return Counts(released=len(released), looked_at=len(found) - len(released))

    return in_batches(world, step)


DOG = Dog(
    "periods",
    "watchdog.periods_period_s",
    "periodical tasks get their next job",
    run,
    periods.ANY_PERIODICAL.value,
)
