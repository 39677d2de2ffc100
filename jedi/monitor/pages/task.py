"""The pages of a task: its state and the reason for it; its files, its log, its family and more on
pages of their own."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import Field

from jedi.core.states import TASK
from jedi.model.queries import FILE_KINDS, FILE_STATUSES, FileQuery
from jedi.monitor import charts
from jedi.monitor.filters import query, site_page
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, SeveralTexts, View, page
from jedi.service.operations.arguments import TaskId
from jedi.service.tasks.forecasts import Forecast
from jedi.taskbuffer.reports.job_groups import JobsAtSite
from jedi.taskbuffer.reports.job_listings import FailureCause
from jedi.taskbuffer.reports.listings import DatasetSummary
from jedi.taskbuffer.reports.task_parts import Relative, TaskEvent

SITES_SHOWN = 12
EVENTS_SHOWN = 12
LOG_PAGE = 100
FILES_PAGE = 200
UNITS_PAGE = 200
ORDER = (
    "finished",
    "running",
    "starting",
    "sent",
    "holding",
    "transferring",
    "merging",
    "activated",
    "throttled",
    "assigned",
    "waiting",
    "defined",
    "pending",
    "failed",
    "cancelled",
    "closed",
)
"""Statuses of jobs in the order of bars: done, at work, waiting, lost."""

TABS = (
    ("", "Overview"),
    ("/jobs", "Jobs"),
    ("/files", "Files"),
    ("/log", "Log"),
    ("/family", "Family"),
    ("/events", "Events"),
    ("/parameters", "Parameters"),
    ("/past", "Past"),
)


def frame(jedi_task_id: int, tab: str, task: Any = None) -> dict[str, Any]:
    """The facts of all pages of a task: the way to it, and its other pages."""
    name = next(title for path, title in TABS if path == tab)
    crumbs = [("/tasks", "Tasks"), (f"/tasks/{jedi_task_id}", f"Task {jedi_task_id}")]
    return {
        "task_id": jedi_task_id,
        "tab": tab,
        "tabs": TABS,
        "task": task,
        "crumbs": crumbs if tab else crumbs[:1],
        "tab_name": name,
    }


def glance(ask: Ask, jedi_task_id: int, tab: str) -> dict[str, Any]:
    """The frame of a page that knows the task's id alone. NotFound."""
    [found] = ask("task.look", jedi_task_ids=[jedi_task_id], jobs=False)
    return frame(jedi_task_id, tab, found.task)


@page("task", "/tasks/{jedi_task_id}", topics=("tasks", "jobs", "decisions"))
def task(ask: Ask, jedi_task_id: TaskId) -> View:
    """A task: status and the reason for it, progress, jobs, errors, last events."""
    found = ask("task.report", jedi_task_id=jedi_task_id, events=EVENTS_SHOWN)
    sheets = (
        events_sheet(found.events, None),
        _refusals(found.why),
        relatives_sheet([one for one in found.family if one.relation != "namesake"]),
        datasets_sheet(found.datasets),
        forecasts_sheet(found.forecasts),
    )
    facts = {
        **frame(jedi_task_id, "", found.task),
        "why": found.why,
        "report": found,
        "over": found.task.status in TASK.final,
        "charts": _charts(jedi_task_id, found.jobs),
        "n_jobs": sum(one.jobs for one in found.jobs),
        "errors": [(one, jobs_of(jedi_task_id, one)) for one in found.failures],
    }
    return View(f"Task {jedi_task_id}", facts, sheets)


def jobs_of(jedi_task_id: int, cause: FailureCause) -> str:
    """The address of the jobs that failed by a cause."""
    where = [
        f"{name}={value}"
        for name, value in (("error", cause.error_code), ("exit", cause.exit_code))
        if value is not None
    ]
    asked = urlencode({"status": "failed", "where": " ".join(where)})
    return f"/tasks/{jedi_task_id}/jobs?{asked}"


def _charts(jedi_task_id: int, jobs: Sequence[JobsAtSite]) -> list[Any]:
    """Jobs by status, and by site; none without jobs."""
    if not jobs:
        return []
    link = f"/tasks/{jedi_task_id}/jobs?status="
    whole: Counter[str] = Counter()
    sites: dict[str, Counter[str]] = defaultdict(Counter)
    for one in jobs:
        whole[one.status] += one.jobs
        sites[one.site][one.status] += one.jobs
    largest = sorted(sites, key=lambda site: (-sites[site].total(), site))
    rows = [
        charts.Bar(site, charts.by_status(_ordered(sites[site])), link=site_page(site))
        for site in largest[:SITES_SHOWN]
    ]
    rest = sum((sites[site] for site in largest[SITES_SHOWN:]), Counter())
    if rest:
        name = f"{len(largest) - SITES_SHOWN} more sites"
        rows.append(charts.Bar(name, charts.by_status(_ordered(rest))))
    return [
        charts.stacked(
            "jobs-by-status", "Jobs by status", charts.by_status(_ordered(whole), link), "jobs"
        ),
        charts.bars("jobs-by-site", "Jobs by site", rows, "jobs"),
    ]


def _ordered(counts: Mapping[str, int]) -> list[tuple[str, float]]:
    place = {name: at for at, name in enumerate(ORDER)}
    return sorted(counts.items(), key=lambda one: place.get(one[0], len(ORDER)))


def _refusals(why: Any) -> Sheet:
    """The criteria that refused sites in the broker's last decision."""
    columns = (
        Column("code", "Criterion", "code"),
        Column("sites", "Refused sites", "number"),
        Column("first", "As first reason", "number", wide=True),
        Column("only", "As only reason", "number"),
        Column("nearest", "Nearest site"),
        Column("remedy", "Remedy"),
    )
    rows = why.brokerage.funnel if why.brokerage else ()
    return Sheet(
        "funnel", "Sites refused by criterion", columns, rows, "code", empty="No site was refused."
    )


def events_sheet(events: Sequence[TaskEvent], more: str | None) -> Sheet:
    """All that happened, as a table."""
    columns = (
        Column("time", "Time", "time"),
        Column("what", "What", link=_target),
        Column("by", "By"),
        Column("why", "Why"),
    )
    rows = [
        {
            "key": f"{one.kind}-{one.number or ''}-{one.time.timestamp():.6f}",
            "time": one.time,
            "what": _what(one),
            "kind": one.kind,
            "number": one.number,
            "by": _by(one),
            "why": ". ".join(dict.fromkeys(part for part in (_code(one), one.sentence) if part)),
        }
        for one in events
    ]
    return Sheet("events", "Events", columns, rows, "key", more, empty="Nothing has happened yet.")


def _what(one: TaskEvent) -> str:
    match one.kind:
        case "status":
            return f"{one.from_status} → {one.what}" if one.from_status else one.what
        case "command":
            return f"command {one.what}"
        case "answer":
            return f"answer to {one.what}"
        case _:
            chosen = ", ".join(one.sites or ()) or "no site"
            return f"decision {one.number} ({one.what}): {chosen}"


def _by(one: TaskEvent) -> str:
    return " for ".join(part for part in (one.agent, one.user_name) if part)


def _code(one: TaskEvent) -> str | None:
    """The code of an event, unless its other cells say the same."""
    return None if one.kind == "decision" else one.code


def _target(row: Mapping[str, Any]) -> str | None:
    return f"/decisions/{row['number']}" if row["kind"] == "decision" else None


def relatives_sheet(family: Sequence[Relative]) -> Sheet:
    """The relatives of a task as a table."""
    columns = (
        Column("relation", "Relation"),
        Column("jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row['jedi_task_id']}"),
        Column("task_name", "Name"),
        Column("user_name", "Owner", wide=True),
        Column("status", "Status", "status"),
        Column("reason_code", "Reason", "code", wide=True),
        Column("creation_date", "Submitted", "time", wide=True),
        Column("dataset", "Dataset"),
    )
    rows = [
        {
            **{name: getattr(one, name) for name in Relative.__dataclass_fields__},
            "key": f"{one.relation}-{one.jedi_task_id}",
            "relation": f"{one.relation}, {one.distance} generations away"
            if one.distance > 1
            else one.relation,
        }
        for one in family
    ]
    return Sheet(
        "family",
        "Family",
        columns,
        rows,
        "key",
        empty="It waits for no other task, and no other task waits for it.",
    )


def datasets_sheet(datasets: Sequence[DatasetSummary]) -> Sheet:
    """The datasets of a task as a table."""
    columns = (
        Column("name", "Dataset"),
        Column("type", "Type"),
        Column("status", "Status", "status"),
        Column("state", "State", wide=True),
        Column("n_files", "Files", "number"),
        Column("n_files_used", "Used", "number", wide=True),
        Column("n_files_finished", "Finished", "number"),
        Column("n_files_failed", "Failed", "number"),
        Column("n_files_missing", "Missing", "number", wide=True),
        Column("n_files_waiting", "Awaited", "number", wide=True),
        Column("n_left_out", "Left out", "number"),
        Column("attributes", "Attributes", wide=True),
        Column("dataset_id", "Id", "id", wide=True),
    )
    return Sheet(
        "datasets",
        "Datasets",
        columns,
        datasets,
        "dataset_id",
        empty="Its datasets are not known yet.",
    )


def forecasts_sheet(forecasts: Sequence[Forecast]) -> Sheet:
    """The figures of a task's jobs as foreseen, beside those that were measured."""
    columns = (
        Column("name", "Figure"),
        Column("foreseen", "Foreseen"),
        Column("true", "Most measured"),
        Column("unit", "Unit"),
    )
    return Sheet("forecasts", "Foreseen and measured", columns, forecasts, "name")


@page("task_files", "/tasks/{jedi_task_id}/files", topics=("tasks", "jobs"))
def files(
    ask: Ask,
    jedi_task_id: TaskId,
    type: SeveralTexts = None,
    status: SeveralTexts = None,
    after: TaskId | None = None,
) -> View:
    """Datasets and files of a task."""
    kept = {"type": type, "status": status}
    wanted, limit = FileQuery(type, status), FILES_PAGE + 1
    listed = ask("task.files", wanted, jedi_task_id=jedi_task_id, after=after, limit=limit)
    more = query(kept, after=listed[FILES_PAGE - 1].file_id) if len(listed) > FILES_PAGE else None
    columns = (
        Column("lfn", "File"),
        Column("type", "Type"),
        Column("status", "Status", "status"),
        Column("reason", "Reason", wide=True),
        Column("size", "Size", "bytes"),
        Column("n_events", "Events", "number", wide=True),
        Column("start_event", "First event", "number", wide=True),
        Column("attempt_nr", "Attempt", "number", wide=True),
        Column("failed_attempt", "Failures", "number", wide=True),
        Column(
            "panda_id",
            "Job",
            "id",
            link=lambda row: f"/jobs/{row.panda_id}" if row.panda_id else None,
        ),
        Column("adler32", "adler32", "code", wide=True),
        Column("dataset", "Dataset", wide=True),
        Column("file_id", "Id", "id", wide=True),
    )
    rows = Sheet("files", "Files", columns, listed[:FILES_PAGE], "file_id", more)
    facts = {
        **glance(ask, jedi_task_id, "/files"),
        "kinds": FILE_KINDS,
        "statuses": FILE_STATUSES,
        "kept": kept,
    }
    sheets = (datasets_sheet(ask("task.datasets", jedi_task_id=jedi_task_id)), rows)
    return View(f"Files of task {jedi_task_id}", facts, sheets)


@page("task_log", "/tasks/{jedi_task_id}/log", topics=("tasks", "decisions"))
def log(ask: Ask, jedi_task_id: TaskId, before: datetime | None = None) -> View:
    """All that happened to a task, the newest first."""
    found = ask("task.timeline", jedi_task_id=jedi_task_id, before=before, limit=LOG_PAGE + 1)
    more = None
    if len(found) > LOG_PAGE:
        more = query({}, before=found[LOG_PAGE - 1].time.isoformat())
    facts = {**glance(ask, jedi_task_id, "/log"), "before": before}
    sheets = (events_sheet(found[:LOG_PAGE], more), _chain(ask, jedi_task_id))
    return View(f"Log of task {jedi_task_id}", facts, sheets)


def _chain(ask: Ask, jedi_task_id: int) -> Sheet:
    """The steps of a task from its submission to its jobs."""
    return Sheet(
        "chain",
        "Steps to its jobs",
        (
            Column("name", "Step"),
            Column("agent", "Agent"),
            Column("state", "State", "status"),
            Column("time", "Time", "time"),
            Column("reason_code", "Code", "code", wide=True),
            Column("reason", "Why"),
        ),
        ask("task.chain", jedi_task_id=jedi_task_id),
        "name",
    )


@page("task_family", "/tasks/{jedi_task_id}/family", topics=("tasks",))
def family(
    ask: Ask, jedi_task_id: TaskId, after: Annotated[int, Field(ge=0, lt=2**31)] = 0
) -> View:
    """The family of a task, and the units of its herd."""
    relatives = ask("task.family", jedi_task_id=jedi_task_id)
    herd = ask("task.herd", jedi_task_id=jedi_task_id, after=after, limit=UNITS_PAGE)
    more = None
    if len(herd.members) == UNITS_PAGE and herd.members[-1].unit_nr:
        more = query({}, after=herd.members[-1].unit_nr)
    units = Sheet(
        "units",
        "Units",
        (
            Column("unit_nr", "Unit", "id"),
            Column("split_id", "Split id", "id", wide=True),
            Column(
                "panda_id",
                "Latest job",
                "id",
                link=lambda row: f"/jobs/{row.panda_id}" if row.panda_id else None,
            ),
            Column("status", "Status", "status"),
            Column("n_attempts", "Attempts", "number"),
            Column("job_split_type", "Type", wide=True),
            Column("parameter", "Parameters"),
            Column("origin_panda_id", "First id", "id", wide=True),
        ),
        herd.members,
        "origin_panda_id",
        more,
        empty="It has no splitter, hence no units.",
    )
    facts = {**glance(ask, jedi_task_id, "/family"), "herd": herd}
    return View(f"Family of task {jedi_task_id}", facts, (relatives_sheet(relatives), units))


@page("task_events", "/tasks/{jedi_task_id}/events", topics=("tasks", "jobs"))
def events(ask: Ask, jedi_task_id: TaskId) -> View:
    """The ranges of events of a task: by status, by file, by consumer."""
    found = ask("task.events", jedi_task_id=jedi_task_id, limit=200)
    counts = (
        Column("n_ranges", "Ranges", "number"),
        Column("n_events", "Events", "number"),
        Column("n_processed", "Processed", "number"),
        Column("n_left", "Left", "number"),
    )
    statuses = Sheet(
        "ranges",
        "Ranges by status",
        (Column("status", "Status", "status"), *counts[:2]),
        found.statuses,
        "status",
        empty="Its jobs get no events while they run.",
    )
    by_file = Sheet(
        "event_files",
        "Ranges by file",
        (Column("file_id", "Id", "id", wide=True), Column("lfn", "File"), *counts),
        found.files,
        "file_id",
    )
    consumers = Sheet(
        "consumers",
        "Consumers",
        (
            Column("panda_id", "Job", "id", link=lambda row: f"/jobs/{row.panda_id}"),
            Column("kind", "Kind"),
            Column("status", "Status", "status"),
            Column("site", "Site"),
            Column("jobset_id", "Job set", "id", wide=True),
            *counts,
        ),
        found.consumers,
        "panda_id",
    )
    facts = {**glance(ask, jedi_task_id, "/events"), "found": found}
    return View(f"Events of task {jedi_task_id}", facts, (statuses, by_file, consumers))


@page("task_parameters", "/tasks/{jedi_task_id}/parameters")
def parameters(ask: Ask, jedi_task_id: TaskId) -> View:
    """The parameters of a task as submitted, with defaults filled in."""
    found = ask("task.document", jedi_task_id=jedi_task_id)
    rows = [
        {"name": name, "value": json.dumps(value, ensure_ascii=False, default=str)}
        for name, value in sorted(found.items())
    ]
    sheet = Sheet(
        "parameters",
        "Parameters",
        (Column("name", "Key", "code"), Column("value", "Value", "whole")),
        rows,
        "name",
        empty="Its parameters are not kept.",
    )
    facts = glance(ask, jedi_task_id, "/parameters")
    return View(f"Parameters of task {jedi_task_id}", facts, (sheet,))
