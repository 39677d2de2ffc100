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
from jedi.service import alerts, queues, status
from jedi.service.alerts import Alert
from jedi.service.queues import ShareSummary
from jedi.service.status import AgentStatus
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.reports import gauges, loads, overview
from jedi.taskbuffer.reports.loads import QueueFlow, ReachedJobs, SitePilot

DAY_H = 24
LIVE = tuple(one for one in states.TASK_STATES if one not in states.TASK.final)
WORK_FOR_JOBS = "Its jobs decide: they run, or wait for what jobs wait for."
"""The sentence of tasks whose jobs decide what holds them."""


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
class HeldTasks:
    """Live tasks of a work queue (empty: none) in a status for a reason (a code of docs/reasons.md,
    or empty). `hold` is what holds them as far as the tasks alone decide it, a code of docs/why.md;
    empty: their jobs do. `since`: the first of them came to its status."""

    queue_name: str
    status: str
    reason: str
    hold: str
    sentence: str
    tasks: int
    since: datetime | None


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


def figures(tx: Connection) -> SystemFigures:
    """Return the figures of the whole system, by eight statements."""
    values = knobs.load(tx)
    agents = status.agent_states(tx, values)
    counts = loads.tasks(tx, LIVE, ended=True)
    by_site = overview.jobs_by_site(tx)
    reached = loads.reached(tx, DAY_H)
    sites = _sites(loads.sites(tx), by_site, reached)
    held = [_held(one) for one in counts if one.status in LIVE]
    rates = _rates(reached)
    facts = alerts.Facts(clock.now(), agents, gauges.waiting(tx), rates, sites, held)
    return SystemFigures(
        agents, _total((one.status, one.tasks) for one in counts),
        _total((one.status, one.jobs) for one in by_site), held, sites, rates,
        queues.share_summaries(tx), alerts.found(facts, values),
    )  # fmt: skip


def site_loads(tx: Connection) -> list[SiteLoad]:
    """Return all sites with their loads, by three statements."""
    return _sites(loads.sites(tx), overview.jobs_by_site(tx), loads.reached(tx, DAY_H))


def rates(tx: Connection, hours: int, site: str | None) -> list[HourlyJobs]:
    """Return the jobs that reached a status in each of the last hours with any, the oldest first,
    at all sites or at one."""
    return _rates(loads.reached(tx, hours, site))


def held_tasks(tx: Connection) -> list[HeldTasks]:
    """Return the live tasks by work queue, status and reason."""
    return [_held(one) for one in loads.tasks(tx, LIVE, ended=False)]


def flow(tx: Connection) -> list[QueueFlow]:
    """Return the cores of live jobs by share, work queue and site."""
    return loads.flow(tx)


def pilots_of(tx: Connection, site: str, limit: int) -> list[SitePilot]:
    """Return the pilots of a site that have not ended. NotFound: there is no such site."""
    found = loads.pilots(tx, site, limit)
    known = [] if found else [one.site for one in loads.sites(tx)]
    if not found and site not in known:
        hint = suggest(site, known, "`jedi site list` shows all.")
        raise NotFound(f"There is no site {site}. {hint}", code="no_site", site=site)
    return found


def _sites(
    facts: Sequence[loads.SiteFacts], jobs: Sequence[overview.SiteStatusJobs],
    reached: Sequence[ReachedJobs],
) -> list[SiteLoad]:  # fmt: skip
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
        SiteLoad(*one, (mine := by_site.get(one.site, {})), _of(mine, states.JOB_AT_SITE),
                 _of(mine, states.JOB_QUEUED), cores[one.site], ended.get(one.site, {}))
        for one in facts
    ]  # fmt: skip


def _of(jobs: Mapping[str, int], statuses: Iterable[str]) -> int:
    return sum(jobs.get(one, 0) for one in statuses)


def _rates(reached: Sequence[ReachedJobs]) -> list[HourlyJobs]:
    found: dict[datetime, dict[str, int]] = {}
    for one in reached:
        if one.hour is not None:
            found.setdefault(one.hour, {})[one.status] = one.jobs
    return [HourlyJobs(hour, jobs) for hour, jobs in sorted(found.items())]


def _held(one: loads.TaskCount) -> HeldTasks:
    hold = hold_of(one.status, one.reason)
    return HeldTasks(one.queue_name, one.status, one.reason, hold, HOLDS.get(hold, WORK_FOR_JOBS),
                     one.tasks, one.since)  # fmt: skip


def _total(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, n in counts:
        found[name] += n
    return dict(sorted(found.items()))
