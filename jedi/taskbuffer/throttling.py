"""What the throttler compares: jobs by work queue and resource type, and the most urgent work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from jedi.taskbuffer.turns import WANTS_JOBS, WORKING

_LOADS = """
SELECT workqueue AS queue_id, resource_type,
  coalesce(sum(jobs) FILTER (WHERE status = 'running'), 0)::bigint AS running,
  coalesce(sum(jobs) FILTER (WHERE status IN
    ('assigned', 'activated', 'sent', 'starting')), 0)::bigint AS not_running,
  coalesce(sum(jobs) FILTER (WHERE status IN ('pending', 'defined')), 0)::bigint AS defined,
  coalesce(sum(jobs) FILTER (WHERE status = 'waiting'), 0)::bigint AS waiting
FROM (
  SELECT workqueue, resource_type, status, jobs FROM job_stats
  UNION ALL SELECT workqueue, resource_type, status, jobs FROM job_stats_delta) s
GROUP BY workqueue, resource_type
"""


def loads(tx: Connection) -> list[Row[Any]]:
    """Live jobs of each work queue and resource type."""
    return list(tx.execute(text(_LOADS)))


_URGENT = f"""
SELECT q.queue_id, w.priority AS waiting, j.priority AS queued, j.jobs
FROM jedi_work_queue q LEFT JOIN (
  SELECT workqueue_id, max(currentpriority) AS priority FROM jedi_tasks t
  WHERE status IN ({WORKING}) AND workqueue_id = ANY(CAST(:ids AS int[])) AND {WANTS_JOBS}
  GROUP BY workqueue_id) w ON w.workqueue_id = q.queue_id LEFT JOIN (
  SELECT DISTINCT ON (gshare) gshare, priority, count(*) AS jobs FROM jedi_job_ready
  GROUP BY gshare, priority ORDER BY gshare, priority DESC) j ON j.gshare = q.queue_name
WHERE q.queue_id = ANY(CAST(:ids AS int[]))
"""


def urgent(tx: Connection, queue_ids: Sequence[int]) -> list[Row[Any]]:
    """The highest priority of tasks that want jobs and of activated jobs, with how many of these
    there are, in work queues. All activated jobs are read."""
    return list(tx.execute(text(_URGENT), {"ids": list(queue_ids)}))
