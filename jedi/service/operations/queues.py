"""Operations on work queues: list, import, test, shares, turns."""

from __future__ import annotations

from jedi.model.queries import MostRows
from jedi.service import past, queues
from jedi.service.operations.arguments import FILE_MAX, FileText, Moments, TaskId
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation


@operation("queue.list", "GET", "/v1/queues", ANYBODY)
def find(call: Call) -> list[queues.WorkQueueSummary]:
    """List the work queues in the order in which JEDI tries them for a task."""
    return queues.queue_summaries(call.tx)


@operation("queue.import", "POST", "/v1/queues/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def put_file(call: Call, text: FileText) -> list[queues.WorkQueueSummary]:
    """Insert or replace the work queues of a file's text, by queue_id."""
    written = queues.import_queues(call.tx, call.who, text)
    names = [one.queue_name for one in written]
    call.name_objects("queue", names)
    return [one for one in queues.queue_summaries(call.tx) if one.queue_name in names]


@operation("queue.test", "GET", "/v1/queues/test", ANYBODY, heavy=True)
def test(call: Call, jedi_task_id: TaskId | None = None) -> list[queues.Taken]:
    """Show which tasks each work queue would take now, of all active tasks or of one."""
    return queues.test_queues(call.tx, jedi_task_id)


@operation("queue.shares", "GET", "/v1/queues/shares", ANYBODY)
def shares(call: Call) -> list[queues.ShareSummary]:
    """Show the allocation and use of each work queue in cores, in the order of service."""
    return queues.share_summaries(call.tx)


@operation("queue.turns", "GET", "/v1/queues/turns", ANYBODY)
def turns(call: Call, limit: MostRows = 100) -> list[queues.Turn]:
    """List the tasks that want jobs, in the order in which they get them."""
    return queues.by_turn(call.tx, limit)


@operation("queue.at", "GET", "/v1/queues/at", ANYBODY, heavy=True)
def at_time(call: Call, at: Moments) -> list[past.QueuesThen]:
    """Show the work queues as they were at one time or two: tasks by status, and jobs that reached
    each status in that hour. Times such as 2026-11-26T12:00 are UTC."""
    return past.queues_at(call.tx, at)
