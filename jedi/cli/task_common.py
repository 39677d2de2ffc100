"""How the verbs of `jedi-task` name tasks, with completion."""

from __future__ import annotations

from typing import Annotated

import typer

from jedi.core.errors import JediError

NEWEST = 50
"""How many tasks completion offers."""


def _task_ids(incomplete: str) -> list[tuple[str, str]]:
    """The newest tasks whose ids begin so."""
    from jedi.cli.common import transaction
    from jedi.service import tasks

    try:
        with transaction() as tx:
            found = tasks.find(tx, limit=NEWEST)
    except JediError:  # completion has nobody to complain to
        return []
    ids = [(str(t.jedi_task_id), f"{t.task_name}, {t.status}") for t in found]
    return [(number, about) for number, about in ids if number.startswith(incomplete)]


def statuses(incomplete: str) -> list[tuple[str, str]]:
    """The statuses of tasks that begin so, with their meaning."""
    from jedi.core.states import TASK_STATES

    return [pair for pair in TASK_STATES.items() if pair[0].startswith(incomplete)]


Task = Annotated[
    int, typer.Argument(metavar="ID", min=1, autocompletion=_task_ids, help="The task's id.")
]
TaskIds = Annotated[
    list[int], typer.Argument(metavar="ID...", min=1, autocompletion=_task_ids, help="Task ids.")
]
AnyTaskIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID...", min=1, autocompletion=_task_ids, help="Task ids."),
]
