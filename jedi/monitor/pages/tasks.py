"""The list of tasks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jedi.monitor.filters import query
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page

PAGE = 100
"""Rows of a page."""

COLUMNS = (
    Column("jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row.jedi_task_id}", field="id"),
    Column("task_name", "Name", field="name"),
    Column("user_name", "Owner", field="user"),
    Column("status", "Status", "status", field="status"),
    Column("percent", "Done", "percent"),
    Column("n_files", "Files", "number", wide=True),
    Column("n_jobs_running", "Running", "number", wide=True),
    Column("priority", "Priority", "number", field="priority", wide=True),
    Column("reason", "Why", "reason"),
    Column("next_run_at", "Next try", "time", wide=True),
    Column("creation_date", "Since", "time", field="since", wide=True),
)


@page("tasks", "/tasks", menu="Tasks", topics=("tasks", "jobs"))
def tasks(
    ask: Ask,
    where: Annotated[list[str], Field(max_length=50)] | None = None,
    status: list[str] | None = None,
    before: int | None = None,
    columns: list[str] | None = None,
) -> View:
    """Tasks that meet conditions, the newest first."""
    found = ask("task.list", where=where, status=status, before=before, limit=PAGE + 1)
    given = {"where": where, "status": status, "columns": columns}
    more = query(given, before=found[PAGE - 1].jedi_task_id) if len(found) > PAGE else None
    sheet = Sheet("tasks", "Tasks", COLUMNS, found[:PAGE], "jedi_task_id", more,
                  empty="No task meets these conditions.")  # fmt: skip
    return View("Tasks", {"given": given, "columns": COLUMNS}, (sheet.chosen(columns),))
