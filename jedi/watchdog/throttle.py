"""Tasks whose jobs fail again and again rest for a while, each time longer, then go on."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer import tasks, tending
from jedi.taskbuffer.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: seed, "throttled"; engine.md §8.3, end."""
    every, unit_s = int(world.knobs["throttle.every"]), float(world.knobs["throttle.unit_s"])
    by_mean = world.knobs["throttle.measure"] == "mean_failures"

    def release(tx: Connection, limit: int) -> Counts:
        reason = "The task rested long enough."
        moves = [
            Move(task.jeditaskid, task.lock_seq, task.oldstatus, "throttle_over", reason)
            for task in tending.rested(tx, unit_s, limit)
        ]
        return Counts(throttle_over=len(tasks.move_tasks(tx, moves, "WatchDog")))

    def throttle(tx: Connection, limit: int) -> Counts:
        tired = tending.tired(tx, every, by_mean, limit)
        moves = []
        for task in tired:
            reason = (
                f"Inputs needed {task.most} attempts: no jobs are made for "
                f"{unit_s * task.n**2 / 60:g} min."
            )
            facts = {"attempts": task.most, "times": task.n}
            moves.append(
                Move(task.jeditaskid, task.lock_seq, "throttled", "many_attempts", reason, facts)
            )
        moved = tasks.move_tasks(tx, moves, "WatchDog")
        tending.note_throttled(tx, {task.jeditaskid: task.n for task in tired})
        return Counts(many_attempts=len(moved))

    return in_batches(world, release) + in_batches(world, throttle)


DOG = Dog("throttle", "watchdog.throttle_period_s", "tasks that fail again and again rest", run)
