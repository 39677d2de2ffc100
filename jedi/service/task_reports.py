"""Tasks as their pages show them: one report, groups of tasks, the timeline and the family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from jedi.core import clock
from jedi.core.knobs import Knobs
from jedi.model.queries import TaskQuery
from jedi.service import job_figures, tasks, why
from jedi.service.job_figures import Forecast
from jedi.service.why import TaskHold
from jedi.taskbuffer.reports import job_groups, job_listings, task_groups, task_parts
from jedi.taskbuffer.reports.job_groups import JobGroup, JobsAtSite
from jedi.taskbuffer.reports.job_listings import FailureCause
from jedi.taskbuffer.reports.listings import DatasetSummary, JobMetric, TaskSummary
from jedi.taskbuffer.reports.task_groups import COUNTED_MOST, GroupCount
from jedi.taskbuffer.reports.task_parts import Relative, TaskEvent
from jedi.taskbuffer.reports.why_facts import TaskFacts

RECENT_S = 3600.0
"""The pace of a task is that of its jobs that ended within so many seconds."""


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


def report(tx: Connection, jedi_task_id: int, settings: Knobs, events_most: int) -> TaskReport:
    """The report of a task, by three statements, and one more if jobs have failed. Each of its live
    jobs is read once, failed ones twice. NotFound."""
    unit_s = settings.throttle.unit_s
    task = tasks.get(tx, jedi_task_id, unit_s=unit_s)
    found = task_parts.parts(tx, jedi_task_id, unit_s, events_most)
    [facts] = found.rows("facts", TaskFacts)
    groups = found.rows("groups", JobGroup)
    chosen = [one["site"] for one in found.raw("chosen")]
    jobs = job_figures.counts(groups)
    failed = bool(jobs.get("failed"))
    return TaskReport(
        task=job_figures.counted(task, jobs),
        why=why.why_of(tx, facts, settings),
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


def job_counts(tx: Connection, jedi_task_id: int) -> list[JobsAtSite]:
    """The jobs of a task by site and status. NotFound."""
    found = job_groups.AT_SITES.rows(tx, task=jedi_task_id)
    if not found:
        tasks.must_exist(tx, jedi_task_id)
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


def timeline(
    tx: Connection, jedi_task_id: int, before: datetime | None, limit: int, unit_s: float
) -> list[TaskEvent]:
    """All that happened to a task, the newest first. NotFound."""
    found = task_parts.ALL_EVENTS.rows(tx, task=jedi_task_id, before=before, most=limit)
    if not found:
        tasks.get(tx, jedi_task_id, unit_s=unit_s)
    return found


def family(tx: Connection, jedi_task_id: int, unit_s: float) -> list[Relative]:
    """The relatives of a task. NotFound."""
    found = task_parts.family(tx, jedi_task_id)
    if not found:
        tasks.get(tx, jedi_task_id, unit_s=unit_s)
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


def groups(
    tx: Connection,
    by: str,
    query: TaskQuery,
) -> TaskGroups:
    """Groups of tasks. BadInput."""
    found = task_groups.counts(tx, by, query)
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
