"""State of the system: its agents, tasks, jobs and sites."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jedi.agent.registry import AGENTS
from jedi.core.knobs import Knobs
from jedi.core.settings import Settings
from jedi.host import processes
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.reports import change_marks, overview
from jedi.taskbuffer.reports.change_marks import ChangeMarks
from jedi.taskbuffer.sites import sites

_LATELY = 3
"""A process counts as alive if it has missed at most this many heartbeats."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent: its processes with recent heartbeats, and the latest heartbeat of any. Dead
    processes of this host do not count. Without any, it may be `asleep`: its supervisor looks for
    its work. It is healthy if the latest heartbeat is no older than a
    lease. A long cycle has no heartbeat, but an agent that is silent for a lease has lost its work
    to others.
    """

    agent: str
    healthy: bool
    asleep: bool
    processes: int
    age_s: float | None
    rss_kb: int
    items: int
    last_error: str | None
    heartbeat_at: datetime | None


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site with its jobs by status."""

    site: str
    status: str
    n_slots: int
    jobs: dict[str, int]


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """The whole system as the database knows it."""

    agents: list[AgentStatus]
    tasks: dict[str, int]
    jobs: dict[str, int]
    sites: list[SiteStatus]

    @property
    def healthy(self) -> bool:
        """Return True if every agent is healthy."""
        return all(agent.healthy for agent in self.agents)


@dataclass(frozen=True, slots=True)
class SystemOverview:
    """The system: `healthy` if every agent is; `draining`: pilots get no more jobs. Tasks and jobs
    are counted by status."""

    healthy: bool
    draining: bool
    agents: list[AgentStatus]
    tasks: dict[str, int]
    jobs: dict[str, int]
    sites: list[SiteStatus]


def system(tx: Connection) -> SystemStatus:
    """Return the state of the system, by a handful of statements."""
    jobs: Counter[str] = Counter()
    at_site: dict[str, dict[str, int]] = {}
    for row in overview.JOBS_BY_SITE.rows(tx):
        jobs[row.status] += row.jobs
        at_site.setdefault(row.site, {})[row.status] = row.jobs
    return SystemStatus(
        agent_states(tx, knobs.load(tx)),
        dict(overview.TASKS_BY_STATUS.rows(tx)),
        dict(jobs),
        [
            SiteStatus(row["site"], row["status"], row["nslots"], at_site.get(row["site"], {}))
            for row in sites.ALL_SITES.rows(tx)
        ],
    )


@operation("system.status", "GET", "/v1/status", ANYBODY)
def show(call: Call) -> SystemOverview:
    """Show agents, tasks, jobs and sites."""
    found = system(call.tx)
    draining = Settings(call.home.path, None).draining.exists()
    return SystemOverview(
        found.healthy, draining, found.agents, found.tasks, found.jobs, found.sites
    )


@operation("system.changes", "GET", "/v1/changes", ANYBODY)
def changes(call: Call) -> ChangeMarks:
    """Show a number for each kind of change, which grows with the changes of that kind."""
    return change_marks.change_marks(call.tx)


def agent_states(tx: Connection, values: Knobs) -> list[AgentStatus]:
    """Return the state of each agent."""
    beats: dict[str, list[Any]] = {name: [] for name in AGENTS}
    for row in agents.ALL_AGENTS.rows(tx):
        beats.setdefault(row.agent, []).append(row)
    return [_agent(name, rows, values) for name, rows in beats.items()]


def _agent(name: str, rows: list[Any], values: Knobs) -> AgentStatus:
    rows = sorted(rows, key=lambda row: row.age_s)
    lately_s = _LATELY * values.agent.heartbeat_s
    present = [
        row for row in rows if row.age_s <= lately_s and not processes.dead_here(row.process)
    ]
    working = [row for row in present if row.rss_kb is not None]
    return AgentStatus(
        name,
        bool(rows) and rows[0].age_s <= values.agent.lease_s,
        bool(present) and not working,
        len(working),
        rows[0].age_s if rows else None,
        sum(row.rss_kb or 0 for row in present),
        sum(row.items for row in present),
        next((row.last_error for row in present or rows if row.last_error), None),
        rows[0].heartbeat_at if rows else None,
    )
