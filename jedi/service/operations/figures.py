"""Operations on figures of the whole system: rates, loads, refusals, alerts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jedi.service import loads, refused
from jedi.service.load_rows import HeldTasks, HourlyJobs, SiteLoad
from jedi.service.operations.arguments import NameText, TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports.loads import QueueFlow

Hours = Annotated[int, Field(ge=1, le=24 * 90)]


@operation("system.figures", "GET", "/v1/figures", ANYBODY)
def show(call: Call) -> loads.SystemFigures:
    """Show the whole system in figures: agents, tasks and jobs, sites, rates, shares, alerts."""
    return loads.figures(call.tx)


@operation("system.rates", "GET", "/v1/rates", ANYBODY)
def rates(call: Call, hours: Hours = 24, site: NameText | None = None) -> list[HourlyJobs]:
    """List the jobs that started and ended in each of the last hours, at all sites or at one."""
    return loads.rates(call.tx, hours, site)


@operation("site.loads", "GET", "/v1/site-loads", ANYBODY)
def site_loads(call: Call) -> list[SiteLoad]:
    """List the sites with their slots, pilots, jobs by status, and ends of jobs in 24 hours."""
    return loads.site_loads(call.tx)


@operation("site.figures", "GET", "/v1/sites/{site}/figures", ANYBODY)
def site_figures(call: Call, site: NameText) -> loads.SiteFigures:
    """Show a site in figures: jobs, rates, pilots with their batch ids, refusals by brokers."""
    return loads.site_figures(call.tx, site)


@operation("site.refusals", "GET", "/v1/refusals", ANYBODY)
def refusals(call: Call, site: NameText | None = None, hours: Hours = 24) -> refused.RefusalReport:
    """Count the refusals of sites by brokers' criteria in the newest decisions of some hours;
    `site`: of one site, with figures of the latest."""
    return refused.report(call.tx, site, hours)


@operation("queue.tasks", "GET", "/v1/queues/tasks", ANYBODY)
def tasks(call: Call) -> list[HeldTasks]:
    """Count the live tasks by work queue, status and reason, with what holds them."""
    return loads.held_tasks(call.tx)


@operation("queue.flow", "GET", "/v1/queues/flow", ANYBODY)
def flow(call: Call) -> list[QueueFlow]:
    """Count the cores of live jobs by share, work queue and site."""
    return loads.flow(call.tx)


@operation("decision.sites", "GET", "/v1/decisions/{decision_id}/sites", ANYBODY)
def sites(call: Call, decision_id: TaskId) -> refused.DecisionRecord:
    """Show a decision site by site: weights of the chosen ones, every reason against the others."""
    return refused.record(call.tx, decision_id)
