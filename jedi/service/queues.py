"""Work queues: list, test, explain, import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem
from jedi.model.scheduling.criterion import BadCriterion
from jedi.model.scheduling.queue_file import QueueEntry, check_queues, read_queues
from jedi.model.tasks.refined import EXPRESS
from jedi.service.site_reports import typed
from jedi.service.steering import must_be_operator
from jedi.service.why import throttle_of
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.scheduling import queues, shares, turns
from jedi.taskbuffer.scheduling.queues import WorkQueue
from jedi.taskbuffer.scheduling.turns import Stopped, TaskInTurn
from jedi.taskbuffer.tasks import waking


def import_queues(tx: Connection, who: str, text: str) -> list[QueueEntry]:
    """Insert or replace the queues of a queue file by queue_id; others stay. BadInput holds every "
    "mistake, including conflicts with existing queues; then nothing is stored. Forbidden: `who` "
    "is no operator.
    """
    must_be_operator(tx, who)
    written = read_queues(text)
    present = {row["queue_id"]: QueueEntry.model_construct(**row) for row in list_queues(tx)}
    will_be = present | {queue.queue_id: queue for queue in written}
    check_queues([*will_be.values()], queues.COLUMNS)
    if wrong := list(_tried(tx, written)):
        raise BadInput(wrong)
    queues.put_queues(tx, [queue.columns() for queue in written])
    waking.wake_throttled(tx)
    return written


def _tried(tx: Connection, written: list[QueueEntry]) -> Iterator[Problem]:
    """Yield the errors of the database when it evaluates the criteria."""
    for queue in written:
        if queue.criteria and (rule := queues.mistake(tx, queue.criteria, queue.variables)):
            path = f"{queue.queue_name}.criteria"
            yield Problem(path, queue.criteria, rule, "Write a simpler condition, or try again")


@dataclass(frozen=True, slots=True)
class WorkQueueSummary:
    """A work queue: tasks with its label (queue_type) go there if its criteria hold; `caps`: its
    limits in jobs by their names."""

    queue_id: int
    queue_name: str
    vo: str
    queue_type: str
    queue_share: int | None
    queue_order: int | None
    criteria: str | None
    variables: str | None
    partitionid: int | None
    stretchable: int | None
    status: str | None
    caps: dict[str, Any] | None


def queue_summaries(tx: Connection) -> list[WorkQueueSummary]:
    """Return all queues in the order in which JEDI tries them."""
    return typed(WorkQueueSummary, list_queues(tx))


def list_queues(tx: Connection) -> list[dict[str, Any]]:
    """Return all queues in the order in which JEDI tries them."""
    return [row._asdict() for row in queues.ALL_QUEUES.rows(tx)]


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


def by_turn(tx: Connection, limit: int) -> list[Turn]:
    """Return the tasks that want jobs, in the order in which they get them."""
    stopped = [Stopped(*one) for one in throttle_of(tx, knobs.load(tx)).full()]
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
        for row in turns.in_order(tx, limit, stopped)
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


@dataclass(frozen=True, slots=True)
class Taken:
    """The tasks of a work queue: its own now, and those for which its criteria hold (a task goes to
    the first such queue by order)."""

    queue_id: int
    queue_name: str
    criteria: str | None
    tasks: int
    holds_for: int
    examples: list[int]
    wrong: str | None


def test_queues(tx: Connection, jedi_task_id: int | None = None) -> list[Taken]:
    """Return, for each queue, the tasks that it would take now, of all active tasks or of one.
    NotFound: there is no such task."""
    rows = queues.live_tasks(tx, jedi_task_id)
    if jedi_task_id is not None and not rows:
        raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)
    docs = [{"jeditaskid": task_id} for task_id in rows]
    hold = queues.match_all(tx, docs) if docs else []
    found = []
    for queue in queues.matchable(queues.ALL_QUEUES.rows(tx)):
        wrong = None
        try:
            queues.criterion(queue, "v")
        except BadCriterion as bad:
            wrong = bad.rule
        first = [t for t, ids in zip(rows, hold, strict=True) if ids[:1] == [queue.queue_id]]
        any_ = sum(queue.queue_id in ids for ids in hold)
        name, criteria = queue.queue_name, _written(queue)
        found.append(Taken(queue.queue_id, name, criteria, len(first), any_, first[:5], wrong))
    return found


def _written(queue: WorkQueue) -> str | None:
    """Return the criteria with the variables replaced by their values, for people."""
    text = queue.criteria or ""
    for pair in filter(None, (queue.variables or "").split(",")):
        name, _, value = pair.partition(":")
        text = text.replace(f":{name.strip()}", repr(value.strip()))
    return text or None


def explain_shares(tx: Connection) -> list[dict[str, Any]]:
    """Return the allocation and usage of each queue in cores, in the order of service."""
    return [row._asdict() for row in shares.LAST.rows(tx)]


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


def share_summaries(tx: Connection) -> list[ShareSummary]:
    """Return the allocation and usage of each queue, in the order of service."""
    return typed(ShareSummary, explain_shares(tx))
