"""Lists of jobs: of a task, of a user, of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jedi.core.errors import BadInput
from jedi.core.states import JOB
from jedi.model.conditions import split_conditions
from jedi.model.queries import JobQuery
from jedi.monitor.filters import query, site_page
from jedi.monitor.pages.task import ORDER, glance
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, SeveralTexts, View, page
from jedi.service.operations.arguments import TaskId

PAGE = 100
"""Rows of a page."""


WAITS: Mapping[str, str] = {
    "pending": "It waits until the files that it needs are known.",
    "defined": "It waits for its site to be confirmed.",
    "waiting": "It waits for other jobs.",
    "assigned": "Its input files are on their way to {site}.",
    "throttled": "Its user has reached the limit of running jobs.",
    "activated": "It waits for a pilot at {site}.",
    "sent": "A pilot has it, and has not begun yet.",
    "starting": "Its pilot prepares it.",
    "holding": "Its pilot has reported the end; the Adder looks at its outputs.",
    "transferring": "Its outputs are on their way to their destination.",
    "merging": "It waits until its outputs are merged.",
}
"""The next thing that a job waits for, by its status."""

_JOB = Column("panda_id", "Job", "id", link=lambda row: f"/jobs/{row['panda_id']}", field="id")
_TASK = Column(
    "jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row['jedi_task_id']}", field="task"
)
_USER = Column(
    "user_name",
    "Owner",
    field="user",
    link=lambda row: f"/jobs?user={quote(row['user_name'] or '', safe='')}",
)
_COLUMNS = (
    Column("status", "Status", "status", field="status"),
    Column("site", "Site", link=lambda row: site_page(row["site"]), field="site"),
    Column("kind", "Kind", field="kind", wide=True),
    Column("attempt_nr", "Attempt", "number", field="attempt", wide=True),
    Column("priority", "Priority", "number", field="priority", wide=True),
    Column("why", "Why", "reason", field="error"),
    Column("exit_code", "Exit", "number", field="exit", wide=True),
    Column("wall_s", "Wall time", "seconds", wide=True),
    Column("creation_time", "Created", "time", field="since"),
    Column("start_time", "Started", "time", wide=True),
    Column("end_time", "Ended", "time", wide=True),
)


def row_of(job: Any) -> dict[str, Any]:
    """A job as a row: its values, and the reason why it failed, is held, or waits."""
    found = {name: getattr(job, name) for name in type(job).__dataclass_fields__}
    return {**found, "why": _why(found)}


def _why(row: Mapping[str, Any]) -> str:
    if row["error_code"]:
        return ": ".join(part for part in (row["error_code"], row.get("error_diag")) if part)
    if row.get("hold_kind"):
        return f"held ({row['hold_kind']}): {row['hold_reason'] or ''}"
    said = WAITS.get(row["status"], "").format(site=row["site"])
    return " ".join(part for part in (row.get("substatus"), said) if part)


def _conditions(where: Sequence[str] | None, **fields: str | None) -> list[str]:
    found = [one for text in where or () for one in split_conditions(text)]
    return [*found, *(f"{name}={value}" for name, value in fields.items() if value)]


def _sheet(jobs: Sequence[Any], columns: Sequence[Column], more: str | None) -> Sheet:
    rows = [row_of(one) for one in jobs]
    return Sheet(
        "jobs",
        "Jobs",
        tuple(columns),
        rows,
        "panda_id",
        more,
        empty="No job meets these conditions.",
    )


@page("task_jobs", "/tasks/{jedi_task_id}/jobs", topics=("jobs", "tasks"))
def task_jobs(
    ask: Ask,
    jedi_task_id: TaskId,
    status: SeveralTexts = None,
    site: str | None = None,
    where: SeveralTexts = None,
    after: TaskId | None = None,
) -> View:
    """The jobs of a task, the oldest first."""
    given = {"status": status, "site": site, "where": where}
    at_sites = ask("task.job_counts", jedi_task_id=jedi_task_id)
    counts: Counter[str] = Counter()
    for one in at_sites:
        counts[one.status] += one.jobs
    facts = {
        **glance(ask, jedi_task_id, "/jobs"),
        "kept": given,
        "problems": [],
        "chips": {
            name: counts[name] for name in (*ORDER, *sorted({*counts} - {*ORDER})) if counts[name]
        },
        "sites": sorted({one.site for one in at_sites}),
        "line": " ".join(where or ()),
        "statuses": [*JOB.states],
        "after": after,
    }
    columns = (
        _JOB,
        *_COLUMNS[:5],
        Column("n_inputs", "Inputs", "number", wide=True),
        *_COLUMNS[5:],
    )
    found: list[Any] = []
    try:
        found = ask(
            "task.jobs",
            JobQuery(status, _conditions(where, site=site) or None),
            jedi_task_id=jedi_task_id,
            after=after,
            limit=PAGE + 1,
        )
    except BadInput as error:
        facts["problems"] = [*error.problems]
    more = query(given, after=found[PAGE - 1].panda_id) if len(found) > PAGE else None
    return View(f"Jobs of task {jedi_task_id}", facts, (_sheet(found[:PAGE], columns, more),))


@page("jobs", "/jobs", menu="Jobs", topics=("jobs",))
def jobs(
    ask: Ask,
    status: SeveralTexts = None,
    user: str | None = None,
    site: str | None = None,
    where: SeveralTexts = None,
    before: TaskId | None = None,
) -> View:
    """Jobs of all tasks and users that meet conditions, the newest first."""
    given = {"status": status, "user": user, "site": site, "where": where}
    facts: dict[str, Any] = {
        "kept": given,
        "problems": [],
        "line": " ".join(where or ()),
        "me": ask.call.who,
        "statuses": [*JOB.states],
        "before": before,
        "found": None,
    }
    rows: list[Any] = []
    more = None
    try:
        wanted = JobQuery(status, _conditions(where, user=user, site=site) or None)
        found = ask("job.search", wanted, before=before, limit=PAGE)
    except BadInput as error:
        facts["problems"] = [*error.problems]
    else:
        rows, facts["found"] = found.jobs, found
        more = query(given, before=found.before) if found.before else None
    return View("Jobs", facts, (_sheet(rows, (_JOB, _TASK, _USER, *_COLUMNS), more),))
