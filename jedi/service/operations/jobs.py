"""Operations on jobs: one attempt each, by PandaID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from jedi.core.states import JOB
from jedi.service import jobs, results
from jedi.service.operations.table import ANYBODY, OWNER, Call, must_be_known, operation
from jedi.service.operations.tasks import Days, MostRows, TaskId
from jedi.taskbuffer.jobs.one_job import OneJob, OwnedJob
from jedi.taskbuffer.reports.listings import FileSummary

PandaIds = Annotated[list[TaskId], Field(min_length=1, max_length=10_000)]


@operation("job.list", "GET", "/v1/jobs", ANYBODY)
def owned(
    call: Call, user: str | None = None, status: list[str] | None = None, limit: MostRows = 50
) -> list[OwnedJob]:
    """List the newest jobs of a user, of all tasks; default: of the caller."""
    must_be_known("status", status, JOB.states, "no such status of a job")
    return jobs.owned(call.tx, user or call.who, status, limit)


@operation("job.look", "GET", "/v1/jobs/look", ANYBODY)
def look(call: Call, panda_ids: PandaIds) -> list[OneJob]:
    """Show jobs at a glance."""
    return jobs.get(call.tx, panda_ids)


@operation("job.newest", "GET", "/v1/jobs/newest", ANYBODY)
def newest(call: Call, begins: str = "", limit: MostRows = 50) -> list[tuple[int, str]]:
    """List the caller's newest jobs whose ids begin so, with their statuses."""
    return jobs.newest(call.tx, call.who, begins, limit)


@operation("job.show", "GET", "/v1/jobs/{panda_id}", ANYBODY)
def show(call: Call, panda_id: TaskId) -> jobs.JobDetails:
    """Show a job: status and PGI state, command, files, history, later attempts."""
    return jobs.show(call.tx, panda_id)


@operation("job.log", "GET", "/v1/jobs/{panda_id}/log", ANYBODY)
def log(call: Call, panda_id: TaskId, pilot: bool = False) -> results.Printed:
    """Show the output of a payload, or of its pilot; while it runs, the last lines."""
    if pilot:
        return jobs.pilot_printed(call.tx, call.home.pilot_logs, panda_id)
    return jobs.printed(call.tx, call.ddm, panda_id)


@operation("job.outputs", "GET", "/v1/jobs/{panda_id}/outputs", ANYBODY)
def outputs(call: Call, panda_id: TaskId) -> list[FileSummary]:
    """List the outputs of a job; of one that is held before they are stored, too."""
    return jobs.outputs(call.tx, panda_id)


def _named(call: Call, panda_ids: Sequence[int]) -> None:
    call.subject = f"job {', '.join(map(str, panda_ids))}"[:200]


@operation("job.cancel", "POST", "/v1/jobs/cancel", OWNER)
def cancel(call: Call, panda_ids: PandaIds, comment: str | None = None) -> list[OneJob]:
    """Cancel jobs, all or none: their inputs are tried again if attempts are left."""
    _named(call, panda_ids)
    found = jobs.cancel(call.tx, call.who, panda_ids, comment)
    if any(job.status == "cancelled" for job in found):
        ddm = call.ddm  # loaded in the transaction of the call, which is over by then
        call.afterwards.append(lambda tx: jobs.tidy(tx, ddm, panda_ids))
    return found


@operation("job.hold", "POST", "/v1/jobs/hold", OWNER)
def hold(
    call: Call, panda_ids: PandaIds, after: bool = False, comment: str | None = None
) -> list[OneJob]:
    """Hold jobs, all or none; `after`: when they have run, before outputs are stored."""
    _named(call, panda_ids)
    return jobs.hold(call.tx, call.who, panda_ids, comment, after=after)


@operation("job.release", "POST", "/v1/jobs/release", OWNER)
def release(
    call: Call, panda_ids: PandaIds, force: bool = False, comment: str | None = None
) -> list[OneJob]:
    """Release held jobs, all or none; `force`: without a look whether their inputs exist."""
    _named(call, panda_ids)
    if not force:
        jobs.must_be_there(call.ddm, jobs.inputs_to_bring(call.tx, panda_ids))
    return jobs.release(call.tx, call.who, panda_ids, comment)


@operation("job.purge", "POST", "/v1/jobs/purge", OWNER)
def purge(
    call: Call, panda_ids: PandaIds, after_days: Days = 0.0, comment: str | None = None
) -> list[OneJob]:
    """Remove the outputs of jobs, now or in some days; logs stay."""
    _named(call, panda_ids)
    return jobs.purge(call.tx, call.who, panda_ids, comment, after_days)
