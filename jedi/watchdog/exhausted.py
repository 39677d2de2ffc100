"""Exhausted tasks without a command for a long time finish with their present outputs."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.tasks import interventions, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: docs/reference/task-states.md#exhausted."""
    timeout_s = float(world.knobs.watchdog.exhausted_timeout_s)

    def step(tx: Connection, limit: int) -> Counts:
        moves = [
            Move(
                task.jedi_task_id,
                task.lock_seq,
                "finishing",
                "exhausted_timeout",
                f"Nobody decided within {timeout_s / 3600:g} h: {task.error_dialog}",
            )
            for task in interventions.LONG_EXHAUSTED.rows(tx, timeout_s=timeout_s, limit=limit)
        ]
        return Counts(exhausted_timeout=len(tasks.move_tasks(tx, moves, "WatchDog")))

    return in_batches(world, step)


DOG = Dog("exhausted", "watchdog.exhausted_period_s", "exhausted tasks finish after a time", run)
