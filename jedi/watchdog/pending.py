"""Tasks on hold are tried again. After too long a time they wait for a person, and so do tasks that
got no nucleus."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core.holds import backs_off
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.housekeeping.dogs import HeldTask
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """A task that was held again and again counts from its first hold, and waits as long as it has
    waited for the same reason (`retry_s` at most) before the next try. The TaskBroker itself tries
    tasks in `assigning` again."""
    retry_s = float(world.knobs.watchdog.pending_retry_s)
    timeout_s = float(world.knobs.watchdog.pending_timeout_s)

    def step(tx: Connection, limit: int) -> Counts:
        held = dogs.ON_HOLD.rows(tx, retry_s=retry_s, timeout_s=timeout_s, limit=limit)
        moves = {task.jedi_task_id: _move(task, retry_s, timeout_s) for task in held}
        moved = tasks.move_tasks(tx, [*moves.values()], "WatchDog")
        return Counts(moves[one.jedi_task_id].reason_code for one in moved)

    return in_batches(world, step)


def _move(task: HeldTask, retry_s: float, timeout_s: float) -> Move:
    facts: dict[str, Any] = {"held_by": task.reason_code}
    if task.too_long:
        waited = "On hold" if task.status == "pending" else "Without a nucleus"
        reason = f"{waited} for more than {timeout_s:.0f} s: {task.error_dialog}"
        target, code = "exhausted", "pending_timeout"
    else:
        reason = f"Tried again after: {task.error_dialog}"
        target, code = task.old_status, "hold_over"
        wait_s = min(retry_s, task.held_s) if task.soon else retry_s
        facts |= {"since": task.state_change_time}
        facts |= {"wait_s": wait_s} if backs_off(task.reason_code) or not task.soon else {}
    return Move(task.jedi_task_id, task.lock_seq, target, code, reason, facts)


def _any(tx: Connection) -> bool:
    return tasks.ANY_IN.value(tx, statuses=("pending", "assigning"))


DOG = Dog("pending", "watchdog.pending_period_s", "tasks on hold are tried again", run, _any)
