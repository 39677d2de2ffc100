"""Names of tasks as arguments of `jedi-task`, with completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import service
from jedi_client.errors import JediError
from jedi_client.statuses import JOB_STATUSES, TASK_STATUSES

if TYPE_CHECKING:
    from jedi_client.models import FileSummary, UsedFile

NEWEST = 50
"""Number of tasks that completion offers."""


def task_ids(incomplete: str) -> list[tuple[str, str]]:
    """The newest tasks whose ids begin so."""
    try:
        with service() as jedi:
            found = jedi.task_list(begins=incomplete, limit=NEWEST)
    except JediError:  # completion has nobody to complain to
        return []
    return [(str(t.jedi_task_id), f"{t.task_name}, {t.status}") for t in found]


def job_ids(incomplete: str) -> list[tuple[str, str]]:
    """The caller's newest jobs whose ids begin so."""
    try:
        with service() as jedi:
            return [
                (str(job), status)
                for job, status in jedi.job_newest(begins=incomplete, limit=NEWEST)
            ]
    except JediError:  # completion has nobody to complain to
        return []


def job_statuses(incomplete: str) -> list[tuple[str, str]]:
    """The statuses of jobs that begin so, with their meaning."""
    return [pair for pair in JOB_STATUSES.items() if pair[0].startswith(incomplete)]


def statuses(incomplete: str) -> list[tuple[str, str]]:
    """The statuses of tasks that begin so, with their meaning."""
    return [pair for pair in TASK_STATUSES.items() if pair[0].startswith(incomplete)]


TaskArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, autocompletion=task_ids, help="The task's id.")
]
TaskIds = Annotated[
    list[int], typer.Argument(metavar="ID...", min=1, autocompletion=task_ids, help="Task ids.")
]
JobConditions = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Such as status=running,failed, site~CERN*, exit!=0, attempt>1 or since>2026-11-01 "
        "(UTC, or with an offset); repeatable, all hold.",
    ),
]
AnyTaskIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID...", min=1, autocompletion=task_ids, help="Task ids."),
]


def file_part(file: FileSummary | UsedFile) -> str:
    """The name of a file, with the range of events if it has one."""
    if file.end_event is None:
        return file.lfn
    return f"{file.lfn}, {file.start_event}-{file.end_event}"
