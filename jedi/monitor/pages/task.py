"""The page of a task."""

from __future__ import annotations

from jedi.monitor.table import Ask, View, page
from jedi.service.operations.tasks import TaskId


@page("task", "/tasks/{jedi_task_id}", topics=("tasks", "jobs", "decisions"))
def task(ask: Ask, jedi_task_id: TaskId) -> View:
    """A task: status and reason, jobs, datasets, history."""
    found = ask("task.show", jedi_task_id=jedi_task_id)
    why = ask("task.why", jedi_task_id=jedi_task_id)
    return View(f"Task {jedi_task_id}", {"task": found.task, "details": found, "why": why})
