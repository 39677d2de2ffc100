"""State of tasks for people who wait for their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.errors import NotFound
from jedi.service import tasks
from jedi.taskbuffer.reports.listings import TaskSummary
from jedi.taskbuffer.tasks import commands

SETTLED = states.TASK.final | {"exhausted"}
"""Statuses that a task does not leave by itself, or only after days."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A task, and whether waiting for it is over."""

    task: TaskSummary
    settled: bool


def look(
    tx: Connection, ids: Sequence[int], *, jobs: bool = True, unit_s: float | None = None
) -> list[Watched]:
    """Tasks in the order asked for; NotFound names those that there are not. A task of which
    something was asked just now (a retry) is not settled, whatever its status. `jobs`: their live
    jobs are counted."""
    listed = tasks.among(tx, ids, jobs=jobs, unit_s=unit_s)
    found = {task.jedi_task_id: task for task in listed}
    if missing := [str(i) for i in ids if i not in found]:
        raise NotFound(f"There is no task {', '.join(missing)}.", jedi_task_ids=missing)
    asked = commands.next_commands(tx, ids)
    return [Watched(found[i], found[i].status in SETTLED and i not in asked) for i in ids]
