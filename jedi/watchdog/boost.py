"""The last jobs of nearly complete production tasks come first."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.model.tasks.refined import EXPRESS
from jedi.taskbuffer.tasks import interventions
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: JEDI document, "Automatic priority boosting for quick completion of tasks"; the
    parent of a boosted task is complete (docs/reference/task-states.md#boost)."""
    knobs = world.knobs
    priority = int(knobs.boost.priority)
    percent, to_do = float(knobs.boost.done_percent), int(knobs.boost.jobs)

    def step(tx: Connection, limit: int) -> Counts:
        found = interventions.NEARLY_DONE.rows(
            tx,
            labels=PRODUCTION_LABELS,
            percent=percent,
            to_do=to_do,
            priority=priority,
            share=EXPRESS,
            limit=limit,
        )
        interventions.boost(tx, found, priority, EXPRESS)
        return Counts(boosted=len(found))

    return in_batches(world, step)


DOG = Dog("boost", "watchdog.boost_period_s", "the last jobs of a task come first", run)
