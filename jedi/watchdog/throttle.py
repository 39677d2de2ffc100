"""Tasks whose jobs failed again and again go on when they have rested; the JobGenerator, which
counts attempts, has put them to rest."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.tasks import interventions, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: docs/reference/task-states.md#throttled."""
    unit_s = float(world.knobs.throttle.unit_s)

    def release(tx: Connection, limit: int) -> Counts:
        reason = "The task rested long enough."
        moves = [
            Move(task.jedi_task_id, task.lock_seq, task.old_status, "throttle_over", reason)
            for task in interventions.THROTTLE_ENDED.rows(tx, unit_s=unit_s, limit=limit)
        ]
        return Counts(throttle_over=len(tasks.move_tasks(tx, moves, "WatchDog")))

    return in_batches(world, release)


DOG = Dog("throttle", "watchdog.throttle_period_s", "throttled tasks resume", run)
