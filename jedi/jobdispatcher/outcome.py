"""Evaluation of a pilot's last report: pure functions from a reported job to its end."""

from __future__ import annotations

from typing import NamedTuple

from jedi.core.errors import JediError
from jedi.model.jobs.attempt import JobFile, ReportedJob

_PAYLOADS_FAULT = frozenset(
    {
        "payload_exit",
        "bad_metadata",
        "output_missing",
        "output_not_file",
        "wall_limit",
        "cpu_limit",
        "memory_limit",
        "workdir_limit",
        "disk_full",
        "process_limit",
    }
)


class JobVerdict(NamedTuple):
    """The end of a job: its next status with code and sentence, and the files to blame."""

    target: str
    code: str
    reason: str
    source: str | None = None


FINISHED = JobVerdict("finished", "job_finished", "The job succeeded and its outputs are stored.")
MERGING = JobVerdict(
    "merging", "to_be_merged", "The outputs are at the site and wait to be merged."
)
TRANSFERRING = JobVerdict(
    "transferring", "outputs_move", "The outputs are at the site, on their way to their endpoint."
)

HELD = JobVerdict("held", "held", "Its owner stores the outputs, or looks at them first.")


def judge(job: ReportedJob) -> JobVerdict:
    """The end of a job by its pilot's report, before a look at its outputs."""
    code = job.error_code or "no_reason"
    reason = job.error_diag or "The pilot gave no reason."
    if job.pilot_result == "finished":
        missing = [f.lfn for f in job.files if f.size is None and not f.left_out]
        if not missing:
            return HELD if job.hold_next else FINISHED
        sentence = f"The pilot reported success without {', '.join(missing)}."
        return JobVerdict("failed", "output_not_reported", sentence, "pilot")
    if job.kill_code == "reassigned":
        return JobVerdict("closed", job.kill_code, reason, "jedi")
    if job.kill_code or job.pilot_result == "cancelled":
        return JobVerdict("cancelled", job.kill_code or code, reason, "user")
    if code == "pilot_terminated":
        return JobVerdict("closed", code, reason, "pilot")
    return JobVerdict("failed", code, reason, "payload" if code in _PAYLOADS_FAULT else "pilot")


def stored(job: ReportedJob) -> JobVerdict:
    """Return the end of a job whose files are published at its site."""
    if job.to_merge:
        return MERGING
    here = job.site_endpoint
    for file in job.files:
        if file.endpoint != here and file.size is not None:
            return TRANSFERRING
    return FINISHED


def not_stored(error: JediError) -> JobVerdict:
    """The end of a job whose files can't be published."""
    return JobVerdict("failed", error.code, error.sentence, "jedi")


def logs(job: ReportedJob) -> list[JobFile]:
    """Return the files to publish of an unsuccessful job."""
    return [file for file in job.files if file.type == "log" and file.size is not None]
