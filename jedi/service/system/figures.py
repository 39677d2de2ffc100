"""Figures of the whole system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from jedi.core import clock, states
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.queues.held import HeldTasks, held
from jedi.service.queues.order import ShareSummary, find_shares
from jedi.service.sites.loads import DAY_H, HourlyJobs, SiteLoad, by_hour, by_site
from jedi.service.system import alerts
from jedi.service.system.alerts import Alert
from jedi.service.system.status import AgentStatus, agent_states
from jedi.taskbuffer.reports import loads
from jedi.taskbuffer.reports.gauges import WaitingCount
from jedi.taskbuffer.reports.loads import ReachedJobs, SiteFacts, TaskCount
from jedi.taskbuffer.reports.overview import SiteStatusJobs


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


@operation("system.figures", "GET", "/v1/figures", ANYBODY)
def show(call: Call) -> SystemFigures:
    """Show the whole system in figures: agents, tasks and jobs, sites, rates, shares, alerts.

    Four statements read them.
    """
    agents = agent_states(call.tx, call.knobs)
    read = loads.of_system(call.tx, DAY_H)
    counts, jobs = read.rows("tasks", TaskCount), read.rows("jobs", SiteStatusJobs)
    reached = read.rows("reached", ReachedJobs)
    sites = by_site(read.rows("facts", SiteFacts), jobs, reached)
    waits = [held(one) for one in counts if one.status not in states.TASK.final]
    rates = by_hour(reached)
    waiting = read.rows("waiting", WaitingCount)
    facts = alerts.Facts(clock.now(), agents, waiting, rates, sites, waits)
    return SystemFigures(
        agents,
        _total((one.status, one.tasks) for one in counts),
        _total((one.status, one.jobs) for one in jobs),
        waits,
        sites,
        rates,
        find_shares(call),
        alerts.found(facts, call.knobs),
    )


def _total(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, n in counts:
        found[name] += n
    return dict(sorted(found.items()))
