"""Operations that show tasks as a whole: report, timeline, family, groups."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from jedi.model.queries import TaskQuery
from jedi.service import task_reports
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.task_reports import TaskGroups, TaskReport
from jedi.taskbuffer.reports.job_groups import JobsAtSite
from jedi.taskbuffer.reports.task_parts import Relative, TaskEvent

GroupKey = Literal["status", "user", "queue", "share", "reason", "label", "group"]
EventsMost = Annotated[int, Field(ge=1, le=1_000)]


@operation("task.groups", "GET", "/v1/tasks/groups", ANYBODY, heavy=True)
def groups(call: Call, *, by: GroupKey = "status", query: TaskQuery) -> TaskGroups:
    """Count tasks by status, owner, work queue, share, reason, label or working group, with the
    numbers in each status. The other arguments choose tasks as in task.list; 200,000 are counted at
    most."""
    return task_reports.groups(call.tx, by, query)


@operation("task.report", "GET", "/v1/tasks/{jedi_task_id}/report", ANYBODY, heavy=True)
def report(call: Call, jedi_task_id: TaskId, events: EventsMost = 15) -> TaskReport:
    """Show a task with the reason that holds it, its pace and the time at which it will be done,
    its jobs by site and status, causes of failures, its newest events, its family, its datasets."""
    return task_reports.report(call.tx, jedi_task_id, call.knobs, events)


@operation("task.job_counts", "GET", "/v1/tasks/{jedi_task_id}/job-counts", ANYBODY, heavy=True)
def job_counts(call: Call, jedi_task_id: TaskId) -> list[JobsAtSite]:
    """Count the jobs of a task by site and status."""
    return task_reports.job_counts(call.tx, jedi_task_id)


@operation("task.timeline", "GET", "/v1/tasks/{jedi_task_id}/timeline", ANYBODY, heavy=True)
def timeline(
    call: Call, jedi_task_id: TaskId, before: datetime | None = None, limit: EventsMost = 100
) -> list[TaskEvent]:
    """List all that happened to a task, the newest first: statuses, commands, brokers' decisions,
    with agent and person. `before`: only events before this time; without offset it is
    UTC."""
    return task_reports.timeline(call.tx, jedi_task_id, before, limit, call.knobs.throttle.unit_s)


@operation("task.family", "GET", "/v1/tasks/{jedi_task_id}/family", ANYBODY)
def family(call: Call, jedi_task_id: TaskId) -> list[Relative]:
    """List the relatives of a task: parents, siblings, children, tasks that make its input or read
    its output, namesakes of the same owner; 30 of each kind at most."""
    return task_reports.family(call.tx, jedi_task_id, call.knobs.throttle.unit_s)
