"""Tasks most of whose jobs fail are paused, until a person has looked at them."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.tasks import interventions, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches

_CODE = "failure_rate"


def run(world: World) -> Counts:
    """A task that is resumed is not paused again in the same attempt. Source:
    docs/reference/task-states.md#pause."""
    percent = float(world.knobs.autopause.failure_percent)
    limits = int(world.knobs.autopause.min_ended), int(world.knobs.autopause.min_left)

    def step(tx: Connection, limit: int) -> Counts:
        moves = [
            Move(
                task.jedi_task_id,
                task.lock_seq,
                "paused",
                _CODE,
                f"{task.failed} of {task.ended} jobs failed, and {task.to_do} are left: look at "
                "their errors, then resume the task or end it.",
                {"failed": task.failed, "ended": task.ended, "to_do": task.to_do},
            )
            for task in interventions.failing(tx, percent, *limits, _CODE, limit)
        ]
        return Counts(**{_CODE: len(tasks.move_tasks(tx, moves, "WatchDog"))})

    return in_batches(world, step) if percent else Counts()


DOG = Dog("failing", "watchdog.failing_period_s", "tasks most of whose jobs fail are paused", run)
