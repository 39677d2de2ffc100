"""The output of payloads, for people."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

from jedi_client.times import written

from jedi.core.errors import NotFound, Refused
from jedi.ddm.interface import DDM
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.jobs import one_job


@dataclass(frozen=True, slots=True)
class Printed:
    """The stdout and stderr of a job; `source` names the place where JEDI found them."""

    panda_id: int
    status: str
    source: str
    stdout: str
    stderr: str


@operation("task.log", "GET", "/v1/tasks/{jedi_task_id}/jobs/{panda_id}/log", ANYBODY)
def printed(call: Call, jedi_task_id: TaskId, panda_id: TaskId) -> Printed:
    """Show the output of a job of a task.

    It comes from the job's log file, else it is the last part that its pilot sent. NotFound.
    """
    row = one_job.PRINTED.row(call.tx, task=jedi_task_id, job=panda_id)
    if row is None:
        raise NotFound(
            f"Task {jedi_task_id} has no job {panda_id}: jedi-task jobs {jedi_task_id} lists them.",
            jedi_task_id=jedi_task_id,
            panda_id=panda_id,
        )
    dataset, lfn = row.log_dataset or "", row.log_lfn or ""
    if lfn and (archive := _place(call.ddm, dataset, lfn)):
        return Printed(panda_id, row.status, lfn, *_unpack(archive))
    if row.time is None:
        raise NotFound(
            f"Job {panda_id} is {row.status} and has sent no output.",
            code="nothing_printed",
            panda_id=panda_id,
            status=row.status,
        )
    source = f"its last lines, sent at {written(row.time)}"
    return Printed(panda_id, row.status, source, row.stdout_tail or "", row.stderr_tail or "")


def _place(ddm: DDM, dataset: str, lfn: str) -> Path | None:
    try:
        endpoints = ddm.locate(dataset, [lfn]).get(lfn)
    except NotFound:
        return None
    return ddm.path(endpoints[0], dataset, lfn) if endpoints else None


def _unpack(archive: Path) -> tuple[str, str]:
    """Return stdout and stderr from a log file."""
    try:
        with tarfile.open(archive) as tar:
            return _member(tar, "payload.stdout"), _member(tar, "payload.stderr")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Refused(
            f"{archive} is not a readable log: {error}.", code="log_unreadable"
        ) from error


def _member(tar: tarfile.TarFile, name: str) -> str:
    """Return a text from a log file; empty if the pilot could not store it."""
    stream = tar.extractfile(name) if name in tar.getnames() else None
    return stream.read().decode(errors="replace") if stream else ""
