"""Live tasks by work queue and what holds them, and the cores of their jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jedi.core.holds import HOLDS, hold_of
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports import loads
from jedi.taskbuffer.reports.loads import QueueFlow, TaskCount

WORK_FOR_JOBS = "Its jobs run or wait; each job has its own reason."
"""The sentence of tasks whose jobs decide what holds them."""


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Live tasks of a work queue (empty: none) in a status for a reason (a code of docs/reasons.md,
    or empty). `hold` is what holds them as far as the tasks alone decide it, a code of docs/why.md;
    empty: their jobs do. `since`: the first of them came to its status."""

    queue_name: str
    status: str
    reason: str
    hold: str
    sentence: str
    tasks: int
    since: datetime | None


@operation("queue.tasks", "GET", "/v1/queues/tasks", ANYBODY)
def held_tasks(call: Call) -> list[HeldTasks]:
    """Count the live tasks by work queue, status and reason, with what holds them."""
    return [held(one) for one in loads.TASKS.rows(call.tx, ended=False)]


@operation("queue.flow", "GET", "/v1/queues/flow", ANYBODY)
def flow(call: Call) -> list[QueueFlow]:
    """Count the cores of live jobs by share, work queue and site."""
    return loads.FLOW.rows(call.tx)


def held(one: TaskCount) -> HeldTasks:
    """Tasks with what holds them."""
    hold = hold_of(one.status, one.reason)
    return HeldTasks(
        one.queue_name,
        one.status,
        one.reason,
        hold,
        HOLDS.get(hold, WORK_FOR_JOBS),
        one.tasks,
        one.since,
    )
