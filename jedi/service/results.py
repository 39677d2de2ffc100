"""What a task has made, for people: its outputs in a directory of theirs, what a job printed."""

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
from jedi.service.tasks import FileSummary
from jedi.taskbuffer.reports import listings


@dataclass(frozen=True, slots=True)
class OutputCopy:
    """An output, where it lies and where a person wants it."""

    file: FileSummary
    source: Path
    target: Path


@dataclass(frozen=True, slots=True)
class Printed:
    """What a job wrote to stdout and stderr; `source` says where that was found."""

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
    """How the finished outputs of a task, or of one of its jobs, get into a directory. Names that
    several datasets hold go below directories named after their datasets; NotFound if a file is
    nowhere."""
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
    """Copy an output, its adler32 verified; False: it was there already. Refused if another file
    is there, or the output is not what its job made."""
    target = copy.target
    if target.exists():
        if target.is_file() and adler32(target) == copy.file.adler32:
            return False
        raise Refused(
            f"{target} exists and is another file. Name a directory of its own.",
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
    """What a job printed: from its log file, else what its pilot sent last."""
    row = listings.printed(tx, jedi_task_id, panda_id)
    if row is None:
        raise NotFound(
            f"Task {jedi_task_id} has no job {panda_id}: jedi-task jobs {jedi_task_id} lists them.",
            jedi_task_id=jedi_task_id,
            panda_id=panda_id,
        )
    archive = _place(ddm, row.log_dataset, row.log_lfn) if row.log_lfn else None
    if archive:
        return Printed(panda_id, row.status, row.log_lfn, *_unpack(archive))
    if row.time is None:
        raise NotFound(
            f"Job {panda_id} is {row.status} and nothing that it printed has come.",
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
                f"{file.lfn} of {file.dataset} is not in storage any more.",
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
    """stdout and stderr in a log file."""
    try:
        with tarfile.open(archive) as tar:
            return _member(tar, "payload.stdout"), _member(tar, "payload.stderr")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Refused(f"{archive} is no readable log: {error}.", code="log_unreadable") from error


def _member(tar: tarfile.TarFile, name: str) -> str:
    """A text in a log file; nothing where the pilot could not keep it."""
    stream = tar.extractfile(name) if name in tar.getnames() else None
    return stream.read().decode(errors="replace") if stream else ""
