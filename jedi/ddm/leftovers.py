"""Leftovers of unsuccessful jobs in data management."""

from __future__ import annotations

from jedi.ddm.content import adler32
from jedi.ddm.interface import DDM
from jedi.model.jobs.attempt import JobFile, ReportedJob


def remove(ddm: DDM, job: ReportedJob) -> int:
    """Remove the leftovers of an unsuccessful job, staged or published, except its log. Return the
    number of published files. Its end is final: nothing publishes again. Files that stood in the
    way of its outputs are not its own.

    Raises JediError, OSError; may be repeated.
    """
    lying = [file for file in job.files if file.type != "log" and _lies_there(ddm, job, file)]
    for file in lying:
        ddm.remove_files(file.dataset, [file.lfn])
    unstage(ddm, job)
    return len(lying)


def unstage(ddm: DDM, job: ReportedJob) -> None:
    """Throw away the staged files of a job. Raises JediError, OSError; may be repeated."""
    ddm.drop_staging(job.site_endpoint, job.panda_id, job.lock_seq)


def _lies_there(ddm: DDM, job: ReportedJob, file: JobFile) -> bool:
    """Return True if a file is published as its pilot reported it."""
    path = ddm.path(job.site_endpoint, file.dataset, file.lfn)
    try:
        return (path.stat().st_size, adler32(path)) == (file.size, file.adler32)
    except FileNotFoundError:
        return False
