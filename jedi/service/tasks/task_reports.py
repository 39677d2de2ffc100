"""Tasks as their pages show them: one report, groups of tasks, the timeline and the family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from jedi.core import clock
from jedi.model.queries import TaskQuery
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import forecasts as job_figures
from jedi.service.tasks import task_details, why
from jedi.service.tasks.forecasts import Forecast
from jedi.service.tasks.why import TaskHold
from jedi.taskbuffer.reports import job_groups, job_listings, task_groups, task_parts
from jedi.taskbuffer.reports.job_groups import JobGroup, JobsAtSite
from jedi.taskbuffer.reports.job_listings import FailureCause
from jedi.taskbuffer.reports.listings import DatasetSummary, JobMetric, TaskSummary
from jedi.taskbuffer.reports.task_groups import COUNTED_MOST, GroupCount
from jedi.taskbuffer.reports.task_parts import Relative, TaskEvent
from jedi.taskbuffer.reports.why_facts import TaskFacts

RECENT_S = 3600.0
"""The pace of a task is that of its jobs that ended within so many seconds."""


GroupKey = Literal["status", "user", "queue", "share", "reason", "label", "group"]
EventsMost = Annotated[int, Field(ge=1, le=1_000)]


@dataclass(frozen=True, slots=True)
class TaskPace:
    """The pace of a task: jobs that finished within the last hour, jobs in an hour at that rate,
    and the time at which its input will be done at that rate (None: no job finished lately, or
    nothing is left)."""

    n_recent: int
    jobs_per_h: float | None
    finish_at: datetime | None


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task with the reason that holds it, its pace, its jobs by site and status, causes of
    failures, the newest events, its family, its datasets, the figures that scouts measured, and
    figures of its jobs as foreseen. `queue_name`: its work queue; None: it has none, or JEDI has
    removed it."""

    task: TaskSummary
    why: TaskHold
    queue_name: str | None
    progress: TaskPace
    jobs: list[JobsAtSite]
    failures: list[FailureCause]
    events: list[TaskEvent]
    family: list[Relative]
    datasets: list[DatasetSummary]
    measured: list[JobMetric]
    forecasts: list[Forecast]


@operation("task.report", "GET", "/v1/tasks/{jedi_task_id}/report", ANYBODY, heavy=True)
def report(call: Call, jedi_task_id: TaskId, events: EventsMost = 15) -> TaskReport:
    """Show a task with the reason that holds it, its pace and the time at which it will be done,
    its jobs by site and status, causes of failures, its newest events, its family, its datasets.

    NotFound.
    """
    tx = call.tx
    unit_s = call.knobs.throttle.unit_s
    task = task_details.get(tx, jedi_task_id, unit_s=unit_s)
    found = task_parts.parts(tx, jedi_task_id, unit_s, events)
    [facts] = found.rows("facts", TaskFacts)
    groups = found.rows("groups", JobGroup)
    chosen = [one["site"] for one in found.raw("chosen")]
    jobs = job_figures.counts(groups)
    failed = bool(jobs.get("failed"))
    return TaskReport(
        task=job_figures.counted(task, jobs),
        why=why.why_of(tx, facts, call.knobs),
        queue_name=next((one["name"] for one in found.raw("queue")), None),
        progress=_progress(task, groups, clock.now()),
        jobs=_by_site(groups),
        failures=job_listings.FAILURES.rows(tx, task=jedi_task_id) if failed else [],
        events=found.rows("events", TaskEvent),
        family=found.rows("family", Relative),
        datasets=found.rows("datasets", DatasetSummary),
        measured=found.rows("measured", JobMetric),
        forecasts=job_figures.forecasts(groups, lambda: chosen),
    )


@operation("task.job_counts", "GET", "/v1/tasks/{jedi_task_id}/job-counts", ANYBODY, heavy=True)
def job_counts(call: Call, jedi_task_id: TaskId) -> list[JobsAtSite]:
    """Count the jobs of a task by site and status.

    NotFound.
    """
    found = job_groups.AT_SITES.rows(call.tx, task=jedi_task_id)
    if not found:
        task_details.must_exist(call.tx, jedi_task_id)
    return found


def _by_site(groups: Iterable[JobGroup]) -> list[JobsAtSite]:
    found: Counter[tuple[str, str]] = Counter()
    for one in groups:
        found[one.site, one.status] += one.jobs
    return [JobsAtSite(site, status, jobs) for (site, status), jobs in sorted(found.items())]


def _progress(task: TaskSummary, jobs: Sequence[JobGroup], now: datetime) -> TaskPace:
    """The pace of a task by the jobs that have finished lately. The input that is left takes as
    many jobs, in proportion, as the input that is done took."""
    finished = [one for one in jobs if one.status == "finished"]
    n_recent = sum(one.n_recent for one in finished)
    first = min((one.first_end for one in finished if one.first_end), default=None)
    if task.is_final or not n_recent or first is None:
        return TaskPace(n_recent, None, None)
    within_s = max(min((now - first).total_seconds(), RECENT_S), 60.0)
    n_left = task.n_files - task.n_files_finished
    n_finished = sum(one.jobs for one in finished)
    per_s = n_recent / within_s * task.n_files_finished / n_finished
    left_s = n_left / per_s if per_s and n_left > 0 else None
    finish_at = None if left_s is None else now + timedelta(seconds=min(left_s, 1e9))
    return TaskPace(n_recent, n_recent / within_s * 3600, finish_at)


@operation("task.timeline", "GET", "/v1/tasks/{jedi_task_id}/timeline", ANYBODY, heavy=True)
def timeline(
    call: Call, jedi_task_id: TaskId, before: datetime | None = None, limit: EventsMost = 100
) -> list[TaskEvent]:
    """List all that happened to a task, the newest first: statuses, commands, brokers' decisions,
    with agent and person. `before`: only events before this time; without offset it is
    UTC.

    NotFound.
    """
    found = task_parts.ALL_EVENTS.rows(call.tx, task=jedi_task_id, before=before, most=limit)
    if not found:
        task_details.get(call.tx, jedi_task_id, unit_s=call.knobs.throttle.unit_s)
    return found


@operation("task.family", "GET", "/v1/tasks/{jedi_task_id}/family", ANYBODY)
def family(call: Call, jedi_task_id: TaskId) -> list[Relative]:
    """List the relatives of a task: parents, siblings, children, tasks that make its input or read
    its output, namesakes of the same owner; 30 of each kind at most.

    NotFound.
    """
    found = task_parts.family(call.tx, jedi_task_id)
    if not found:
        task_details.get(call.tx, jedi_task_id, unit_s=call.knobs.throttle.unit_s)
    return found


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks with the same key: their number, those in each status, and the newest of them."""

    key: str | None
    tasks: int
    statuses: dict[str, int]
    newest: int


@dataclass(frozen=True, slots=True)
class TaskGroups:
    """Groups of tasks, the largest first. `whole`: all tasks were counted; else there are more than
    the sum of the groups."""

    by: str
    groups: list[TaskGroup]
    whole: bool


@operation("task.groups", "GET", "/v1/tasks/groups", ANYBODY, heavy=True)
def groups(call: Call, *, by: GroupKey = "status", query: TaskQuery) -> TaskGroups:
    """Count tasks by status, owner, work queue, share, reason, label or working group, with the
    numbers in each status. The other arguments choose tasks as in task.list; 200,000 are counted at
    most.

    BadInput.
    """
    found = task_groups.counts(call.tx, by, query)
    whole = sum(one.tasks for one in found) < COUNTED_MOST
    return TaskGroups(by, _grouped(found), whole)


def _grouped(counts: Iterable[GroupCount]) -> list[TaskGroup]:
    statuses: dict[str | None, Counter[str]] = {}
    newest: dict[str | None, int] = {}
    for one in counts:
        statuses.setdefault(one.key, Counter())[one.status] += one.tasks
        newest[one.key] = max(newest.get(one.key, 0), one.newest)
    found = [
        TaskGroup(key, sum(one.values()), dict(one.most_common()), newest[key])
        for key, one in statuses.items()
    ]
    return sorted(found, key=lambda one: (-one.tasks, one.key or ""))
