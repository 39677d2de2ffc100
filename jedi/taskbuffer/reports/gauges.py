"""Figures for /metrics, from counters that are kept anyway: no statement counts rows of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.housekeeping.agents import AgentBeat
from jedi.taskbuffer.reports import overview

DECISIONS_MOST = 1_000
"""Decisions of brokers that one look reads."""


class JobCount(NamedTuple):
    """Jobs in a status: of a site, or (site None) of a work queue; an unknown queue has no name."""

    site: str | None
    queue_name: str | None
    status: str
    jobs: int


_JOBS = returns(JobCount)("""
SELECT s.site, q.queue_name, s.status, s.jobs FROM (
  SELECT site, workqueue, status, CAST(sum(jobs) AS bigint) AS jobs FROM
    (SELECT site, workqueue, status, jobs FROM job_stats UNION ALL
     SELECT site, workqueue, status, jobs FROM job_stats_delta) s
  GROUP BY GROUPING SETS ((site, status), (workqueue, status)) HAVING sum(jobs) <> 0) s
LEFT JOIN jedi_work_queue q ON q.queue_id = s.workqueue
ORDER BY s.site, q.queue_name, s.status
""")


class ReachedCount(NamedTuple):
    """Jobs that reached a status in the present hour."""

    status: str
    jobs: int


_REACHED = returns(ReachedCount)("""
SELECT status, CAST(sum(jobs) AS bigint) AS jobs FROM job_stats_hourly
WHERE hour = date_trunc('hour', jedi_now()) GROUP BY status ORDER BY status
""")


class WaitingCount(NamedTuple):
    """Rows that wait for an agent: commands, notices, changes of statistics; and the age of the
    oldest in seconds."""

    queue: str
    depth: int
    oldest_s: float


WAITING = returns(WaitingCount)("""
-- Rows that wait for an agent, by queue.
SELECT 'commands' AS queue, count(*) AS depth, coalesce(extract(epoch FROM
  jedi_now() - min(creationtime)), 0)::float8 AS oldest_s
FROM jedi_commands WHERE acknowledged_at IS NULL
UNION ALL
SELECT 'notices', count(*), coalesce(extract(epoch FROM jedi_now() - min(creationtime)), 0)::float8
FROM jedi_outbox WHERE sent_at IS NULL
UNION ALL
SELECT 'statistics', count(*),
  coalesce(extract(epoch FROM jedi_now() - min(modificationtime)), 0)::float8
FROM job_stats_delta
""")


class PilotCount(NamedTuple):
    """Pilots of a site that have not ended."""

    site: str
    status: str
    pilots: int


_PILOTS = returns(PilotCount)("""
SELECT site, status, count(*) AS pilots FROM jedi_pilots WHERE endtime IS NULL
GROUP BY site, status ORDER BY site, status
""")


class TransferCount(NamedTuple):
    """Files that wait for transfer on all links, by activity."""

    activity: str
    files: float


_TRANSFERS = returns(TransferCount)("""
SELECT key AS activity, coalesce(sum(value), 0)::float8 AS files FROM jedi_network_matrix
WHERE key IN ('production_queued', 'express_queued') GROUP BY key ORDER BY key
""")


class DecisionCount(NamedTuple):
    """Decisions of a broker in the last five minutes."""

    broker: str
    outcome: str
    decisions: int


_DECISIONS = returns(DecisionCount)("""
SELECT broker, outcome, count(*) AS decisions FROM (
  SELECT broker, outcome FROM jedi_broker_decisions
  WHERE creationtime > jedi_now() - interval '5 minutes' ORDER BY creationtime DESC LIMIT :most) d
GROUP BY broker, outcome ORDER BY broker, outcome
""")


class RejectionCount(NamedTuple):
    """Sites that decisions of the last five minutes refused for a reason."""

    code: str
    sites: int


_REJECTIONS = returns(RejectionCount)("""
SELECT code, count(*) AS sites FROM (
  SELECT decision_id FROM jedi_broker_decisions
  WHERE creationtime > jedi_now() - interval '5 minutes' ORDER BY creationtime DESC LIMIT :most) d
JOIN jedi_broker_reasons r USING (decision_id), unnest(r.codes) code
GROUP BY code ORDER BY code
""")


@dataclass(frozen=True, slots=True)
class Gauges:
    """The figures of one moment."""

    jobs: Sequence[JobCount]
    reached: Sequence[ReachedCount]
    tasks: Mapping[str, int]
    agents: Sequence[AgentBeat]
    waiting: Sequence[WaitingCount]
    pilots: Sequence[PilotCount]
    transfers: Sequence[TransferCount]
    decisions: Sequence[DecisionCount]
    rejections: Sequence[RejectionCount]


def load(tx: Connection) -> Gauges:
    """All figures, by nine statements."""
    newest = {"most": DECISIONS_MOST}
    return Gauges(
        _JOBS.rows(tx),
        _REACHED.rows(tx),
        dict(overview.TASKS_BY_STATUS.rows(tx)),
        agents.ALL_AGENTS.rows(tx),
        WAITING.rows(tx),
        _PILOTS.rows(tx),
        _TRANSFERS.rows(tx),
        _DECISIONS.rows(tx, **newest),
        _REJECTIONS.rows(tx, **newest),
    )
