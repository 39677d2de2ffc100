"""jedi_queue_shares: what work queues use and what they may, as the last run of the shares found.

Usage is charged to the queue whose name the jobs have as their share, else to their task's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, JOB_MAKING_TYPES, JOB_QUEUED
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.scheduling.task_order import WORKING
from jedi.taskbuffer.schema.dataset_rules import LISTED

JOBS = f"""
jobs AS (
  SELECT coalesce(named.queue_id, s.workqueue) AS queue_id,
    coalesce(sum(cores) FILTER (WHERE s.status IN ({JOB_AT_SITE})), 0) AS running,
    coalesce(sum(cores) FILTER (WHERE s.status IN ({JOB_QUEUED})), 0) AS queued
  FROM (
    SELECT workqueue, gshare, status, cores FROM job_stats
    UNION ALL SELECT workqueue, gshare, status, cores FROM job_stats_delta) s
    LEFT JOIN jedi_work_queue named ON named.queue_name = s.gshare
  WHERE s.status IN ({JOB_AT_SITE}, {JOB_QUEUED})
  GROUP BY 1
)"""
"""A CTE of the cores of each work queue."""
SHARE = "CASE WHEN q.queue_share < 0 THEN 0 ELSE q.queue_share END"
"""The share of a work queue `q`."""


class QueueUse(NamedTuple):
    """Cores that an active work queue uses and demands."""

    queue_id: int
    partitionid: int | None
    stretchable: int | None
    queue_share: int
    active: bool
    usage: float
    demand: float


READ = returns(QueueUse)(f"""
-- The use of active queues, in cores: their jobs at sites; their demand: queued jobs too, and, with
-- `files`, a core for each input file that waits for a job.
WITH {JOBS}, tasks AS (
  SELECT workqueue_id AS queue_id, count(*) AS tasks, sum(f.files) AS files
  FROM jedi_tasks t, LATERAL (
    SELECT coalesce(sum(greatest(0, nfilestobeused - nfilesused - nfilesmissing)), 0) AS files
    FROM jedi_datasets d WHERE :files AND d.jeditaskid = t.jeditaskid AND d.masterid IS NULL
      AND d.type IN ({JOB_MAKING_TYPES}) AND {LISTED}) f
  WHERE t.status IN ({WORKING}) GROUP BY 1
)
SELECT q.queue_id, q.partitionid, q.stretchable,
  {SHARE} AS queue_share,
  coalesce(t.tasks, 0) > 0 OR coalesce(j.running + j.queued, 0) > 0 AS active,
  CAST(coalesce(j.running, 0) AS float8) AS usage,
  CAST(coalesce(j.running + j.queued, 0) + coalesce(t.files, 0) AS float8) AS demand
FROM jedi_work_queue q LEFT JOIN jobs j USING (queue_id) LEFT JOIN tasks t USING (queue_id)
WHERE q.status = 'active' ORDER BY q.queue_order NULLS LAST, q.queue_id
""")


ANY_DUE = returns(bool)(f"""
-- Return True if a queue has tasks or jobs, or had some at the last run, which is older than a
-- minute otherwise: queues may have changed.
SELECT EXISTS (SELECT FROM jedi_queue_shares WHERE active)
  OR EXISTS (SELECT FROM jedi_tasks WHERE status IN ({WORKING}))
  OR EXISTS (SELECT FROM job_stats WHERE status IN ({JOB_AT_SITE}, {JOB_QUEUED}))
  OR EXISTS (SELECT FROM job_stats_delta)
  OR NOT EXISTS (SELECT FROM jedi_queue_shares WHERE computed_at > jedi_now() - interval '60 s')
""")


_PUT = changes("""
WITH r AS (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(queue_id int, active bool,
    entitlement float8, allocation float8, usage float8, demand float8, ratio float8, place int,
    turn int)
), gone AS (
  DELETE FROM jedi_queue_shares WHERE queue_id NOT IN (SELECT queue_id FROM r)
)
INSERT INTO jedi_queue_shares (queue_id, active, entitlement, allocation, usage, demand, ratio,
  place, turn, computed_at)
SELECT r.*, jedi_now() FROM r
ON CONFLICT (queue_id) DO UPDATE SET active = excluded.active, entitlement = excluded.entitlement,
  allocation = excluded.allocation, usage = excluded.usage, demand = excluded.demand,
  ratio = excluded.ratio, place = excluded.place, turn = excluded.turn,
  computed_at = excluded.computed_at
""")


def put(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep what a run of the shares found in place of the last one. An endless ratio (use of what
    is not allocated) is kept as NULL beside an allocation."""
    _PUT.run(tx, rows=json.dumps([dict(row) for row in rows]))


class QueueShare(NamedTuple):
    """A work queue as the last run of the shares found it; `place`: its order."""

    queue_name: str
    partitionid: int | None
    queue_share: int | None
    stretchable: int | None
    queue_id: int
    active: bool
    entitlement: float | None
    allocation: float | None
    usage: float | None
    demand: float | None
    ratio: float | None
    place: int
    turn: int
    computed_at: datetime


LAST = returns(QueueShare)("""
-- The result of the last run, in the order in which queues are served.
SELECT q.queue_name, q.partitionid, q.queue_share, q.stretchable, s.queue_id, s.active,
  s.entitlement, s.allocation, s.usage, s.demand, s.ratio,
  s.place, s.turn, s.computed_at
FROM jedi_queue_shares s JOIN jedi_work_queue q USING (queue_id)
ORDER BY s.place, q.queue_order NULLS LAST, q.queue_id
""")
