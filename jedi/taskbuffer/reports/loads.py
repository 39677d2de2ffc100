"""Loads: jobs by hour, work queue and site, tasks by reason, sites with their pilots. All from
counters and from rows of live tasks: no statement reads jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, JOB_QUEUED, TASK_FINAL, listed
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.db.together import PartRow, Parts, together
from jedi.taskbuffer.reports import gauges, overview, refused

HOURLY = ("running", "finished", "failed", "closed", "cancelled")
"""The statuses of jobs that rates count: starts, and every kind of end."""


class ReachedJobs(NamedTuple):
    """Jobs that reached a status: in an hour (at all sites), or (hour None) at a site."""

    hour: datetime | None
    site: str | None
    status: str
    jobs: int


REACHED = returns(ReachedJobs)(f"""
-- The jobs that reached a status in the present hour and those before it, by hour, and by site.
SELECT hour, site, status, CAST(sum(jobs) AS bigint) AS jobs FROM job_stats_hourly
WHERE hour > date_trunc('hour', jedi_now()) - make_interval(hours => :hours)
  AND (CAST(:site AS text) IS NULL OR site = :site) AND status IN ({listed(HOURLY)})
GROUP BY GROUPING SETS ((hour, status), (site, status)) ORDER BY hour, site, status
""")


class SiteFacts(NamedTuple):
    """A site with its pilots that have not ended; `cores` of a slot; `trouble`: why the submitter
    waits before it sends more pilots."""

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


SITES = returns(SiteFacts)("""
-- All sites by name.
SELECT s.site, s.status, s.nslots, greatest(s.corecount, 1) AS cores, s.submitter,
  s.lastpilot, s.comment, coalesce(p.running, 0) AS pilots_running,
  coalesce(p.submitted, 0) AS pilots_submitted, m.value ->> 'reason' AS trouble
FROM jedi_sites s LEFT JOIN (
  SELECT site, count(*) FILTER (WHERE status = 'running') AS running,
    count(*) FILTER (WHERE status = 'submitted') AS submitted
  FROM jedi_pilots WHERE endtime IS NULL GROUP BY site) p USING (site)
  LEFT JOIN jedi_site_metrics m ON m.site = s.site AND m.gshare = '' AND m.metric = 'submitter'
ORDER BY s.site
""")


_PILOTS = """
SELECT pilot_id, status, engine, batch_id, resource_type, host, pid, creationtime
FROM jedi_pilots WHERE site = :site AND endtime IS NULL
ORDER BY creationtime DESC, pilot_id LIMIT :limit
"""


@dataclass(frozen=True, slots=True)
class SitePilot:
    """A pilot that has not ended: its engine and its id there, or its process; `resource_type`
    empty: it has a whole slot."""

    pilot_id: str
    status: str
    engine: str
    batch_id: str | None
    resource_type: str
    host: str
    pid: int | None
    creation_time: datetime


_PARTS = returns(PartRow)(
    together(
        {
            "facts": f"SELECT * FROM ({SITES.sql}) f WHERE site = :site",
            "jobs": f"SELECT * FROM ({overview.JOBS_BY_SITE.sql}) j WHERE site = :site",
            "reached": REACHED.sql,
            "pilots": _PILOTS,
            "read": refused.READ.sql,
            "refusals": refused.AT_SITE.sql,
        }
    )
)


def parts_of(tx: Connection, site: str, hours: int, most: int, limit: int) -> Parts:
    """The lists `facts` (SiteFacts), `jobs` (SiteStatusJobs), `reached` (ReachedJobs), `pilots`
    (SitePilot, at most `limit`), `read` (ReadDecisions, at most `most` decisions) and `refusals`
    (RefusalsAtSite) of a site."""
    values = {"site": site, "hours": hours, "most": most, "limit": limit}
    return Parts(_PARTS.rows(tx, **values))


@dataclass(frozen=True, slots=True)
class QueueFlow:
    """Cores of jobs of a share and a work queue (empty: none) at a site: those that run there, and
    those that wait for it."""

    share: str
    queue_name: str
    site: str
    cores_running: int
    cores_waiting: int


FLOW = returns(QueueFlow)(f"""
-- Cores of live jobs by share, work queue and site.
SELECT s.gshare AS share, coalesce(q.queue_name, '') AS queue_name, s.site,
  CAST(coalesce(sum(s.cores) FILTER (WHERE s.status IN ({JOB_AT_SITE})), 0) AS bigint)
    AS cores_running,
  CAST(coalesce(sum(s.cores) FILTER (WHERE s.status IN ({JOB_QUEUED})), 0) AS bigint)
    AS cores_waiting
FROM (SELECT site, workqueue, gshare, status, cores FROM job_stats UNION ALL
      SELECT site, workqueue, gshare, status, cores FROM job_stats_delta) s
  LEFT JOIN jedi_work_queue q ON q.queue_id = s.workqueue
WHERE s.status IN ({JOB_AT_SITE}, {JOB_QUEUED})
GROUP BY 1, 2, 3 HAVING sum(s.cores) <> 0 ORDER BY 1, 2, 3
""")


class TaskCount(NamedTuple):
    """Live tasks of a work queue (empty: none) in a status for a reason, and the time since when
    the first of them is in its status; of ended ones their number alone."""

    queue_name: str
    status: str
    reason: str
    tasks: int
    since: datetime | None


TASKS = returns(TaskCount)(f"""
-- Live tasks by work queue, status and reason, and ended ones by status if `ended`.
SELECT coalesce(q.queue_name, '') AS queue_name, t.status, coalesce(t.reason_code, '') AS reason,
  t.tasks, t.since
FROM (
  SELECT workqueue_id, status, reason_code, count(*) AS tasks, min(statechangetime) AS since
  FROM jedi_tasks WHERE status NOT IN ({TASK_FINAL}) GROUP BY workqueue_id, status, reason_code
  UNION ALL
  SELECT NULL, status, NULL, count(*), NULL FROM jedi_tasks WHERE :ended
    AND status IN ({TASK_FINAL}) GROUP BY status) t
  LEFT JOIN jedi_work_queue q ON q.queue_id = t.workqueue_id
ORDER BY t.status, t.tasks DESC, 1, 3
""")


_SYSTEM = returns(PartRow)(
    together(
        {
            "tasks": TASKS.sql,
            "jobs": overview.JOBS_BY_SITE.sql,
            "reached": REACHED.sql,
            "facts": SITES.sql,
            "waiting": gauges.WAITING.sql,
        }
    )
)


def of_system(tx: Connection, hours: int) -> Parts:
    """The lists `tasks` (TaskCount, also ended ones by status), `jobs` (SiteStatusJobs), `reached`
    (ReachedJobs), `facts` (SiteFacts) and `waiting` (WaitingCount)."""
    return Parts(_SYSTEM.rows(tx, **{"ended": True, "hours": hours, "site": None}))
