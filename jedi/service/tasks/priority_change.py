"""Change of an active task's priority."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.core.errors import BadInput, Problem, Refused
from jedi.model.scheduling.priority import OF_USERS
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.tasks import task_details
from jedi.taskbuffer.tasks import priorities

MOST = 10_000


@dataclass(frozen=True, slots=True)
class Changed:
    """A task with its priority, and the number of queued jobs that got it."""

    jedi_task_id: int
    priority: int
    jobs: int


@operation("task.set_priority", "PUT", "/v1/tasks/{jedi_task_id}/priority", OWNER, dry_run=True)
def change(call: Call, jedi_task_id: TaskId, priority: int) -> Changed:
    """Change the priority of a task and of its waiting jobs.

    NotFound; Refused: it has ended; BadInput.
    """
    task, role = task_details.get(call.tx, jedi_task_id), call.role
    least, most = OF_USERS if role == "user" else (0, MOST)
    if not least <= priority <= most:
        rule = f"you may give priorities from {least} to {most}"
        more = ", or ask an operator" if most < MOST else ""
        raise BadInput([Problem("priority", priority, rule, f"Choose one of these{more}")])
    if task.is_final:
        raise Refused(
            f"Task {jedi_task_id} is already {task.status}.",
            code="wrong_status",
            jedi_task_id=jedi_task_id,
            status=task.status,
        )
    return Changed(
        jedi_task_id, priority, priorities.put(call.tx, jedi_task_id, priority, call.who)
    )
