"""Work queues: list and import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.model.scheduling.queue_file import QueueEntry, check_queues, read_queues
from jedi.service.operations.answers import typed
from jedi.service.operations.arguments import FILE_MAX, FileText
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.tasks import waking


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


@operation("queue.list", "GET", "/v1/queues", ANYBODY)
def find(call: Call) -> list[WorkQueueSummary]:
    """List the work queues in the order in which JEDI tries them for a task."""
    return typed(WorkQueueSummary, queues.ALL_QUEUES.rows(call.tx))


@operation("queue.import", "POST", "/v1/queues/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def import_queues(call: Call, text: FileText) -> list[WorkQueueSummary]:
    """Insert or replace the work queues of a file's text, by queue_id.

    Others stay. BadInput holds every mistake, including conflicts with existing queues; then
    nothing is stored.
    """
    written = read_queues(text)
    rows = queues.ALL_QUEUES.rows(call.tx)
    present = {row.queue_id: QueueEntry.model_construct(**row._asdict()) for row in rows}
    will_be = present | {queue.queue_id: queue for queue in written}
    check_queues([*will_be.values()], queues.COLUMNS)
    if wrong := list(_tried(call.tx, written)):
        raise BadInput(wrong)
    queues.put_queues(call.tx, [queue.columns() for queue in written])
    waking.wake_throttled(call.tx)
    names = [one.queue_name for one in written]
    call.name_objects("queue", names)
    return [one for one in find(call) if one.queue_name in names]


def _tried(tx: Connection, written: list[QueueEntry]) -> Iterator[Problem]:
    """Yield the errors of the database when it evaluates the criteria."""
    for queue in written:
        if queue.criteria and (rule := queues.mistake(tx, queue.criteria, queue.variables)):
            path = f"{queue.queue_name}.criteria"
            yield Problem(path, queue.criteria, rule, "Write a simpler condition, or try again")
