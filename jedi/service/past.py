"""Tasks and work queues as they were, from their logs; with the questions that the logs leave
open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.core.knobs import KNOBS
from jedi.service import why
from jedi.service.operations.arguments import read_time
from jedi.service.why import BrokerOutcome
from jedi.taskbuffer.reports import past, why_facts
from jedi.taskbuffer.reports.past import Standing
from jedi.taskbuffer.scheduling import queues

_NO_HISTORY = (
    "Files and datasets keep no history: input files of finished jobs stand for progress.",
    "Priority, owner and work queue are the present ones.",
)
_QUEUES_OPEN = (
    "Jobs by status at a moment: JEDI keeps only how many reached a status in each hour.",
    "Shares, criteria and limits of work queues are the present ones.",
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
class KnobBefore:
    """A knob that had another value then than now."""

    name: str
    then: Any
    now: Any


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


@dataclass(frozen=True, slots=True)
class QueueThen:
    """A work queue at a time: its tasks that had not ended, by status, and the jobs of its share
    that reached each status in that hour. Queue 0: tasks without a work queue."""

    queue_id: int
    queue_name: str
    tasks: dict[str, int]
    reached: dict[str, int]


@dataclass(frozen=True, slots=True)
class QueuesThen:
    """All work queues at a time. `known`: False if too many statuses have changed since."""

    at: datetime
    known: bool
    queues: list[QueueThen]
    knobs: list[KnobBefore]
    open: list[str]


def task_at(tx: Connection, jedi_task_id: int, written: Sequence[str]) -> TaskPast:
    """Return a task as it was at these times, at most two. NotFound; BadInput: no time."""
    times = [*dict.fromkeys(map(read_time, written))]
    found = {one.at: one for one in past.STANDING.rows(tx, task=jedi_task_id, times=times)}
    if not found:
        raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)
    jobs = past.jobs(tx, jedi_task_id, times)
    before = past.KNOBS.rows(tx, times=times)
    events = past.moments(tx, jedi_task_id, times[0])
    decision = _decision(tx, [one for one in events if one.time <= times[0]])
    then = [
        _task(
            jedi_task_id,
            found[at],
            [one for one in jobs if one.at == at],
            decision if at == times[0] else None,
            _knobs(one for one in before if one.at == at),
        )
        for at in times
    ]
    counted = Counter(one.time <= times[0] for one in events)
    moments = [TaskMoment(*one) for one in events]
    return TaskPast(then, moments, max(counted.values(), default=0) >= past.MOMENTS_MOST)


def queues_at(tx: Connection, written: Sequence[str]) -> list[QueuesThen]:
    """Return the work queues as they were at these times. BadInput: no time."""
    times = [*dict.fromkeys(map(read_time, written))]
    tasks = past.queued_tasks(tx, times)
    reached = past.REACHED.rows(tx, times=times)
    before = past.KNOBS.rows(tx, times=times)
    rows = queues.ALL_QUEUES.rows(tx)
    names = {one.queue_id: one.queue_name for one in rows}
    too_far = {one.at for one in tasks if one.queue_id < 0}
    found = []
    for at in times:
        mine = [one for one in tasks if one.at == at and one.queue_id >= 0]
        ended = [one for one in reached if one.at == at]
        said = f"The tasks then: more than {past.CHANGES_MOST} statuses have changed since."
        found.append(
            QueuesThen(
                at,
                at not in too_far,
                [
                    QueueThen(
                        number,
                        names.get(number, "no work queue"),
                        {one.status: one.tasks for one in mine if one.queue_id == number},
                        {one.status: one.jobs for one in ended if one.gshare == names.get(number)},
                    )
                    for number in [*names, *sorted({one.queue_id for one in mine} - {*names})]
                ],
                _knobs(one for one in before if one.at == at),
                [*([said] if at in too_far else []), *_QUEUES_OPEN],
            )
        )
    return found


def _decision(tx: Connection, events: Sequence[past.Moment]) -> BrokerOutcome | None:
    """The last decision among these events."""
    number = next((one.number for one in reversed(events) if one.kind == "decision"), None)
    row = why_facts.DECISION.row(tx, id=number) if number is not None else None
    return why.explain(row, why_facts.refusals(tx, row.decision_id)) if row else None


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


def _knobs(rows: Iterable[past.KnobThen]) -> list[KnobBefore]:
    """Knobs with other values; a preset's value stands for none."""
    return [KnobBefore(one.name, one.then, one.now) for one in rows if one.name in KNOBS]
