"""The content of a task's files, for those who fetch them over the service."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.ddm.interface import DDM
from jedi.service import jobs
from jedi.service.operations.table import FileContent
from jedi.taskbuffer.jobs import transfers
from jedi.taskbuffer.reports import listings


def of_output(tx: Connection, ddm: DDM, jedi_task_id: int, file_id: int) -> FileContent:
    """A finished output or log of a task. NotFound: there is none, or it is not kept any more."""
    file = listings.OUTPUT.row(tx, task=jedi_task_id, file=file_id)
    if file is None:
        raise NotFound(f"Task {jedi_task_id} has no finished output {file_id}.", file_id=file_id)
    places = ddm.locate(file.dataset, [file.lfn]).get(file.lfn)
    if not places:
        raise NotFound(
            f"{file.lfn} of {file.dataset} is no longer in storage.",
            code="file_missing",
            lfn=file.lfn,
            dataset=file.dataset,
        )
    return FileContent(ddm.path(places[0], file.dataset, file.lfn), file.lfn, file.adler32)


def of_job(tx: Connection, ddm: DDM, panda_id: int, file_id: int) -> FileContent:
    """An output of a job, stored or only laid down by its pilot. NotFound."""
    [job] = jobs.get(tx, [panda_id])
    if (laid := transfers.laid_down(tx, panda_id)) is None:
        return of_output(tx, ddm, job.jedi_task_id, file_id)
    for file in jobs.outputs(tx, panda_id):
        if file.file_id == file_id:
            path = ddm.staging_dir(laid[0], panda_id, laid[1]) / file.lfn
            return FileContent(path, file.lfn, file.adler32)
    raise NotFound(f"Job {panda_id} has no output {file_id}.", file_id=file_id)
