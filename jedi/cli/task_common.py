"""How the verbs of `jedi-task` name tasks, with completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from jedi.core.errors import BadInput, JediError, Problem
from jedi.core.settings import caller

NEWEST = 50
"""How many tasks completion offers."""


def task_ids(incomplete: str) -> list[tuple[str, str]]:
    """The newest tasks whose ids begin so."""
    from jedi.cli.common import transaction
    from jedi.service import tasks

    try:
        with transaction() as tx:
            found = tasks.find(tx, begins=incomplete, limit=NEWEST)
    except JediError:  # completion has nobody to complain to
        return []
    return [(str(t.jedi_task_id), f"{t.task_name}, {t.status}") for t in found]


def job_ids(incomplete: str) -> list[tuple[str, str]]:
    """The caller's newest jobs whose ids begin so."""
    from jedi.cli.common import transaction
    from jedi.service import jobs

    try:
        with transaction() as tx:
            return [(str(job), status) for job, status in
                    jobs.newest(tx, caller(), incomplete, NEWEST)]  # fmt: skip
    except JediError:  # completion has nobody to complain to
        return []


def job_statuses(incomplete: str) -> list[tuple[str, str]]:
    """The statuses of jobs that begin so, with their meaning."""
    from jedi.core.states import JOB

    return [pair for pair in JOB.states.items() if pair[0].startswith(incomplete)]


def must_be_job_statuses(told: Sequence[str]) -> None:
    """BadInput names what is no status of a job, with the nearest one."""
    from jedi.core.states import JOB
    from jedi.core.suggest import suggest

    problems = [
        Problem("--status", one, "no such status of a job",
                suggest(one, JOB.states, f"There are {', '.join(JOB.states)}"))
        for one in told
        if one not in JOB.states
    ]  # fmt: skip
    if problems:
        raise BadInput(problems)


def statuses(incomplete: str) -> list[tuple[str, str]]:
    """The statuses of tasks that begin so, with their meaning."""
    from jedi.core.states import TASK_STATES

    return [pair for pair in TASK_STATES.items() if pair[0].startswith(incomplete)]


TaskArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, autocompletion=task_ids, help="The task's id.")
]
TaskIds = Annotated[
    list[int], typer.Argument(metavar="ID...", min=1, autocompletion=task_ids, help="Task ids.")
]
AnyTaskIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID...", min=1, autocompletion=task_ids, help="Task ids."),
]
