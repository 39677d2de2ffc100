"""Tasks as they were, from their logs; with the questions that the logs leave
open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.service.operations.arguments import Moments, TaskId, read_time
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.queues.past import KnobBefore, knobs_then
from jedi.service.tasks import why
from jedi.service.tasks.why import BrokerOutcome
from jedi.taskbuffer.reports import past, why_facts
from jedi.taskbuffer.reports.past import Standing

_NO_HISTORY = (
    "Files and datasets keep no history: input files of finished jobs stand for progress.",
    "Priority, owner and work queue are the present ones.",
)


@dataclass(frozen=True, slots=True)
class TaskMoment:
    """An event in a task's life. `kind`: status, command or decision; `number`: that of the command
    or decision."""

    time: datetime
    kind: str
    title: str
    code: str | None
    sentence: str | None
    by: str | None
    number: int | None


@dataclass(frozen=True, slots=True)
class StatusAtSite:
    """Jobs with one status at a site, and their input files."""

    status: str
    site: str
    jobs: int
    n_inputs: int


@dataclass(frozen=True, slots=True)
class TaskThen:
    """A task as it was at a time. `status` None: it did not exist yet. `decision`: the last one of
    a broker until then. `estimated`: the numbers of jobs are those of a sample, multiplied.
    `open`: the questions that the logs leave open."""

    jedi_task_id: int
    at: datetime
    task_name: str
    user_name: str
    status: str | None
    since: datetime | None
    agent: str | None
    commanded_by: str | None
    reason_code: str | None
    reason: str | None
    attempt_nr: int | None
    jobs: dict[str, int]
    sites: list[StatusAtSite]
    estimated: bool
    decision: BrokerOutcome | None
    knobs: list[KnobBefore]
    open: list[str]


@dataclass(frozen=True, slots=True)
class TaskPast:
    """A task at one time or two, and the events around the first of them; `more`: there are
    earlier or later ones."""

    then: list[TaskThen]
    moments: list[TaskMoment]
    more: bool


@operation("task.at", "GET", "/v1/tasks/{jedi_task_id}/at", ANYBODY, heavy=True)
def task_at(call: Call, jedi_task_id: TaskId, at: Moments) -> TaskPast:
    """Show a task as it was at one time or two, from its logs, with the events around the first.
    Times such as 2026-11-26T12:00 are UTC. A large task's jobs are estimated from a sample.

    NotFound; BadInput: no time.
    """
    times = [*dict.fromkeys(map(read_time, at))]
    found = {one.at: one for one in past.STANDING.rows(call.tx, task=jedi_task_id, times=times)}
    if not found:
        raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)
    jobs = past.jobs(call.tx, jedi_task_id, times)
    before = past.KNOBS.rows(call.tx, times=times)
    events = past.moments(call.tx, jedi_task_id, times[0])
    decision = _decision(call.tx, [one for one in events if one.time <= times[0]])
    then = [
        _task(
            jedi_task_id,
            found[at],
            [one for one in jobs if one.at == at],
            decision if at == times[0] else None,
            knobs_then(one for one in before if one.at == at),
        )
        for at in times
    ]
    counted = Counter(one.time <= times[0] for one in events)
    moments = [TaskMoment(*one) for one in events]
    return TaskPast(then, moments, max(counted.values(), default=0) >= past.MOMENTS_MOST)


def _decision(tx: Connection, events: Sequence[past.Moment]) -> BrokerOutcome | None:
    """The last decision among these events."""
    number = next((one.number for one in reversed(events) if one.kind == "decision"), None)
    row = why_facts.DECISION.row(tx, id=number) if number is not None else None
    return why.explain(row, why_facts.REFUSALS.rows(tx, id=row.decision_id)) if row else None


def _task(
    jedi_task_id: int,
    row: Standing,
    jobs: Sequence[past.JobsThen],
    decision: BrokerOutcome | None,
    before: list[KnobBefore],
) -> TaskThen:
    counts: Counter[str] = Counter()
    for one in jobs:
        counts[one.status] += one.jobs * one.step
    sites = [
        StatusAtSite(one.status, one.site, one.jobs * one.step, one.n_inputs * one.step)
        for one in jobs
    ]
    estimated = any(one.step > 1 for one in jobs)
    return TaskThen(
        jedi_task_id,
        row.at,
        row.task_name,
        row.user_name,
        row.status,
        row.since,
        row.agent,
        row.commanded_by,
        row.reason_code,
        row.reason,
        row.attempt_nr,
        dict(counts),
        sites,
        estimated,
        decision,
        before,
        [*_open(row, jobs)],
    )


def _open(row: Standing, jobs: Sequence[past.JobsThen]) -> Iterable[str]:
    """The questions that a task's logs leave open."""
    if row.at < row.creation_time:
        yield "The task did not exist yet."
        return
    if row.status is None:
        yield "The status log holds no entry that is as old."
    step = max((one.step for one in jobs), default=1)
    if step > 1:
        yield (
            f"Jobs are estimated: JEDI looked up each {step}th unit of work, and multiplied the "
            "numbers."
        )
    if lost := sum(one.jobs for one in jobs if one.status == "unknown"):
        yield (
            f"The status of {lost * step} jobs: JEDI has removed their logs (knob "
            "retention.jobs_days)."
        )
    yield from _NO_HISTORY
