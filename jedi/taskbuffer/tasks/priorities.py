"""Change of the priority of a task and of its queued jobs."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_QUEUED
from jedi.taskbuffer.db.statement import returns

_TASK = returns(int)("""
WITH old AS (
  SELECT jeditaskid, currentpriority FROM jedi_tasks WHERE jeditaskid = :task FOR NO KEY UPDATE
), u AS (
  UPDATE jedi_tasks t SET taskpriority = :priority, currentpriority = :priority
  FROM old WHERE t.jeditaskid = old.jeditaskid
  RETURNING t.jeditaskid, t.status, t.attemptnr, old.currentpriority AS before
), l AS (
  INSERT INTO jedi_tasks_statuslog
    (jeditaskid, fromstatus, status, agent, reason_code, reason, attemptnr, username)
  SELECT jeditaskid, status, status, 'jedi-task', 'priority_set',
    'Its priority was ' || coalesce(CAST(before AS text), 'none') || ' and is ' || :priority || '.',
    attemptnr, :user
  FROM u
)
SELECT coalesce(before, :priority) FROM u
""")
# Jobs keep their order among each other. One that is being handed out at this moment is left alone.
_JOBS = returns(int)(f"""
WITH old AS (
  SELECT pandaid FROM jedi_jobs
  WHERE jeditaskid = :task AND postprocessed_at IS NULL AND status IN ({JOB_QUEUED})
    AND kind IN ('normal', 'scout')
  ORDER BY pandaid FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE jedi_jobs j SET priority =
    CASE kind WHEN 'scout' THEN greatest(:scouts, j.priority + :more) ELSE j.priority + :more END
  FROM old WHERE j.pandaid = old.pandaid RETURNING j.pandaid, j.priority
), r AS (
  UPDATE jedi_job_ready r SET priority = u.priority FROM u WHERE r.pandaid = u.pandaid
)
SELECT count(*) FROM u
""")
SCOUTS = 901
"""Scouts have this priority at least. Source:
docs/reference/throttler-and-shares.md#priority."""


def put(tx: Connection, jedi_task_id: int, priority: int, user_name: str) -> int:
    """Give a task a priority, and change that of its queued jobs as much; how many. The log of the
    task says who did it."""
    values = {"task": jedi_task_id, "priority": priority, "user": user_name}
    before: int = _TASK.value(tx, **values)
    jobs = {"task": jedi_task_id, "more": priority - before, "scouts": SCOUTS}
    return int(_JOBS.value(tx, **jobs))
