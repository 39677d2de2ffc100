"""The list of tasks: filters, groups, columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from jedi.core.errors import BadInput, Problem
from jedi.core.holds import BY_REASON, BY_STATUS, HOLDS
from jedi.core.states import TASK, TASK_STATES
from jedi.model.conditions import split_conditions
from jedi.model.queries import ListPage, Question, TaskQuery
from jedi.monitor.filters import query
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, SeveralTexts, View, page
from jedi.service.operations.arguments import TaskId
from jedi.service.tasks.task_reports import GroupKey
from jedi.taskbuffer.reports.listings import TaskSummary

PAGE = 100
"""Rows of a page."""

GROUPS_SHOWN = 40


def _of(name: str) -> Any:
    """The address of the list with one value of a filter."""
    return lambda row: (
        f"/tasks?{name}={quote(str(value), safe='')}" if (value := row[name]) else None
    )


COLUMNS = (
    Column(
        "jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row['jedi_task_id']}", field="id"
    ),
    Column("task_name", "Name", link=lambda row: f"/tasks/{row['jedi_task_id']}", field="name"),
    Column("user", "Owner", link=_of("user"), field="user"),
    Column("status", "Status", "status", field="status"),
    Column("percent", "Done", "percent"),
    Column("why", "Why", "reason", field="reason"),
    Column("next_run_at", "Next try", "time"),
    Column("n_files", "Input", "number", wide=True),
    Column("n_files_failed", "Failed", "number", wide=True),
    Column(
        "n_jobs_running",
        "Running",
        "number",
        wide=True,
        link=lambda row: f"/tasks/{row['jedi_task_id']}/jobs?status=running",
    ),
    Column("n_jobs_waiting", "Queued", "number", wide=True),
    Column("queue_name", "Queue", link=_of("queue"), field="queue", wide=True),
    Column("share", "Share", "text", field="share", wide=True),
    Column("label", "Label", "text", link=_of("label"), field="label", wide=True),
    Column("priority", "Priority", "number", field="priority", wide=True),
    Column("attempt_nr", "Attempt", "number", wide=True),
    Column("req_id", "Request", "id", field="request", wide=True),
    Column("creation_date", "Submitted", "time", field="since", wide=True),
    Column("state_change_time", "Status since", "time", field="changed", wide=True),
    Column("end_time", "Ended", "time", wide=True),
)
USUAL = (
    "jedi_task_id",
    "task_name",
    "user",
    "status",
    "percent",
    "why",
    "next_run_at",
    "n_files",
    "n_jobs_running",
    "n_jobs_waiting",
    "queue_name",
    "creation_date",
)
"""Columns of a page that chooses none."""

GROUP_TITLES: Mapping[str, str] = {
    "user": "owner",
    "queue": "work queue",
    "reason": "reason",
    "share": "share",
    "label": "label",
    "group": "working group",
    "status": "status",
}


@dataclass(frozen=True)
class TaskFilters(Question):
    """The filters of the list as they stand in its address."""

    where: SeveralTexts = None
    status: SeveralTexts = None
    user: str | None = None
    name: str | None = None
    reason: str | None = None
    queue: str | None = None
    label: str | None = None
    since: str | None = None

    def query(self) -> TaskQuery:
        """All filters beside status, owner and name are conditions."""
        fields = {"reason": self.reason, "queue": self.queue, "label": self.label}
        found = [one for text in self.where or () for one in split_conditions(text)]
        found += [f"{name}={value}" for name, value in fields.items() if value]
        found += [f"since>={self.since}"] if self.since else []
        return TaskQuery(self.status, self.user, self.name, found or None)


@page("tasks", "/tasks", menu="Tasks", topics=("tasks", "jobs"))
def tasks(
    ask: Ask,
    filters: TaskFilters,
    group: GroupKey | None = None,
    columns: SeveralTexts = None,
    before: TaskId | None = None,
    after: TaskId | None = None,
) -> View:
    """Tasks that meet conditions, the newest first; their numbers by status; groups."""
    wanted = filters.query()
    given = {**vars(filters), "group": group, "columns": columns}
    facts: dict[str, Any] = {
        "kept": given,
        "all_columns": COLUMNS,
        "shown": columns or USUAL,
        "me": ask.call.who,
        "titles": GROUP_TITLES,
        "problems": [],
        "chips": {},
        "groups": None,
        "whole": True,
        "statuses": TASK_STATES,
        "line": " ".join(filters.where or ()),
        "newer": None,
    }
    try:
        found, older, newer = _page(ask, wanted, before, after)
        counted = ask("task.groups", replace(wanted, status=None), by="status")
    except BadInput as error:
        facts["problems"] = _problems(error)
        return View("Tasks", facts, (_sheet([], given, columns, None),))
    facts["chips"] = {one.key: one.tasks for one in counted.groups}
    facts["whole"] = counted.whole
    facts["newer"] = query(given, after=newer) if newer else None
    names = {one.queue_id: one.queue_name for one in ask("queue.list")}
    sheets = [
        _sheet(
            [row_of(one, names) for one in found],
            given,
            columns,
            query(given, before=older) if older else None,
        )
    ]
    if group:
        grouped = ask("task.groups", wanted, by=group)
        sheets.insert(0, _groups(grouped.groups[:GROUPS_SHOWN], group, names, given))
    return View("Tasks", facts, tuple(sheets))


def _page(
    ask: Ask, wanted: TaskQuery, before: int | None, after: int | None
) -> tuple[list[TaskSummary], int | None, int | None]:
    """A page of tasks, and the cursors of the pages with older and with newer ones."""
    found = ask("task.list", wanted, ListPage(before, after, PAGE + 1))
    more = len(found) > PAGE
    if after is not None:
        found = found[-PAGE:]
    found = found[:PAGE]
    if not found:
        return [], None, None
    has_older = more if after is None else True
    has_newer = more if after is not None else before is not None
    first, last = found[0].jedi_task_id, found[-1].jedi_task_id
    return found, last if has_older else None, first if has_newer else None


def row_of(task: TaskSummary, queues: Mapping[int, str]) -> dict[str, Any]:
    """A task as a row of the list: its own values, and the reason why it waits."""
    found = {name: getattr(task, name) for name in TaskSummary.__dataclass_fields__}
    return {
        **found,
        "percent": task.percent,
        "user": task.user_name,
        "label": task.prod_source_label,
        "queue": task.queue_id,
        "queue_name": queues.get(task.queue_id or 0),
        "why": why_of(task),
        "next_run_at": None if task.is_final else task.next_run_at,
    }


def why_of(task: TaskSummary) -> str:
    """The reason of a task's status in words: its own sentence, else the next thing that it waits
    for."""
    if task.status in TASK.final:
        return task.reason or ""
    if task.reason_code or task.status in BY_STATUS:
        hold = BY_STATUS.get(task.status) or BY_REASON.get(task.reason_code or "")
        return task.reason or (HOLDS[hold] if hold else "")
    if task.n_jobs_running:
        return HOLDS["running"]
    if task.n_jobs_waiting:
        return f"{task.n_jobs_waiting} jobs wait for pilots or files."
    return HOLDS["in_turn"]


def _sheet(
    rows: Sequence[Any], given: Mapping[str, Any], columns: Sequence[str] | None, more: str | None
) -> Sheet:
    found = Sheet(
        "tasks",
        "Tasks",
        COLUMNS,
        rows,
        "jedi_task_id",
        more,
        empty="No task meets these conditions.",
    )
    return found.chosen(columns or USUAL)


def _groups(
    groups: Sequence[Any], by: str, queues: Mapping[int, str], given: Mapping[str, Any]
) -> Sheet:
    """The groups as a table: each leads to its tasks."""

    def target(row: Mapping[str, Any]) -> str | None:
        if row["key"] is None or by in ("share", "group"):
            return None
        return f"/tasks{query(given, group=None, **{by: row['key']})}"

    statuses = sorted({one for group in groups for one in group.statuses})
    columns = (
        Column("name", GROUP_TITLES[by].capitalize(), link=target),
        Column("tasks", "Tasks", "number"),
        *(Column(f"statuses.{one}", one, "number", wide=True) for one in statuses),
        Column("newest", "Newest", "id", link=lambda row: f"/tasks/{row['newest']}"),
    )
    rows = [
        {
            "key": one.key,
            "name": _name(one.key, by, queues),
            "tasks": one.tasks,
            "statuses": one.statuses,
            "newest": one.newest,
        }
        for one in groups
    ]
    return Sheet("groups", f"Tasks by {GROUP_TITLES[by]}", columns, rows, "name")


def _name(key: str | None, by: str, queues: Mapping[int, str]) -> str:
    if key is None:
        return "none"
    return queues.get(int(key), key) if by == "queue" else key


def _problems(error: BadInput) -> list[Problem]:
    return [*error.problems]
