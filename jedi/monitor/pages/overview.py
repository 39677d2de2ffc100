"""The first page: the whole system at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from jedi.core import clock, states
from jedi.monitor.charts import Bar, Look, Part, bars, by_status, stacked
from jedi.monitor.curves import DrawnCurve, curves
from jedi.monitor.filters import query, site_page
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.queues.held import HeldTasks
from jedi.service.sites.loads import HourlyJobs, SiteLoad
from jedi.service.system.alerts import Alert, Severity
from jedi.service.system.figures import SystemFigures

DAY_H = 24
SITES_MOST = 25
"""Sites with bars; the page of sites has all."""

RATES: tuple[tuple[str, str, Look], ...] = (
    ("running", "started", "busy"),
    ("finished", "finished", "good"),
    ("failed", "failed", "bad"),
)
"""Statuses that jobs reach, the names of their curves, and looks."""

_PAGES = {"agent": "/agents", "jobs": "/jobs?status={}", "tasks": "/tasks"}


def alert_link(row: Mapping[str, str]) -> str:
    """The page of an alert's subject."""
    if row["kind"] == "site":
        return site_page(row["subject"])
    return _PAGES[row["kind"]].format(row["subject"])


_ALERTS = (
    Column("severity", "Severity", "status"),
    Column("sentence", "Alert", link=alert_link),
    Column("remedy", "Remedy"),
    Column("since", "Since", "time"),
    Column("code", "Code", "code", wide=True),
)
_SEVERITIES: Mapping[Severity, str] = {"page": "urgent", "ticket": "soon"}
"""Words for people."""

_HELD = (
    Column("hold", "Held by", "code"),
    Column("sentence", "Why"),
    Column("tasks", "Tasks", "number", link=lambda row: row["link"]),
    Column("since", "Longest since", "time"),
)


@page("overview", "/", menu="Overview", topics=("tasks", "jobs"))
def overview(ask: Ask) -> View:
    """Alerts, tasks and jobs by status, waiting tasks and reasons, rates, shares against use,
    sites."""
    found: SystemFigures = ask("system.figures")
    alerts = Sheet(
        "alerts",
        "Alerts",
        _ALERTS,
        [_numbered(one) for one in found.alerts],
        "key",
        empty="No alerts.",
    )
    held = Sheet(
        "held",
        "Live tasks, and what holds them",
        _HELD,
        held_rows(found.held),
        "hold",
        empty="No task is alive.",
    )
    facts = {
        "found": found,
        "tasks": stacked(
            "tasks-by-status", "Tasks", live_first(found.tasks, "/tasks?status="), "tasks"
        ),
        "jobs": stacked("jobs-by-status", "Live jobs", job_parts(found.jobs), "jobs"),
        "rates": rates("rates", "Jobs per hour, 24 h to this hour so far", found.rates),
        "shares": shares(found),
        "sites": site_bars(found.sites),
    }
    return View("Overview", facts, (alerts, held))


def _numbered(one: Alert) -> dict[str, Any]:
    return {
        "key": f"{one.code}-{one.subject}",
        "severity": _SEVERITIES[one.severity],
        "sentence": one.sentence,
        "remedy": one.remedy,
        "since": one.since,
        "code": one.code,
        "kind": one.kind,
        "subject": one.subject,
    }


def held_rows(held: Sequence[HeldTasks]) -> list[dict[str, Any]]:
    """Tasks by the reason that holds them, most of them first."""
    found: dict[str, list[HeldTasks]] = {}
    for one in held:
        found.setdefault(one.hold or "jobs", []).append(one)
    rows: list[dict[str, Any]] = [
        {
            "hold": hold,
            "sentence": mine[0].sentence,
            "tasks": sum(one.tasks for one in mine),
            "since": min((one.since for one in mine if one.since), default=None),
            "link": f"/tasks{query({'status': sorted({one.status for one in mine})})}",
        }
        for hold, mine in found.items()
    ]
    return sorted(rows, key=lambda row: (-row["tasks"], row["hold"]))


def live_first(counts: Mapping[str, int], link: str) -> list[Part]:
    """Counts of tasks by status, in the order of their life."""
    order = [*states.TASK_STATES]
    return by_status(sorted(counts.items(), key=lambda one: order.index(one[0])), link)


def job_parts(counts: Mapping[str, int], link: str = "/jobs?status=") -> list[Part]:
    """Counts of live jobs by status, in the order of their life."""
    return by_status([(one, counts[one]) for one in states.JOB_LIVE if counts.get(one)], link)


def rates(name: str, caption: str, hourly: Sequence[HourlyJobs], hours: int = DAY_H) -> Markup:
    """Curves of starts and ends of jobs; hours without any count as none."""
    now = clock.now().replace(minute=0, second=0, microsecond=0)
    at: list[datetime] = [now - timedelta(hours=back) for back in reversed(range(hours))]
    known = {one.hour: one.jobs for one in hourly}
    series = [
        DrawnCurve(label, [known.get(hour, {}).get(status, 0) for hour in at], look)
        for status, label, look in RATES
    ]
    return curves(name, caption, at, series, "jobs/h")


def shares(found: SystemFigures) -> Markup:
    """Use of each work queue against its allocation, in cores."""
    rows = [
        Bar(
            one.queue_name,
            [
                Part("in use", one.usage or 0, "s0"),
                Part("wanted besides", max((one.demand or 0) - (one.usage or 0), 0), "idle"),
            ],
            one.allocation,
            "/queues",
        )
        for one in found.shares
        if one.active
    ]
    return bars(
        "shares", "Shares: cores in use and wanted; the frame is the allocation", rows, "cores"
    )


def site_bars(sites: Sequence[SiteLoad]) -> Markup:
    """Live jobs of the busiest sites; the frame is the number of slots."""
    busy = sorted(sites, key=lambda one: (-sum(one.jobs.values()), one.site))[:SITES_MOST]
    rows = [
        Bar(
            one.site,
            [
                Part("running", one.n_running, "busy"),
                Part("waiting", one.n_waiting, "idle"),
                Part("ending", sum(one.jobs.get(name, 0) for name in _ENDING), "good"),
            ],
            one.n_slots or None,
            site_page(one.site),
        )
        for one in busy
    ]
    return bars("sites", "Sites: live jobs; the frame is the slots", rows, "jobs")


_ENDING = ("holding", "transferring", "merging")
