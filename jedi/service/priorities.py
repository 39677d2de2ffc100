"""Change of an active task's priority."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, Problem, Refused
from jedi.model.scheduling.priority import OF_USERS
from jedi.service import tasks
from jedi.taskbuffer.tasks import priorities
from jedi.taskbuffer.users import users

MOST = 10_000


@dataclass(frozen=True, slots=True)
class Changed:
    """A task with its priority, and the number of queued jobs that got it."""

    jedi_task_id: int
    priority: int
    jobs: int


def change(tx: Connection, who: str, jedi_task_id: int, priority: int) -> Changed:
    """Set the priority of a task and of its queued jobs. Users have the same range as at
    submission. NotFound; Forbidden: the task belongs to another user, and `who` is no operator;
    Refused: it has ended; BadInput."""
    task, role = tasks.get(tx, jedi_task_id), users.role(tx, who)
    if who != task.user_name and role != "operator":
        raise Forbidden(
            f"Task {jedi_task_id} belongs to {task.user_name}: only its owner and operators may "
            "change its priority.",
            jedi_task_id=jedi_task_id,
            owner=task.user_name,
        )
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
    return Changed(jedi_task_id, priority, priorities.put(tx, jedi_task_id, priority, who))
