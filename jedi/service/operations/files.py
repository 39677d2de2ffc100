"""Operations on the content of files: outputs and logs travel through the service."""

from __future__ import annotations

from jedi.service import contents, recovery, results, tasks
from jedi.service.operations.arguments import PAGE_ROWS, PageRows, TaskId
from jedi.service.operations.table import ANYBODY, OWNER, Call, FileContent, operation
from jedi.taskbuffer.reports.listings import FileSummary


@operation("task.outputs", "GET", "/v1/tasks/{jedi_task_id}/outputs", ANYBODY, heavy=True)
def outputs(
    call: Call,
    jedi_task_id: TaskId,
    logs: bool = False,
    after: TaskId | None = None,
    limit: PageRows = PAGE_ROWS,
) -> list[FileSummary]:
    """List the finished outputs of a task that are kept, by dataset; with logs if wanted. `after`:
    the id of the last file of the page before."""
    return tasks.outputs(call.tx, jedi_task_id, logs=logs, after=after, limit=limit)


@operation("file.content", "GET", "/v1/tasks/{jedi_task_id}/files/{file_id}/content", ANYBODY)
def content(call: Call, jedi_task_id: TaskId, file_id: TaskId) -> FileContent:
    """Download a finished output or a log of a task; ranges of bytes are served."""
    return contents.of_output(call.tx, call.ddm, jedi_task_id, file_id)


@operation("job.content", "GET", "/v1/jobs/{panda_id}/outputs/{file_id}/content", ANYBODY)
def laid_down(call: Call, panda_id: TaskId, file_id: TaskId) -> FileContent:
    """Download an output of a job; of one that is held before they are stored, too."""
    return contents.of_job(call.tx, call.ddm, panda_id, file_id)


@operation("task.log", "GET", "/v1/tasks/{jedi_task_id}/jobs/{panda_id}/log", ANYBODY)
def printed(call: Call, jedi_task_id: TaskId, panda_id: TaskId) -> results.Printed:
    """Show the output of a job of a task."""
    return results.printed(call.tx, call.ddm, jedi_task_id, panda_id)


@operation("task.recover", "POST", "/v1/tasks/recover", OWNER, dry_run=True, heavy=True)
def recover(
    call: Call,
    jedi_task_ids: list[TaskId] | None = None,
    dataset: str | None = None,
    files: list[str] | None = None,
    sole: bool = False,
    comment: str | None = None,
) -> recovery.Recovered:
    """Make lost outputs of tasks, or of a dataset, again, and their inputs if these are lost."""
    call.name_objects(*(("dataset", [dataset]) if dataset else ("task", jedi_task_ids or ())))
    return recovery.recover(
        call.tx,
        call.ddm,
        call.who,
        jedi_task_ids or (),
        dataset,
        files or (),
        sole=sole,
        comment=comment,
    )
