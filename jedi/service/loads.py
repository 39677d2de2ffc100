"""Figures of the whole system: rates of jobs, loads of sites, tasks by what holds them, use of
shares, alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.core import clock, states
from jedi.core.errors import NotFound
from jedi.core.holds import HOLDS, hold_of
from jedi.core.suggest import suggest
from jedi.service import alerts, queues, refused, status
from jedi.service.alerts import Alert
from jedi.service.load_rows import HeldTasks, HourlyJobs, SiteLoad
from jedi.service.queues import ShareSummary
from jedi.service.refused import RefusalReport
from jedi.service.status import AgentStatus
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.reports import loads, overview
from jedi.taskbuffer.reports.gauges import WaitingCount
from jedi.taskbuffer.reports.loads import QueueFlow, ReachedJobs, SiteFacts, SitePilot, TaskCount
from jedi.taskbuffer.reports.overview import SiteStatusJobs
from jedi.taskbuffer.reports.refused import ReadDecisions, RefusalsAtSite

DAY_H = 24
PILOTS_MOST = 200
"""Pilots in the figures of a site."""

WORK_FOR_JOBS = "Its jobs run or wait; each job has its own reason."
"""The sentence of tasks whose jobs decide what holds them."""


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """The whole system: agents, tasks and jobs by status, tasks by what holds them, sites, the
    rates of the last 24 hours, shares against use, alerts."""

    agents: list[AgentStatus]
    tasks: dict[str, int]
    jobs: dict[str, int]
    held: list[HeldTasks]
    sites: list[SiteLoad]
    rates: list[HourlyJobs]
    shares: list[ShareSummary]
    alerts: list[Alert]


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """A site with the rates of its jobs in the last 24 hours, its pilots that have not ended, the
    newest first, and its refusals by brokers."""

    load: SiteLoad
    rates: list[HourlyJobs]
    pilots: list[SitePilot]
    refused: RefusalReport


def figures(tx: Connection) -> SystemFigures:
    """Return the figures of the whole system, by four statements."""
    values = knobs.load(tx)
    agents = status.agent_states(tx, values)
    read = loads.of_system(tx, DAY_H)
    counts, by_site = read.rows("tasks", TaskCount), read.rows("jobs", SiteStatusJobs)
    reached = read.rows("reached", ReachedJobs)
    sites = _sites(read.rows("facts", SiteFacts), by_site, reached)
    held = [_held(one) for one in counts if one.status not in states.TASK.final]
    rates = _rates(reached)
    waiting = read.rows("waiting", WaitingCount)
    facts = alerts.Facts(clock.now(), agents, waiting, rates, sites, held)
    return SystemFigures(
        agents,
        _total((one.status, one.tasks) for one in counts),
        _total((one.status, one.jobs) for one in by_site),
        held,
        sites,
        rates,
        queues.share_summaries(tx),
        alerts.found(facts, values),
    )


def site_loads(tx: Connection) -> list[SiteLoad]:
    """Return all sites with their loads, by three statements."""
    return _sites(loads.sites(tx), overview.jobs_by_site(tx), loads.reached(tx, DAY_H))


def rates(tx: Connection, hours: int, site: str | None) -> list[HourlyJobs]:
    """Return the jobs that reached a status in each of the last hours with any, the oldest first,
    at all sites or at one."""
    return _rates(loads.reached(tx, hours, site))


def held_tasks(tx: Connection) -> list[HeldTasks]:
    """Return the live tasks by work queue, status and reason."""
    return [_held(one) for one in loads.live_tasks(tx)]


def flow(tx: Connection) -> list[QueueFlow]:
    """Return the cores of live jobs by share, work queue and site."""
    return loads.FLOW.rows(tx)


def site_figures(tx: Connection, site: str) -> SiteFigures:
    """Return the figures of a site, by one statement. NotFound: there is no such site."""
    found = loads.parts_of(tx, site, DAY_H, refused.MOST_OF_ONE, PILOTS_MOST)
    reached = found.rows("reached", ReachedJobs)
    sites = _sites(found.rows("facts", SiteFacts), found.rows("jobs", SiteStatusJobs), reached)
    if not sites:
        hint = suggest(site, [one.site for one in loads.sites(tx)], "`jedi site list` shows all.")
        raise NotFound(f"There is no site {site}. {hint}", code="no_site", site=site)
    report = refused.of_site(
        site, found.row("read", ReadDecisions), found.rows("refusals", RefusalsAtSite)
    )
    return SiteFigures(sites[0], _rates(reached), found.rows("pilots", SitePilot), report)


def _sites(
    facts: Sequence[SiteFacts],
    jobs: Sequence[SiteStatusJobs],
    reached: Sequence[ReachedJobs],
) -> list[SiteLoad]:
    by_site: dict[str, dict[str, int]] = {}
    cores: Counter[str] = Counter()
    for one in jobs:
        by_site.setdefault(one.site, {})[one.status] = one.jobs
        cores[one.site] += one.cores if one.status in states.JOB_AT_SITE else 0
    ended: dict[str, dict[str, int]] = {}
    for row in reached:
        if row.site is not None:
            ended.setdefault(row.site, {})[row.status] = row.jobs
    return [
        SiteLoad(
            *one,
            (mine := by_site.get(one.site, {})),
            _of(mine, states.JOB_AT_SITE),
            _of(mine, states.JOB_QUEUED),
            cores[one.site],
            ended.get(one.site, {}),
        )
        for one in facts
    ]


def _of(jobs: Mapping[str, int], statuses: Iterable[str]) -> int:
    return sum(jobs.get(one, 0) for one in statuses)


def _rates(reached: Sequence[ReachedJobs]) -> list[HourlyJobs]:
    found: dict[datetime, dict[str, int]] = {}
    for one in reached:
        if one.hour is not None:
            found.setdefault(one.hour, {})[one.status] = one.jobs
    return [HourlyJobs(hour, jobs) for hour, jobs in sorted(found.items())]


def _held(one: TaskCount) -> HeldTasks:
    hold = hold_of(one.status, one.reason)
    return HeldTasks(
        one.queue_name,
        one.status,
        one.reason,
        hold,
        HOLDS.get(hold, WORK_FOR_JOBS),
        one.tasks,
        one.since,
    )


def _total(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, n in counts:
        found[name] += n
    return dict(sorted(found.items()))
