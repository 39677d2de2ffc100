"""The content of a task's files, for those who fetch them over the service."""

from __future__ import annotations

from jedi.core.errors import NotFound
from jedi.service.jobs import job_details
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, FileContent, operation
from jedi.taskbuffer.jobs import transfers
from jedi.taskbuffer.reports import listings


@operation("file.content", "GET", "/v1/tasks/{jedi_task_id}/files/{file_id}/content", ANYBODY)
def of_output(call: Call, jedi_task_id: TaskId, file_id: TaskId) -> FileContent:
    """Download a finished output or a log of a task; ranges of bytes are served.

    NotFound: there is none, or it is not kept any more.
    """
    file = listings.OUTPUT.row(call.tx, task=jedi_task_id, file=file_id)
    if file is None:
        raise NotFound(f"Task {jedi_task_id} has no finished output {file_id}.", file_id=file_id)
    places = call.ddm.locate(file.dataset, [file.lfn]).get(file.lfn)
    if not places:
        raise NotFound(
            f"{file.lfn} of {file.dataset} is no longer in storage.",
            code="file_missing",
            lfn=file.lfn,
            dataset=file.dataset,
        )
    return FileContent(call.ddm.path(places[0], file.dataset, file.lfn), file.lfn, file.adler32)


@operation("job.content", "GET", "/v1/jobs/{panda_id}/outputs/{file_id}/content", ANYBODY)
def of_job(call: Call, panda_id: TaskId, file_id: TaskId) -> FileContent:
    """Download an output of a job; of one that is held before they are stored, too.

    NotFound.
    """
    tx = call.tx
    [job] = job_details.get(tx, [panda_id])
    if (laid := transfers.laid_down(tx, panda_id)) is None:
        return of_output(call, job.jedi_task_id, file_id)
    for file in job_details.outputs(call, panda_id):
        if file.file_id == file_id:
            path = call.ddm.staging_dir(laid[0], panda_id, laid[1]) / file.lfn
            return FileContent(path, file.lfn, file.adler32)
    raise NotFound(f"Job {panda_id} has no output {file_id}.", file_id=file_id)
