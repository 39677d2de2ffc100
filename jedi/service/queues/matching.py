"""Tasks that each work queue would take."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.core.errors import NotFound
from jedi.model.scheduling.criterion import BadCriterion
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.scheduling.queues import WorkQueue


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


@operation("queue.test", "GET", "/v1/queues/test", ANYBODY, heavy=True)
def match(call: Call, jedi_task_id: TaskId | None = None) -> list[Taken]:
    """Show which tasks each work queue would take now, of all active tasks or of one.

    NotFound: there is no such task.
    """
    rows = queues.live_tasks(call.tx, jedi_task_id)
    if jedi_task_id is not None and not rows:
        raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)
    docs = [{"jeditaskid": task_id} for task_id in rows]
    hold = queues.match_all(call.tx, docs) if docs else []
    found = []
    for queue in queues.matchable(queues.ALL_QUEUES.rows(call.tx)):
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
