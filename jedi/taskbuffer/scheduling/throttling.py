"""Input of the throttler: jobs by work queue and resource type, and the most urgent work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.scheduling.task_order import WANTS_JOBS, WORKING


class QueueLoad(NamedTuple):
    """Live jobs of a work queue and resource type."""

    queue_id: int
    resource_type: str
    running: int
    not_running: int
    defined: int
    waiting: int


# Places that a standby site keeps for a share and resource type: catchall.num_slots_map, by names.
# A number of slots stands for jobs that run; with 0 what is starting there counts as running.
LOADS = returns(QueueLoad)("""
-- Live jobs of each work queue and resource type, with the slots that standby sites keep.
WITH slots AS (
  SELECT s.site, q.queue_id, t.key AS resource_type, CAST(t.value AS bigint) AS n
  FROM jedi_sites s, jsonb_each(CASE jsonb_typeof(s.catchall -> 'num_slots_map')
      WHEN 'object' THEN s.catchall -> 'num_slots_map' ELSE '{}' END) m
    JOIN jedi_work_queue q ON q.queue_name = m.key,
    jsonb_each_text(CASE jsonb_typeof(m.value) WHEN 'object' THEN m.value ELSE '{}' END) t
  WHERE s.status = 'standby' AND t.value ~ '^[0-9]{1,9}$'
)
SELECT workqueue AS queue_id, resource_type,
  coalesce(sum(jobs) FILTER (WHERE status = 'running'), 0)::bigint AS running,
  coalesce(sum(jobs) FILTER (WHERE status IN
    ('assigned', 'activated', 'sent', 'starting')), 0)::bigint AS not_running,
  coalesce(sum(jobs) FILTER (WHERE status IN ('pending', 'defined')), 0)::bigint AS defined,
  coalesce(sum(jobs) FILTER (WHERE status = 'waiting'), 0)::bigint AS waiting
FROM (
  SELECT j.workqueue, j.resource_type, j.jobs,
    CASE WHEN o.n = 0 AND j.status = 'starting' THEN 'running' ELSE j.status END AS status
  FROM (
    SELECT site, workqueue, resource_type, status, jobs FROM job_stats
    UNION ALL SELECT site, workqueue, resource_type, status, jobs FROM job_stats_delta) j
    LEFT JOIN slots o ON (o.site, o.queue_id, o.resource_type)
      = (j.site, j.workqueue, j.resource_type)
  UNION ALL SELECT queue_id, resource_type, n, 'running' FROM slots WHERE n > 0
  -- the waiting job of a job set is no work beside that of its consumers
  UNION ALL SELECT j.workqueue_id, j.resource_type, -1, j.status
  FROM jedi_jobsets t JOIN jedi_jobs j ON j.pandaid = t.merge_pandaid
  WHERE t.ended_at IS NULL AND j.status = 'waiting') s
GROUP BY workqueue, resource_type
""")


_COMING = ("pending", "defined", "assigned", "sent", "starting")
"""Queued jobs (as _LOADS counts them) that do not wait for a pilot."""


class UrgentQueue(NamedTuple):
    """The highest priority of tasks of a work queue that want jobs (`waiting`), of its activated
    jobs (`queued`) with their number, and of jobs on their way (`coming`)."""

    queue_id: int
    waiting: int | None
    queued: int | None
    jobs: int | None
    coming: int | None


_URGENT = returns(UrgentQueue)(f"""
SELECT q.queue_id, w.priority AS waiting, j.priority AS queued, j.jobs, c.priority AS coming
FROM jedi_work_queue q LEFT JOIN (
  SELECT workqueue_id, max(currentpriority) AS priority FROM jedi_tasks t
  WHERE status IN ({WORKING}) AND workqueue_id = ANY(CAST(:ids AS int[])) AND {WANTS_JOBS}
  GROUP BY workqueue_id) w ON w.workqueue_id = q.queue_id LEFT JOIN (
  SELECT DISTINCT ON (gshare) gshare, priority, count(*) AS jobs FROM jedi_job_ready
  GROUP BY gshare, priority ORDER BY gshare, priority DESC) j ON j.gshare = q.queue_name LEFT JOIN (
  SELECT j.workqueue_id, max(j.priority) AS priority
  FROM jedi_tasks t JOIN jedi_jobs j USING (jeditaskid)
  WHERE t.workqueue_id = ANY(CAST(:capped AS int[])) AND t.status <> ALL(CAST(:over AS text[]))
    AND j.postprocessed_at IS NULL AND j.status = ANY(CAST(:coming AS text[]))
    AND j.kind <> 'merge'
  GROUP BY j.workqueue_id) c ON c.workqueue_id = q.queue_id
WHERE q.queue_id = ANY(CAST(:ids AS int[]))
""")


class QueueWalltime(NamedTuple):
    """The walltime of queued jobs of a work queue and resource type; None: no one's is known."""

    queue_id: int
    resource_type: str
    seconds: float | None


_WORK = returns(QueueWalltime)("""
SELECT workqueue_id AS queue_id, resource_type,
  sum(walltime_s) * count(*) / nullif(count(*) FILTER (WHERE walltime_s > 0), 0)::float8 AS seconds
FROM jedi_jobs
WHERE status = ANY(:queued) AND kind <> 'es_merge' AND workqueue_id = ANY(CAST(:ids AS int[]))
GROUP BY workqueue_id, resource_type
""")


def urgency(
    tx: Connection, queue_ids: Sequence[int], capped: Sequence[int] = (), *, timed: bool
) -> tuple[list[UrgentQueue], list[QueueWalltime]]:
    """Read the urgency of work queues, and their walltime if `timed`.

    The urgency holds the highest priority of tasks that want jobs and of activated jobs, with their
    number; it reads all activated jobs. For `capped` queues it also holds that of jobs that are not
    activated yet, or start, without merges. The walltime is that of queued jobs by resource type.
    Jobs of unknown walltime count like the others (NULL: all are unknown); it reads all live jobs.
    """
    found = {
        "ids": list(queue_ids),
        "capped": list(capped),
        "coming": list(_COMING),
        "over": sorted(states.TASK.final),
    }
    urgent = _URGENT.rows(tx, **found)
    if not timed:
        return urgent, []
    asked = {"ids": list(queue_ids), "queued": list(states.JOB_QUEUED)}
    return urgent, _WORK.rows(tx, **asked)
