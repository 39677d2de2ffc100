"""Jobs as their owners handle them: show, cancel, hold, release. Every command names one attempt, a
PandaID, and never touches later attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.errors import JediError, NotFound, Refused
from jedi.core.knobs.knob import words
from jedi.ddm import leftovers
from jedi.ddm.content import adler32
from jedi.ddm.interface import DDM
from jedi.model.jobs.attempt import JobFile
from jedi.model.queries import MOST_ROWS, FileQuery, JobQuery, MostRows
from jedi.service.events import task_events
from jedi.service.jobs import results
from jedi.service.jobs.results import Printed
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import cleaning, task_details
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import job_figures, merging, one_job, purging, transfers
from jedi.taskbuffer.jobs import jobs as job_rows
from jedi.taskbuffer.jobs.job_figures import JobFigures
from jedi.taskbuffer.jobs.one_job import Allocation, JobStep, OneJob, UsedFile
from jedi.taskbuffer.reports import found_jobs, job_listings, listings, owned_jobs
from jedi.taskbuffer.reports.event_listings import StatusRanges
from jedi.taskbuffer.reports.found_jobs import FoundJob
from jedi.taskbuffer.reports.listings import FileSummary
from jedi.taskbuffer.reports.owned_jobs import OwnedJob

AGENT = "jedi-job"
CANCELLED = "cancelled_by_user"
TOLD = 10
"""Number of wrong files that a refusal names."""


HOLD_AFTER = "hold after"
POSSIBLE: Mapping[str, Sequence[str]] = {
    "cancel": states.JOB_LIVE,
    "hold": (*one_job.HOLDABLE, *states.JOB_AT_SITE, *one_job.STORED),
    HOLD_AFTER: (*states.JOB_QUEUED, *states.JOB_AT_SITE),
    "release": states.JOB_LIVE,
    "purge": states.JOB_FINAL,
}
"""The statuses of jobs that a verb accepts."""


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with the command of its payload (None: removed), its files, its history, the resources
    that it held, the attempts that replace it now, itself or later ones, and the numbers of its
    ranges of events in each status (of a merge job: of those of its job set); its figures."""

    job: OneJob
    command: str | None
    files: list[UsedFile]
    latest: list[int]
    steps: list[JobStep]
    allocations: list[Allocation]
    ranges: list[StatusRanges]
    figures: JobFigures


def get(tx: Connection, panda_ids: Sequence[int]) -> list[OneJob]:
    """Return jobs by their ids; NotFound if one of them is unknown."""
    found = one_job.FIND_JOBS.rows(tx, ids=panda_ids)
    for missing in sorted(set(panda_ids) - {job.panda_id for job in found}):
        raise NotFound(f"There is no job {missing}.", panda_id=missing)
    return found


@operation("job.show", "GET", "/v1/jobs/{panda_id}", ANYBODY)
def show(call: Call, panda_id: TaskId) -> JobDetails:
    """Show a job: status and PGI state, command, files, history, later attempts.

    NotFound if there is none.
    """
    tx = call.tx
    [job] = get(tx, [panda_id])
    latest = job_listings.standing(tx, job.jedi_task_id, panda_id)
    steps = one_job.STEPS.rows(tx, id=panda_id)
    held = one_job.ALLOCATIONS.rows(tx, id=panda_id)
    used = one_job.FILES.rows(tx, id=panda_id)
    ranges = task_events.of_job(tx, job.jedi_task_id, panda_id)
    figures = job_figures.FIGURES.row(tx, id=panda_id)
    if figures is None:
        raise NotFound(f"There is no job {panda_id}.", panda_id=panda_id)
    return JobDetails(
        job, one_job.COMMAND.row(tx, id=panda_id), used, latest, steps, held, ranges, figures
    )


@operation("job.log", "GET", "/v1/jobs/{panda_id}/log", ANYBODY)
def log(call: Call, panda_id: TaskId, pilot: bool = False) -> Printed:
    """Show the output of a payload, or of its pilot; while it runs, the last lines.

    NotFound: there is no such job, no output yet, or no log of its pilot and batch system.
    """
    [job] = get(call.tx, [panda_id])
    if not pilot:
        return results.printed(call, job.jedi_task_id, panda_id)
    found = call.home.pilot_logs / f"{job.pilot_id}.log"
    try:
        text = found.read_text(errors="replace")
    except OSError as error:
        raise NotFound(
            f"JEDI has no pilot log of job {panda_id}: {found}.", code="no_pilot_log"
        ) from error
    return Printed(panda_id, job.status, str(found), text, "")


@operation("job.outputs", "GET", "/v1/jobs/{panda_id}/outputs", ANYBODY)
def outputs(call: Call, panda_id: TaskId) -> list[FileSummary]:
    """List the outputs of a job; of one that is held before they are stored, too.

    NotFound: there is no such job.
    """
    tx = call.tx
    [job] = get(tx, [panda_id])
    if (laid := transfers.laid_down(tx, panda_id)) is None:
        return task_details.kept(tx, job.jedi_task_id, ["output"], panda_id)
    made = {file.lfn: file for file in laid[2] if file.type != "log" and file.size is not None}
    query = FileQuery([*states.MADE_TYPES])
    found = listings.files(tx, job.jedi_task_id, query, MOST_ROWS, panda_id)
    return [
        replace(file, size=made[file.lfn].size, adler32=made[file.lfn].adler32)
        for file in found
        if file.lfn in made
    ]


@operation("job.newest", "GET", "/v1/jobs/newest", ANYBODY)
def newest(call: Call, begins: str = "", limit: MostRows = 50) -> list[tuple[int, str]]:
    """List the caller's newest jobs whose ids begin so, with their statuses."""
    return [
        (row.panda_id, row.status)
        for row in owned_jobs.NEWEST.rows(call.tx, user=call.who, begins=begins, limit=limit)
    ]


@operation("job.list", "GET", "/v1/jobs", ANYBODY)
def owned(
    call: Call,
    *,
    user: str | None = None,
    query: JobQuery,
    before: TaskId | None = None,
    limit: MostRows = 50,
) -> list[OwnedJob]:
    """List the jobs of a user, of all tasks, the newest first; default: of the caller. `where`:
    conditions such as status=running,failed, site~CERN*, exit!=0, since>2026-11-01 (a time without
    offset is UTC); `before`: the last id of the page before."""
    return owned_jobs.owned(call.tx, user or call.who, query, limit, before)


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Jobs that meet conditions, the newest first, and the number of ids that were looked at.
    `before`: where the search goes on; None: it has seen all jobs."""

    jobs: list[FoundJob]
    looked_at: int
    before: int | None


@operation("job.search", "GET", "/v1/jobs/search", ANYBODY, heavy=True)
def search(
    call: Call, query: JobQuery, before: TaskId | None = None, limit: MostRows = 100
) -> FoundJobs:
    """Search the jobs of all tasks and users, the newest first. `where`: conditions such as
    user=ana, site~CERN*, exit!=0. A call looks at 100,000 ids at most: ask again with `before` of
    its answer."""
    all_ids = found_jobs.span(call.tx)
    if all_ids.newest is None or all_ids.oldest is None:
        return FoundJobs([], 0, None)
    newest = min(all_ids.newest, before - 1 if before else all_ids.newest)
    oldest = max(newest - found_jobs.LOOKED_AT, all_ids.oldest - 1)
    found = found_jobs.search(call.tx, newest, oldest, query, limit)
    end = found[-1].panda_id if len(found) == limit else oldest + 1
    return FoundJobs(found, max(newest + 1 - end, 0), end if end > all_ids.oldest else None)


def cancel(tx: Connection, who: str, panda_ids: Sequence[int], comment: str | None) -> list[OneJob]:
    """Cancel jobs, all or none: jobs in pilots end with the next heartbeat, others now. Call `tidy`
    after the commit to remove their outputs.

    NotFound; Refused: a job has ended, or a merge job has its outputs.
    """
    jobs = _held_fast(tx, panda_ids, "cancel")
    for maker, merger in dict(merging.MERGE_JOBS.rows(tx, ids=panda_ids)).items():
        raise Refused(
            f"Merge job {merger} reads the outputs of job {maker}: cancel the merge job instead.",
            code="being_merged",
            panda_id=maker,
            merge_job=merger,
        )
    at_site = [job.panda_id for job in jobs if job.status in states.JOB_AT_SITE]
    job_rows.ASK_TO_KILL.run(tx, code=CANCELLED, ids=at_site)
    why = _sentence("cancelled", who, comment)
    ends = [
        JobEnd(job.panda_id, "cancelled", CANCELLED, why, error_source="user")
        for job in jobs
        if job.status not in states.JOB_AT_SITE
    ]
    job_ends.end_jobs(tx, ends, AGENT)
    return get(tx, panda_ids)


def tidy(tx: Connection, ddm: DDM, panda_ids: Sequence[int]) -> None:
    """Remove outputs of cancelled jobs from data management. An agent that is publishing one at
    this moment removes it itself. JediError, OSError: some files remain."""
    for job in job_ends.left_behind(tx, panda_ids):
        leftovers.remove(ddm, job)


def hold(
    tx: Connection, who: str, panda_ids: Sequence[int], comment: str | None, *, after: bool = False
) -> list[OneJob]:
    """Hold jobs in their present state, all or none, until they are released. Held jobs stay held.
    `after`: hold them after their payloads succeed, before JEDI stores outputs.

    NotFound; Refused: a job has ended or is merging, or a pilot has it at a site that
    does not allow holds (knob hold.sites).
    """
    jobs = _held_fast(tx, panda_ids, HOLD_AFTER if after else "hold")
    if after:
        one_job.PLAN_HOLD.run(tx, ids=panda_ids, kind="user_request")
        return get(tx, panda_ids)
    now = knobs.load(tx)
    allowed = words(now.hold.sites)
    for job in jobs:
        if job.status in states.JOB_AT_SITE and job.site not in allowed:
            raise Refused(
                f"Job {job.panda_id} is {job.status}: {job.site} does not allow held jobs in "
                "slots. Hold it after it has run (--after), or cancel it.",
                code="no_hold_in_pilots",
                panda_id=job.panda_id,
                site=job.site,
            )
    reason = _sentence("held", who, comment)
    one_job.hold(tx, panda_ids, AGENT, reason, most_s=now["hold.in_pilot_s"])
    return get(tx, panda_ids)


def inputs_to_bring(tx: Connection, panda_ids: Sequence[int]) -> list[tuple[int, JobFile]]:
    """Return the inputs that owners must copy to the sites of held jobs, by job."""
    return transfers.brought_by_owners(tx, panda_ids)


def must_be_there(ddm: DDM, inputs: Iterable[tuple[int, JobFile]]) -> None:
    """Raise Refused, with the mistakes, unless all inputs are where the jobs read them, with their
    size and adler32. Source: docs/reference/pgi.md#holds."""
    found = [(job, file, _lacking(ddm, file)) for job, file in inputs]
    wrong = [f"{file.dataset}/{file.lfn} of job {job} {why}" for job, file, why in found if why]
    if wrong:
        more = f"; {len(wrong) - TOLD} more" if len(wrong) > TOLD else ""
        raise Refused(
            f"Inputs are missing: {'; '.join(wrong[:TOLD])}{more}. Copy "
            "them there, or use --force to run the job without them.",
            code="inputs_missing",
            inputs=wrong,
        )


def _lacking(ddm: DDM, file: JobFile) -> str:
    """Return the reason why a job can't read a file; empty if it can."""
    path = ddm.path(file.endpoint or "", file.dataset, file.lfn)
    try:
        size = path.stat().st_size
        found = file.adler32 and size == file.size and adler32(path)
    except OSError as error:
        return f"can't be read at {file.endpoint}: {error.strerror}"
    if size != file.size:
        return f"has {size} bytes at {file.endpoint}, not {file.size}"
    if found != file.adler32:
        return f"has adler32 {found} at {file.endpoint}, not {file.adler32}"
    return ""


def release(
    tx: Connection, who: str, panda_ids: Sequence[int], comment: str | None
) -> list[OneJob]:
    """Release held jobs, all or none. A job whose hold is still to come loses it. Call
    `must_be_there` first, if owners bring inputs.

    NotFound; Refused: a job has ended.
    """
    _held_fast(tx, panda_ids, "release")
    now = one_job.release(tx, panda_ids, AGENT, _sentence("released", who, comment))
    one_job.PLAN_HOLD.run(tx, ids=[job for job in panda_ids if job not in now], kind=None)
    return get(tx, panda_ids)


def purge(
    tx: Connection, who: str, panda_ids: Sequence[int], comment: str | None, keep_days: float = 0.0
) -> list[OneJob]:
    """Mark outputs of jobs, all or none, for removal after so many days: then the dog `purge`
    removes them.

    NotFound; Refused: a job, or its task, has not ended, another task needs them, or
    JEDI is removing them already.
    """
    jobs = _held_fast(tx, panda_ids, "purge")
    if keep_days:
        cleaning.must_stay(job.panda_id for job in jobs if job.purged_at)
    of_tasks = sorted({job.jedi_task_id for job in jobs})
    cleaning.must_be_over(tx, of_tasks)
    reason = cleaning.reason_of(who, keep_days, comment)
    purging.KEEP_JOBS.run(
        tx,
        ids=panda_ids,
        keep_s=cleaning.DAY_S * keep_days,
        agent=AGENT,
        code="to_be_purged",
        reason=reason,
    )
    if keep_days:
        cleaning.must_stay(
            job for job in purging.BEING_REMOVED.rows(tx, tasks=of_tasks) if job in panda_ids
        )
    return get(tx, panda_ids)


def refusals(tx: Connection, panda_ids: Sequence[int], verb: str) -> dict[int, JediError]:
    """Lock jobs to the transaction's end, in one order; those that nobody can `verb` now (a key of
    POSSIBLE), each with the reason: NotFound or Refused."""
    job_ends.lock(tx, panda_ids)
    found = {job.panda_id: job for job in one_job.FIND_JOBS.rows(tx, ids=panda_ids)}
    reasons = {one: _refusal(found.get(one), one, verb) for one in panda_ids}
    return {panda_id: error for panda_id, error in reasons.items() if error}


def _refusal(job: OneJob | None, panda_id: int, verb: str) -> JediError | None:
    if job is None:
        return NotFound(f"There is no job {panda_id}.", panda_id=panda_id)
    shown = verb.partition(" ")[0]
    if job.status not in POSSIBLE[verb]:
        return Refused(
            f"Job {panda_id} is {job.status}: {shown} accepts only jobs that are "
            f"{', '.join(POSSIBLE[verb])}.",
            code="wrong_status",
            panda_id=panda_id,
            status=job.status,
        )
    return None


def _held_fast(tx: Connection, panda_ids: Sequence[int], verb: str) -> list[OneJob]:
    """Return the jobs, locked to the transaction's end. Raise the first of `refusals`."""
    for error in refusals(tx, panda_ids, verb).values():
        raise error
    return get(tx, panda_ids)


def _sentence(done: str, who: str, comment: str | None) -> str:
    return f"It was {done} by {who}{f': {comment}' if comment else ''}."
