"""Tasks whose workers died: their leases end, and a task that kills its workers is set aside."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core import states
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.housekeeping.dogs import KillerTask
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog, in_batches

_CODE = "worker_killed"


def run(world: World) -> Counts:
    """Set the killers aside first: a lease that ended proves nothing."""
    max_deaths = int(world.knobs.agent.max_deaths)
    retry_s = float(world.knobs.watchdog.pending_retry_s)

    def set_aside(tx: Connection, limit: int) -> Counts:
        killers = dogs.CLAIM_KILLERS.rows(tx, max_deaths=max_deaths, limit=limit)
        moves = [_move(task, max_deaths, retry_s) for task in killers]
        return Counts(**{_CODE: len(tasks.move_tasks(tx, moves, "WatchDog"))})

    def release(tx: Connection, limit: int) -> Counts:
        return Counts(lease_over=dogs.RELEASE_STALE.run(tx, limit=limit))

    return in_batches(world, set_aside) + in_batches(world, release)


def _move(task: KillerTask, max_deaths: int, retry_s: float) -> Move:
    target = status_aside(task.status)
    reason = (
        f"Processes that worked on the task in status {task.status} died {max_deaths} times in a "
        f"row, the last one was {task.locked_by}."
    )
    wait_s = retry_s if target == task.status else 0.0
    return Move(task.jedi_task_id, task.lock_seq, target, _CODE, reason, wait_s=wait_s)


def status_aside(status: str) -> str:
    """Return the status of a task that no agent can work on; without a legal move it only waits."""
    ways = ("exhausted", "tobroken")
    return next((target for target in ways if states.TASK.allows(status, target)), status)


DOG = Dog(
    "leases",
    "watchdog.leases_period_s",
    "tasks of dead workers become free",
    run,
    dogs.ANY_CLAIMED.value,
)
