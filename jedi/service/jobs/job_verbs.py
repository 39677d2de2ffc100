"""Operations on jobs: one attempt each, by PandaID."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from jedi.core.errors import BadInput, JediError
from jedi.service.jobs import job_details
from jedi.service.operations.arguments import (
    Days,
    IdsInQuery,
    TaskId,
)
from jedi.service.operations.table import ANYBODY, OWNER, Call, operation
from jedi.taskbuffer.jobs.one_job import OneJob

PandaIds = Annotated[list[TaskId], Field(min_length=1, max_length=10_000)]


@operation("job.look", "GET", "/v1/jobs/look", ANYBODY)
def look(call: Call, panda_ids: IdsInQuery) -> list[OneJob]:
    """Show jobs at a glance."""
    return job_details.get(call.tx, panda_ids)


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
    ids = sorted(panda_ids)
    refused = job_details.refusals(call.tx, ids, verb)
    found = {one: _refused(one, error) for one, error in refused.items()}
    rest = [one for one in ids if one not in refused]
    if rest:
        done = _answers(call, verb.partition(" ")[0], rest, act)
        found |= {one.panda_id: one for one in done}
    return [found[one] for one in panda_ids]


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
        call, "cancel", panda_ids, lambda some: job_details.cancel(call.tx, call.who, some, comment)
    )
    if over := [one.panda_id for one in found if one.job and one.job.status == "cancelled"]:
        ddm = call.ddm  # loaded in the transaction of the call, which is over by then
        call.afterwards.append(lambda tx: job_details.tidy(tx, ddm, over))
    return found


@operation("job.hold", "POST", "/v1/jobs/hold", OWNER, dry_run=True)
def hold(
    call: Call, panda_ids: PandaIds, after: bool = False, comment: str | None = None
) -> list[AnsweredJob]:
    """Hold jobs; `after`: when they have run, before outputs are stored."""
    return _each(
        call,
        job_details.HOLD_AFTER if after else "hold",
        panda_ids,
        lambda some: job_details.hold(call.tx, call.who, some, comment, after=after),
    )


@operation("job.release", "POST", "/v1/jobs/release", OWNER, dry_run=True)
def release(
    call: Call, panda_ids: PandaIds, force: bool = False, comment: str | None = None
) -> list[AnsweredJob]:
    """Release held jobs; `force`: without a check of their inputs."""

    def act(some: Sequence[int]) -> list[OneJob]:
        if not force:
            job_details.must_be_there(call.ddm, job_details.inputs_to_bring(call.tx, some))
        return job_details.release(call.tx, call.who, some, comment)

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
        lambda some: job_details.purge(call.tx, call.who, some, comment, after_days),
    )
