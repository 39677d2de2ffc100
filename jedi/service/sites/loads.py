"""Loads of sites: slots, pilots, jobs by status, rates of jobs, refusals by brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jedi.core import states
from jedi.core.errors import NotFound
from jedi.core.suggest import suggest
from jedi.service.brokerage import refusals
from jedi.service.brokerage.refusals import RefusalReport
from jedi.service.operations.arguments import Hours, NameText
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports import loads, overview
from jedi.taskbuffer.reports.loads import ReachedJobs, SiteFacts, SitePilot
from jedi.taskbuffer.reports.overview import SiteStatusJobs
from jedi.taskbuffer.reports.refused import ReadDecisions, RefusalsAtSite

DAY_H = 24
PILOTS_MOST = 200
"""Pilots in the figures of a site."""


@dataclass(frozen=True, slots=True)
class HourlyJobs:
    """Jobs that reached a status within the hour that begins at `hour`, by status: running
    (started), finished, failed, closed, cancelled."""

    hour: datetime
    jobs: dict[str, int]


@dataclass(frozen=True, slots=True)
class SiteLoad:
    """A site: its slots and their cores, its pilots that have not ended, its live jobs by status,
    and the jobs that reached a status there in the last 24 hours. `trouble`: the reason for no
    pilots, or for fewer."""

    site: str
    status: str
    n_slots: int
    cores: int
    submitter: str
    last_pilot: datetime | None
    comment: str | None
    pilots_running: int
    pilots_submitted: int
    trouble: str | None
    jobs: dict[str, int]
    n_running: int
    n_waiting: int
    cores_running: int
    reached: dict[str, int]


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """A site with the rates of its jobs in the last 24 hours, its pilots that have not ended, the
    newest first, and its refusals by brokers."""

    load: SiteLoad
    rates: list[HourlyJobs]
    pilots: list[SitePilot]
    refused: RefusalReport


@operation("system.rates", "GET", "/v1/rates", ANYBODY)
def rates(call: Call, hours: Hours = 24, site: NameText | None = None) -> list[HourlyJobs]:
    """List the jobs that started and ended in each of the last hours, at all sites or at one."""
    return by_hour(loads.REACHED.rows(call.tx, hours=hours, site=site))


@operation("site.loads", "GET", "/v1/site-loads", ANYBODY)
def site_loads(call: Call) -> list[SiteLoad]:
    """List the sites with their slots, pilots, jobs by status, and ends of jobs in 24 hours."""
    reached = loads.REACHED.rows(call.tx, hours=DAY_H, site=None)
    return by_site(loads.SITES.rows(call.tx), overview.JOBS_BY_SITE.rows(call.tx), reached)


@operation("site.figures", "GET", "/v1/sites/{site}/figures", ANYBODY)
def site_figures(call: Call, site: NameText) -> SiteFigures:
    """Show a site in figures: jobs, rates, pilots with their batch ids, refusals by brokers.

    One statement reads them. NotFound: there is no such site.
    """
    found = loads.parts_of(call.tx, site, DAY_H, refusals.MOST_OF_ONE, PILOTS_MOST)
    reached = found.rows("reached", ReachedJobs)
    sites = by_site(found.rows("facts", SiteFacts), found.rows("jobs", SiteStatusJobs), reached)
    if not sites:
        there = [one.site for one in loads.SITES.rows(call.tx)]
        hint = suggest(site, there, "`jedi site list` shows all.")
        raise NotFound(f"There is no site {site}. {hint}", code="no_site", site=site)
    report = refusals.of_site(
        site, found.row("read", ReadDecisions), found.rows("refusals", RefusalsAtSite)
    )
    return SiteFigures(sites[0], by_hour(reached), found.rows("pilots", SitePilot), report)


def by_site(
    facts: Sequence[SiteFacts],
    jobs: Sequence[SiteStatusJobs],
    reached: Sequence[ReachedJobs],
) -> list[SiteLoad]:
    """The loads of sites."""
    live: dict[str, dict[str, int]] = {}
    cores: Counter[str] = Counter()
    for one in jobs:
        live.setdefault(one.site, {})[one.status] = one.jobs
        cores[one.site] += one.cores if one.status in states.JOB_AT_SITE else 0
    ended: dict[str, dict[str, int]] = {}
    for row in reached:
        if row.site is not None:
            ended.setdefault(row.site, {})[row.status] = row.jobs
    return [
        SiteLoad(
            *one,
            (mine := live.get(one.site, {})),
            _of(mine, states.JOB_AT_SITE),
            _of(mine, states.JOB_QUEUED),
            cores[one.site],
            ended.get(one.site, {}),
        )
        for one in facts
    ]


def _of(jobs: Mapping[str, int], statuses: Iterable[str]) -> int:
    return sum(jobs.get(one, 0) for one in statuses)


def by_hour(reached: Sequence[ReachedJobs]) -> list[HourlyJobs]:
    """Hours with any jobs, the oldest first."""
    found: dict[datetime, dict[str, int]] = {}
    for one in reached:
        if one.hour is not None:
            found.setdefault(one.hour, {})[one.status] = one.jobs
    return [HourlyJobs(hour, jobs) for hour, jobs in sorted(found.items())]
