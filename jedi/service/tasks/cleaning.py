"""Removal of outputs of tasks and jobs: marks them for the dog `purge`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import Refused
from jedi.service.operations.arguments import Days, TaskId
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.tasks import task_details
from jedi.taskbuffer.jobs import purging
from jedi.taskbuffer.reports.listings import FileSummary

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A dataset, and its files that JEDI will remove."""

    dataset: str
    files: int
    bytes: int


@operation("task.clean", "POST", "/v1/tasks/{jedi_task_id}/clean", OWNER, dry_run=True, heavy=True)
def clean(
    call: Call,
    jedi_task_id: TaskId,
    after_days: Days = 0.0,
    comment: str | None = None,
) -> list[Cleaned]:
    """Remove the outputs of a task that has ended, now or in some days.

    NotFound, Forbidden; Refused: the task has not ended, or another one reads or fills its outputs.
    """
    tx = call.tx
    must_be_over(tx, [jedi_task_id])
    reason = reason_of(call.who, after_days, comment)
    purging.keep_task_until(tx, jedi_task_id, DAY_S * after_days, "jedi-task", reason)
    if after_days:
        must_stay(purging.BEING_REMOVED.rows(tx, tasks=[jedi_task_id]))
    return _sums(task_details.kept(tx, jedi_task_id, ["output"]))


def must_be_over(tx: Connection, task_ids: Sequence[int]) -> None:
    """Raise Refused unless the tasks have ended and no other task needs their outputs."""
    for task in task_details.among(tx, task_ids):
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
