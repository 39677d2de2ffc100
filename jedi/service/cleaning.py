"""Removal of outputs of tasks and jobs: marks them for the dog `purge`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import Forbidden, Refused
from jedi.service import tasks
from jedi.taskbuffer.jobs import purging
from jedi.taskbuffer.reports.listings import FileSummary
from jedi.taskbuffer.users import users

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A dataset, and its files that JEDI will remove."""

    dataset: str
    files: int
    bytes: int


def clean(
    tx: Connection,
    who: str,
    jedi_task_id: int,
    keep_days: float = 0.0,
    comment: str | None = None,
) -> list[Cleaned]:
    """Mark all outputs of an ended task for removal after so many days. Return the files that exist
    now.

    NotFound, Forbidden; Refused: the task has not ended, or another one reads or fills its outputs.
    """
    task = tasks.get(tx, jedi_task_id)
    if who != task.user_name and users.role(tx, who) != "operator":
        raise Forbidden(
            f"Task {jedi_task_id} belongs to {task.user_name}: only its owner and operators may "
            "clean it.",
            jedi_task_id=jedi_task_id,
            owner=task.user_name,
        )
    must_be_over(tx, [jedi_task_id])
    reason = reason_of(who, keep_days, comment)
    purging.keep_task_until(tx, jedi_task_id, DAY_S * keep_days, "jedi-task", reason)
    if keep_days:
        must_stay(purging.BEING_REMOVED.rows(tx, tasks=[jedi_task_id]))
    return _sums(tasks.outputs(tx, jedi_task_id))


def must_be_over(tx: Connection, task_ids: Sequence[int]) -> None:
    """Raise Refused unless the tasks have ended and no other task needs their outputs."""
    for task in tasks.among(tx, task_ids):
        if not task.is_final:
            raise Refused(
                f"Task {task.jedi_task_id} is {task.status}: its outputs can be "
                "removed when it has ended.",
                code="wrong_status",
                jedi_task_id=task.jedi_task_id,
                status=task.status,
            )
        for row in purging.IN_USE.rows(tx, task=task.jedi_task_id):
            raise Refused(
                f"Task {row.jedi_task_id} still uses {row.dataset_name}: wait for its end.",
                code="output_in_use",
                jedi_task_id=row.jedi_task_id,
                dataset=row.dataset_name,
            )


def must_stay(going: Iterable[int]) -> None:
    """Raise Refused if there are such jobs: their outputs are being removed."""
    for job in going:
        raise Refused(
            f"JEDI has removed the outputs of job {job}, or is removing them: it can't keep them.",
            code="outputs_going",
            panda_id=job,
        )


def reason_of(who: str, keep_days: float, comment: str | None) -> str:
    """Return the sentence for the logs of jobs."""
    why = f": {comment}" if comment else ""
    how = f"stay {keep_days:g} more days" if keep_days else "may be removed now"
    return f"Its outputs {how}, by {who}{why}."


def _sums(files: Sequence[FileSummary]) -> list[Cleaned]:
    found: dict[str, Cleaned] = {}
    for file in files:
        had = found.get(file.dataset, Cleaned(file.dataset, 0, 0))
        found[file.dataset] = Cleaned(file.dataset, had.files + 1, had.bytes + (file.size or 0))
    return list(found.values())
