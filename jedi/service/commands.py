"""What people ask of a task: it is noted here and carried out by TaskCommando."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, Problem, Refused
from jedi.core.suggest import suggest
from jedi.service import tasks
from jedi.taskbuffer import commands, users
from jedi.taskcommando.commands import COMMANDS


def command(
    tx: Connection,
    who: str,
    jedi_task_id: int,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    comment: str | None = None,
) -> int:
    """Ask a task to be killed, retried, …; the number of the command.

    BadInput: no such command; NotFound: no such task; Forbidden: somebody else's, unless `who` is
    an operator (or, for retry, a production user: contracts §15); Refused: not in its status.
    """
    if name not in COMMANDS:
        remedy = suggest(name, COMMANDS, f"There are {', '.join(COMMANDS)}")
        raise BadInput([Problem("command", name, "no such command", remedy)])
    task = tasks.get(tx, jedi_task_id)
    allowed = ("operator", "production") if name == "retry" else ("operator",)
    if who != task.user_name and users.role(tx, who) not in allowed:
        raise Forbidden(
            f"Task {jedi_task_id} belongs to {task.user_name}: only its owner and operators may "
            f"{name} it.",
            jedi_task_id=jedi_task_id,
            owner=task.user_name,
        )
    if refusal := COMMANDS[name].refusal(task.status):
        raise Refused(refusal, code="wrong_status", jedi_task_id=jedi_task_id, status=task.status)
    return commands.append(tx, jedi_task_id, name, who, arguments, comment)
