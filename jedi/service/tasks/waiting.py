"""State of tasks for people who wait for their end."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.core import states
from jedi.core.errors import NotFound
from jedi.service.operations.arguments import IdsInQuery
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import task_details
from jedi.taskbuffer.reports.listings import TaskSummary
from jedi.taskbuffer.tasks import commands

SETTLED = states.TASK.final | {"exhausted"}
"""Statuses that a task does not leave by itself, or only after days."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A task, and whether waiting for it is over."""

    task: TaskSummary
    settled: bool


@operation("task.look", "GET", "/v1/tasks/look", ANYBODY)
def look(call: Call, jedi_task_ids: IdsInQuery, jobs: bool = True) -> list[Watched]:
    """Show tasks at a glance, and whether the wait for each is over; without `jobs`, their live
    jobs are not counted.

    NotFound names those that there are not.
    """
    unit_s = call.knobs.throttle.unit_s
    listed = task_details.among(call.tx, jedi_task_ids, jobs=jobs, unit_s=unit_s)
    found = {task.jedi_task_id: task for task in listed}
    if missing := [str(i) for i in jedi_task_ids if i not in found]:
        raise NotFound(f"There is no task {', '.join(missing)}.", jedi_task_ids=missing)
    asked = commands.next_commands(call.tx, jedi_task_ids)
    return [Watched(found[i], found[i].status in SETTLED and i not in asked) for i in jedi_task_ids]
