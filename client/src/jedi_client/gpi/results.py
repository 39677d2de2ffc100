"""Results of jobs: attempts, logs, output files, and merged files.

Source: docs/reference/ganga.md#results.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.any_job import AnyJob
from jedi_client.gpi.files import plain_name
from jedi_client.gpi.interfaces import Attempt, Backend, InputCutter, OutputFile
from jedi_client.gpi.mergers import OutputMerger, merge_outputs
from jedi_client.gpi.report import JobError, MergeFailed
from jedi_client.gpi.status import ENDED, after_merge


class JobAttempt:
    """An attempt of a job or subjob, with its log."""

    def __init__(self, job: AnyJob, k: int, attempt: Attempt) -> None:
        self._job, self._k, self._attempt = job, k, attempt

    def log(self, name: str = "stdout") -> str:
        """The log of this attempt, also while it runs: stdout or stderr."""
        return log(self._job, self._k, name, self._attempt.attempt)

    def peek(self, name: str = "stdout", lines: int = 20) -> str:
        """The last lines of the log of this attempt."""
        return last(self.log(name), lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attempt, name)

    def __repr__(self) -> str:
        return repr(self._attempt)


def only_unit(job: AnyJob, what: str) -> int:
    """The number of a job's only unit. JobError: it has subjobs, or no backend has it."""
    _place(job)
    if job.split:
        raise JobError(f"Job {job.id} has subjobs: each has its own {what}: j.subjobs(0).{what}")
    return 0


def attempts(job: AnyJob, k: int) -> Sequence[JobAttempt]:
    """The attempts of a unit, the latest last."""
    backend, id = _place(job)
    return [JobAttempt(job, k, one) for one in backend.attempts(id, k)]


def log(job: AnyJob, k: int, name: str, attempt: int | None = None) -> str:
    """The log of an attempt of a unit; None: the latest."""
    backend, id = _place(job)
    return b"".join(backend.log(id, k, attempt, name)).decode(errors="replace")


def inputs(job: AnyJob, k: int) -> list[str]:
    """The input files of a unit that the backend cut. JobError."""
    backend, id = _place(job)
    if not isinstance(backend, InputCutter):
        rule = f"The input of subjob {job.id}.{k} is known to its backend alone."
        raise JobError(f"{rule} Copy the job, and set its inputdata.")
    paths = (
        []
        if job.inputdata is None
        else [one for one in job.inputdata.files_of(job) if one.startswith("/")]
    )
    try:
        return [*backend.inputs(id, k), *paths]
    except BadInput as error:
        raise JobError(error.sentence) from error


def last(text: str, lines: int) -> str:
    """The last lines of a text. BadInput."""
    if not isinstance(lines, int) or lines < 1:
        remedy = "Give 1 or more; j.log() gives all"
        raise BadInput([Problem("lines", lines, "is no number above 0", remedy)])
    return "\n".join(text.splitlines()[-lines:])


def outputs(job: AnyJob, k: int | None) -> Sequence[OutputFile]:
    """The output files of a unit; None: of all units and of the job itself."""
    backend, id = _place(job)
    return [one for one in backend.outputs(id) if k is None or one.k == k]


def output(job: AnyJob, k: int | None, name: str) -> Path:
    """The path of an output file on this machine, by its declared name or the one under which it is
    kept. JobError if there is none."""
    name = plain_name(name) if name in (*job.outputsandbox, *job.outputdata) else name
    job._registry.session.monitor.look()
    if k is None and job.split:
        return _merged_file(job, name)
    backend, id = _place(job)
    found = [one for one in backend.outputs(id) if one.name == name and one.k in (k, k or 0)]
    if not found:
        place = f"Job {job.id}" if k is None else f"Subjob {job.id}.{k}"
        raise JobError(f"{place} has no output {name!r} (yet). See its outputs().", name=name)
    [path] = backend.fetch(id, found[:1], _workspace(job))
    return path


def merge(job: AnyJob, *merger: OutputMerger | None) -> Sequence[Path]:
    """Set the merger of a new job, or merge the outputs of an ended one. JobError, MergeFailed."""
    if merger and job.record.status == "new":
        job.merger = merger[0]
        return ()
    chosen = merger[0] if merger else job.merger
    if chosen is None:
        return ()
    if job.status not in ENDED:
        raise JobError(f"Job {job.id} is {job.record.status}: merge it when it has ended.")
    names = set(chosen.files)
    backend, id = _place(job)
    wanted = [one for one in backend.outputs(id) if one.name in names and one.k is not None]
    backend.fetch(id, wanted, _workspace(job))
    subjobs = job.units(look=False)
    ks = [k for k in subjobs.ids if not subjobs.record(k).state.superseded]
    workspace = job._registry.session.workspace
    folders = [workspace.output(job.id, k) for k in ks]
    try:
        made = merge_outputs(chosen, folders, workspace.output(job.id))
    except MergeFailed as error:
        if chosen == job.merger and not _merged(job):
            _judge(job, f"The merge failed: {error.sentence.rstrip('.')}.")
        raise MergeFailed(f"Job {job.id}: {error.sentence}", **error.facts) from error
    if job.merger is not None and _merged(job):
        _judge(job, None)
    return made


def _judge(job: AnyJob, failure: str | None) -> None:
    """Keep the result of a merge as the job's status; a session that may only read leaves it."""
    registry, record = job._registry, job.record
    if not registry.read_only and after_merge(record.status, record.counts, failure):
        registry.learn(registry.session.store.merged(job.id, failure))
        registry.session.monitor.dispatch()


def at_end(job: AnyJob) -> None:
    """Merge a completed job by its merger, and bring its output if it wants that."""
    if job.record.status != "completed":
        return
    if job.output_mode == "fetch":
        backend, id = _place(job)
        backend.fetch(id, backend.outputs(id), _workspace(job))
    if job.split and job.merger is not None and not _merged(job):
        merge(job)


def forget_merged(job: AnyJob) -> None:
    """Remove the merged files of a job: its subjobs run again."""
    if job.split:
        shutil.rmtree(job._registry.session.workspace.output(job.id), ignore_errors=True)


def _merged(job: AnyJob) -> bool:
    folder = job._registry.session.workspace.output(job.id)
    return all((folder / name).is_file() for name in job.merger.files)


def _merged_file(job: AnyJob, name: str) -> Path:
    """A file of the job itself: a merged one, made by now."""
    folder: Path = job._registry.session.workspace.output(job.id)
    if job.merger is not None and name in job.merger.files and not (folder / name).is_file():
        at_end(job)
    if not (folder / name).is_file():
        _place(job)
        if job.record.status == "failed" and job.record.reason:
            raise JobError(
                f"Job {job.id} has no merged file {name!r}. {job.record.reason}", name=name
            )
        raise JobError(
            f"Job {job.id} has no merged file {name!r} (yet): each subjob has its own. "
            f"Ask j.subjobs(0).output({name!r}), or merge it: j.merge(...).",
            name=name,
        )
    return folder / name


def _workspace(job: AnyJob) -> Path:
    found: Path = job._registry.session.workspace.of(job.id)
    return found


def _place(job: AnyJob) -> tuple[Backend, str]:
    """The backend of a job, and its id there. JobError if no backend has it."""
    record = job.record
    if record.backend is None or record.backend_id is None:
        raise JobError(f"Job {job.id} is {record.status}: no backend has it. Submit it.")
    return job._registry.session.monitor.connections.to(record.backend), record.backend_id
