"""The order of service: shares of work queues, and turns of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jedi.model.queries import MostRows
from jedi.model.tasks.refined import EXPRESS
from jedi.service.operations.answers import typed
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks.why import throttle_of
from jedi.taskbuffer.scheduling import shares, task_order
from jedi.taskbuffer.scheduling.task_order import Stopped, TaskInTurn


@dataclass(frozen=True, slots=True)
class ShareSummary:
    """A work queue as the last run of the shares found it, in cores: `entitlement` by its share
    alone, `allocation` with stretched shares; `ratio` is usage by allocation."""

    queue_id: int
    queue_name: str
    queue_share: int | None
    stretchable: int | None
    active: bool
    entitlement: float | None
    allocation: float | None
    usage: float | None
    demand: float | None
    ratio: float | None
    computed_at: datetime


@operation("queue.shares", "GET", "/v1/queues/shares", ANYBODY)
def find_shares(call: Call) -> list[ShareSummary]:
    """Show the allocation and use of each work queue in cores, in the order of service."""
    return typed(ShareSummary, shares.LAST.rows(call.tx))


@dataclass(frozen=True, slots=True)
class Turn:
    """A task that wants jobs; `ratio` is usage over allocation of its share, `reason` explains its
    position."""

    jedi_task_id: int
    task_name: str
    user_name: str
    status: str
    share: str
    ratio: float | None
    priority: int
    reason: str
    next_run_at: datetime | None


@operation("queue.turns", "GET", "/v1/queues/turns", ANYBODY)
def by_turn(call: Call, limit: MostRows = 100) -> list[Turn]:
    """List the tasks that want jobs, in the order in which they get them."""
    stopped = [Stopped(*one) for one in throttle_of(call.tx, call.knobs).full()]
    return [
        Turn(
            jedi_task_id=row.jedi_task_id,
            task_name=row.task_name,
            user_name=row.user_name,
            status=row.status,
            share=row.gshare,
            ratio=row.ratio,
            priority=row.priority,
            reason=_turn(row),
            next_run_at=row.next_run_at,
        )
        for row in task_order.in_order(call.tx, limit, stopped)
    ]


def _turn(row: TaskInTurn) -> str:
    """Return the reason for a task's position in the order."""
    if row.stopped:
        return "throttled: its work queue has enough jobs"
    if row.gshare == EXPRESS:
        return "urgent: before all shares"
    if not row.shared:
        return "not shared: counts as unused; users take turns, then priority"
    if row.ratio is None:
        return "nothing is allocated to its share; then priority"
    return f"its share uses {100 * row.ratio:.0f} % of its allocation; then priority"
