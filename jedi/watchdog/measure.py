"""Running tasks are measured by their first jobs, and again when more of them have finished."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.postprocessor.scouts import measure, shaped
from jedi.taskbuffer.tasks import new_tasks, scouting
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: JEDI document, "Memory probe and brokerage";
    docs/reference/scouts.md#measured-again."""
    listed = world.knobs.scout.measure_at
    steps = [int(step) for step in listed.split(",")] if listed != "none" else []
    sample = int(world.knobs.scout.sample)

    def step(tx: Connection, limit: int) -> Counts:
        found = scouting.to_measure(tx, steps, limit)
        types = new_tasks.RESOURCE_TYPES.rows(tx)
        measured = {
            task_id: (shaped(task, measure(task, jobs[:sample], world.knobs), types), n)
            for task_id, (task, n, jobs) in found.items()
        }
        scouting.store_measured(tx, measured)
        return Counts(measured=len(measured))

    return in_batches(world, step)


DOG = Dog("measure", "watchdog.measure_period_s", "running tasks are measured again", run)
