"""Operations on jobs: one attempt each, by PandaID."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from jedi.core.errors import BadInput, JediError
from jedi.model.queries import JobQuery, MostRows
from jedi.service import jobs, results
from jedi.service.operations.arguments import (
    Days,
    IdsInQuery,
    TaskId,
)
from jedi.service.operations.table import ANYBODY, OWNER, Call, operation
from jedi.taskbuffer.jobs.one_job import OneJob
from jedi.taskbuffer.reports import owned_jobs
from jedi.taskbuffer.reports.listings import FileSummary
from jedi.taskbuffer.reports.owned_jobs import OwnedJob

PandaIds = Annotated[list[TaskId], Field(min_length=1, max_length=10_000)]


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


@operation("job.search", "GET", "/v1/jobs/search", ANYBODY, heavy=True)
def search(
    call: Call, query: JobQuery, before: TaskId | None = None, limit: MostRows = 100
) -> jobs.FoundJobs:
    """Search the jobs of all tasks and users, the newest first. `where`: conditions such as
    user=ana, site~CERN*, exit!=0. A call looks at 100,000 ids at most: ask again with `before` of
    its answer."""
    return jobs.search(call.tx, query, before, limit)


@operation("job.look", "GET", "/v1/jobs/look", ANYBODY)
def look(call: Call, panda_ids: IdsInQuery) -> list[OneJob]:
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


@dataclass(frozen=True, slots=True)
class AnsweredJob:
    """The answer for one job of many: accepted, with the job as it is then, or refused with the
    code and the sentence of the error."""

    panda_id: int
    accepted: bool
    sentence: str
    job: OneJob | None = None
    error: str | None = None


JobVerb = Callable[[Sequence[int]], list[OneJob]]
"""A change of jobs, all or none."""


def _each(call: Call, verb: str, panda_ids: Sequence[int], act: JobVerb) -> list[AnsweredJob]:
    """Answer for each job. A refusal does not stop the others; all jobs are locked first, in one
    order with agents that end jobs."""
    ids = sorted({*panda_ids})
    refused = jobs.refusals(call.tx, call.who, ids, verb)
    found = {one: _refused(one, error) for one, error in refused.items()}
    rest = [one for one in ids if one not in refused]
    if rest:
        done = _answers(call, verb.partition(" ")[0], rest, act)
        found |= {one.panda_id: one for one in done}
    call.name_objects(
        "job",
        *([one for one in ids if found[one].accepted is accepted] for accepted in (True, False)),
    )
    return [found[one] for one in dict.fromkeys(panda_ids)]


def _refused(panda_id: int, error: JediError) -> AnsweredJob:
    return AnsweredJob(panda_id, False, error.sentence, error=error.code)


def _answers(
    call: Call, name: str, panda_ids: Sequence[int], act: JobVerb
) -> Iterator[AnsweredJob]:
    """Act on all at once; if that is refused, on each half, down to the job that is refused."""
    try:
        with call.tx.begin_nested():
            done = act(panda_ids)
    except BadInput:
        raise
    except JediError as error:
        if len(panda_ids) == 1:
            yield _refused(panda_ids[0], error)
            return
        middle = len(panda_ids) // 2
        yield from _answers(call, name, panda_ids[:middle], act)
        yield from _answers(call, name, panda_ids[middle:], act)
    else:
        sentence = f"{name} is {'possible' if call.dry_run else 'done'}."
        yield from (AnsweredJob(job.panda_id, True, sentence, job) for job in done)


@operation("job.cancel", "POST", "/v1/jobs/cancel", OWNER, dry_run=True)
def cancel(call: Call, panda_ids: PandaIds, comment: str | None = None) -> list[AnsweredJob]:
    """Cancel jobs: their inputs are tried again if attempts are left."""
    found = _each(
        call, "cancel", panda_ids, lambda some: jobs.cancel(call.tx, call.who, some, comment)
    )
    if over := [one.panda_id for one in found if one.job and one.job.status == "cancelled"]:
        ddm = call.ddm  # loaded in the transaction of the call, which is over by then
        call.afterwards.append(lambda tx: jobs.tidy(tx, ddm, over))
    return found


@operation("job.hold", "POST", "/v1/jobs/hold", OWNER, dry_run=True)
def hold(
    call: Call, panda_ids: PandaIds, after: bool = False, comment: str | None = None
) -> list[AnsweredJob]:
    """Hold jobs; `after`: when they have run, before outputs are stored."""
    return _each(
        call,
        jobs.HOLD_AFTER if after else "hold",
        panda_ids,
        lambda some: jobs.hold(call.tx, call.who, some, comment, after=after),
    )


@operation("job.release", "POST", "/v1/jobs/release", OWNER, dry_run=True)
def release(
    call: Call, panda_ids: PandaIds, force: bool = False, comment: str | None = None
) -> list[AnsweredJob]:
    """Release held jobs; `force`: without a check of their inputs."""

    def act(some: Sequence[int]) -> list[OneJob]:
        if not force:
            jobs.must_be_there(call.ddm, jobs.inputs_to_bring(call.tx, some))
        return jobs.release(call.tx, call.who, some, comment)

    return _each(call, "release", panda_ids, act)


@operation("job.purge", "POST", "/v1/jobs/purge", OWNER, dry_run=True)
def purge(
    call: Call, panda_ids: PandaIds, after_days: Days = 0.0, comment: str | None = None
) -> list[AnsweredJob]:
    """Remove the outputs of jobs, now or in some days; logs stay."""
    return _each(
        call,
        "purge",
        panda_ids,
        lambda some: jobs.purge(call.tx, call.who, some, comment, after_days),
    )
