"""Results of tasks for people: copies of outputs, and the output of payloads."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from jedi.core.errors import NotFound, Refused
from jedi.ddm.content import adler32, copy_verified
from jedi.ddm.interface import DDM
from jedi.service import tasks
from jedi.taskbuffer.jobs import one_job
from jedi.taskbuffer.reports.listings import FileSummary


@dataclass(frozen=True, slots=True)
class OutputCopy:
    """An output, its location and its destination."""

    file: FileSummary
    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Printed:
    """The stdout and stderr of a job; `source` names the place where JEDI found them."""

    panda_id: int
    status: str
    source: str
    stdout: str
    stderr: str


def plan_copies(
    tx: Connection,
    ddm: DDM,
    jedi_task_id: int,
    directory: Path,
    *,
    logs: bool = False,
    panda_id: int | None = None,
) -> list[OutputCopy]:
    """Plan the copies of finished outputs of a task, or of one of its jobs, into a directory. If
    several datasets have the same file name, each file goes into a directory named after its
    dataset. NotFound: a file is lost."""
    files = tasks.outputs(tx, jedi_task_id, logs=logs, panda_id=panda_id)
    uses = Counter(file.lfn for file in files)
    sources = _sources(ddm, files)
    return [
        OutputCopy(
            file,
            sources[file.file_id],
            directory / (file.lfn if uses[file.lfn] == 1 else _below(file)),
        )
        for file in files
    ]


def fetch(copy: OutputCopy) -> bool:
    """Copy an output and verify its adler32; False: the copy existed. Refused: another file has
    this name, or the output has changed since its job wrote it."""
    target = copy.target
    if target.exists():
        if target.is_file() and adler32(target) == copy.file.adler32:
            return False
        raise Refused(
            f"{target} exists with other content. Name another directory.",
            code="target_exists",
            path=str(target),
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_verified(copy.source, target, target.parent, copy.file.adler32)
    except OSError as error:
        raise Refused(f"{target} can't be written: {error}.", code="copy_failed") from error
    return True


def printed(tx: Connection, ddm: DDM, jedi_task_id: int, panda_id: int) -> Printed:
    """Return the output of a job's payload: from its log file, else the last part that its pilot
    sent."""
    row = one_job.printed(tx, jedi_task_id, panda_id)
    if row is None:
        raise NotFound(
            f"Task {jedi_task_id} has no job {panda_id}: jedi-task jobs {jedi_task_id} lists them.",
            jedi_task_id=jedi_task_id,
            panda_id=panda_id,
        )
    dataset, lfn = row.log_dataset or "", row.log_lfn or ""
    if lfn and (archive := _place(ddm, dataset, lfn)):
        return Printed(panda_id, row.status, lfn, *_unpack(archive))
    if row.time is None:
        raise NotFound(
            f"Job {panda_id} is {row.status} and has sent no output.",
            code="nothing_printed",
            panda_id=panda_id,
            status=row.status,
        )
    source = f"its last lines, sent at {row.time:%Y-%m-%d %H:%M:%S} UTC"
    return Printed(panda_id, row.status, source, row.stdout_tail or "", row.stderr_tail or "")


def _below(file: FileSummary) -> Path:
    return Path(file.dataset.partition(":")[2], file.lfn)


def _sources(ddm: DDM, files: Iterable[FileSummary]) -> dict[int, Path]:
    lfns: dict[str, list[str]] = {}
    for file in files:
        lfns.setdefault(file.dataset, []).append(file.lfn)
    places = {name: ddm.locate(name, some) for name, some in lfns.items()}
    found = {}
    for file in files:
        endpoints = places[file.dataset].get(file.lfn)
        if not endpoints:
            raise NotFound(
                f"{file.lfn} of {file.dataset} is no longer in storage.",
                code="file_missing",
                lfn=file.lfn,
                dataset=file.dataset,
            )
        found[file.file_id] = ddm.path(endpoints[0], file.dataset, file.lfn)
    return found


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
