"""The order in which tasks get jobs.

Shares come first (urgent work before all, then who has used least of its allocation), then
priority (scouts a step above), then age. Where a work queue has no share users take turns, a task
each, after tasks that jump over others. Source: JEDI document, "Shares" and
"Fairshare"; docs/reference/throttler-and-shares.md#order-of-service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.jobs.retry_rules import FOR_TASKS
from jedi.model.scheduling.priority import JUMP
from jedi.model.tasks.refined import EXPRESS
from jedi.taskbuffer.db.sql_lists import JOB_MAKING_TYPES, listed
from jedi.taskbuffer.db.statement import returns

WORKING = "'ready', 'scouting', 'running', 'topreprocess', 'preprocessing'"
PRIORITY = "(currentpriority + CAST(status = 'scouting' AS integer))"
_OWNER = "coalesce(username, '')"
TURN = f"CASE WHEN s.gshare = '{EXPRESS}' THEN -1 ELSE coalesce(q.{{column}}, 0) END"
"""The order of shares `s` joined with jedi_queue_shares `q`; unknown ones come with those that
have used nothing."""
OWN_SHARE = f"""
CASE WHEN t.processingtype = 'urgent' THEN '{EXPRESS}' ELSE coalesce(
  (SELECT taskparams ->> 'gshare' FROM jedi_taskparams p WHERE p.jeditaskid = t.jeditaskid),
  (SELECT queue_name FROM jedi_work_queue q WHERE q.queue_id = t.workqueue_id), t.gshare) END
"""
"""The share that a task `t` came with, whatever it was boosted to."""

HAS_FILES = f"""
(d.masterid IS NULL AND d.type IN ({JOB_MAKING_TYPES}) AND d.status IN ('ready', 'running')
  AND d.nfilestobeused > d.nfilesused + d.nfilesmissing)
"""
"""A dataset `d` has files for jobs."""
# A value, not EXISTS: that would be a join with the datasets of all tasks, also of those that are
# far from their turn.
WANTS_JOBS = f"""
coalesce((SELECT true FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {HAS_FILES}
  LIMIT 1), false)
"""
OPEN_RULES = f"""
jedi_retry_matches m JOIN jedi_retry_rules r USING (rule_id)
WHERE m.jeditaskid = t.jeditaskid AND m.settled_at IS NULL
  AND r.action IN ({listed(FOR_TASKS)})
"""
"""The retry rules that are to change a task `t` before its next jobs are made."""
_SETTLED = f"NOT coalesce((SELECT true FROM {OPEN_RULES} LIMIT 1), false)"
_ALLOWED = """
NOT EXISTS (SELECT FROM unnest(CAST(:queues AS int[]), CAST(:types AS text[]),
    CAST(:least AS int[])) x(queue, type, least)
  WHERE x.queue = t.workqueue_id AND (x.type IS NULL OR x.type = t.resource_type)
    AND (x.least IS NULL OR t.currentpriority < x.least))
"""
_FREE = "(lease_until IS NULL OR lease_until < clock_timestamp())"  # leases live in real time
_DUE = "(next_run_at IS NULL OR next_run_at <= jedi_now())"
READY = f"{_FREE} AND {_DUE}"
"""Nobody has the task, and it is not put off."""

# Shares are found by walking the index, since there are few of them. Turn after turn their first
# tasks are looked at, of each share so many that others may take the first ones meanwhile; once
# there are enough, those whose turn is later can't come first. Users are found in the same way.
_FIRST = f"""
WITH RECURSIVE shares AS (
  (SELECT gshare FROM jedi_tasks WHERE status IN ({WORKING}) AND gshare IS NOT NULL
   ORDER BY gshare LIMIT 1)
  UNION ALL
  SELECT n.gshare FROM shares s, LATERAL (
    SELECT gshare FROM jedi_tasks
    WHERE status IN ({WORKING}) AND gshare > s.gshare ORDER BY gshare LIMIT 1) n
), known AS (
  SELECT s.gshare, q.ratio, q.queue_id IS NOT NULL AND q.allocation IS NOT NULL AS shared,
    q.allocation IS NULL AND s.gshare <> '{EXPRESS}' AS by_user,
    {TURN.format(column="turn")} AS turn
  FROM shares s LEFT JOIN jedi_work_queue w ON w.queue_name = s.gshare
    LEFT JOIN jedi_queue_shares q ON q.queue_id = w.queue_id
), users AS (
  SELECT k.gshare, u.owner FROM known k, LATERAL (
    SELECT {_OWNER} AS owner FROM jedi_tasks
    WHERE status IN ({WORKING}) AND gshare = k.gshare ORDER BY gshare, 1 LIMIT 1) u
  WHERE k.by_user
  UNION ALL
  SELECT u.gshare, n.owner FROM users u, LATERAL (
    SELECT {_OWNER} AS owner FROM jedi_tasks
    WHERE status IN ({WORKING}) AND gshare = u.gshare AND {_OWNER} > u.owner
    ORDER BY gshare, 1 LIMIT 1) n
), owners AS (
  SELECT *, count(*) OVER (PARTITION BY gshare) AS n FROM users
), turns AS (
  SELECT *, dense_rank() OVER (ORDER BY turn) AS place FROM known
), walk AS (
  SELECT CAST(0 AS bigint) AS place, CAST('{{{{}}}}' AS bigint[]) AS ids, 0 AS so_far
  UNION ALL
  SELECT w.place + 1, f.ids, w.so_far + cardinality(f.ids)
  FROM walk w, LATERAL (
    SELECT coalesce(array_agg(c.jeditaskid), '{{{{}}}}') AS ids FROM turns s, LATERAL (
      (SELECT jeditaskid FROM jedi_tasks t
       WHERE NOT s.by_user AND status IN ({WORKING}) AND t.gshare = s.gshare AND {{condition}}
       ORDER BY {PRIORITY} DESC, jeditaskid LIMIT 3 * :limit / 2)
      UNION ALL
      SELECT i.jeditaskid FROM owners o, LATERAL (
        SELECT jeditaskid FROM jedi_tasks t
        WHERE status IN ({WORKING}) AND t.gshare = o.gshare AND {_OWNER} = o.owner AND {{condition}}
        ORDER BY {PRIORITY} DESC, jeditaskid LIMIT greatest(5, 3 * :limit / 2 / o.n)) i
      WHERE s.by_user AND o.gshare = s.gshare) c
    WHERE s.place = w.place + 1) f
  WHERE w.so_far < 2 * :limit AND w.place < (SELECT max(place) FROM turns)
), best AS (
  SELECT t.jeditaskid, {PRIORITY} AS priority, s.gshare, s.turn, s.ratio, s.shared,
    CASE WHEN s.by_user AND {PRIORITY} < {JUMP} THEN row_number() OVER (
      PARTITION BY s.gshare, {_OWNER}, {PRIORITY} < {JUMP} ORDER BY {PRIORITY} DESC, t.jeditaskid)
    ELSE 0 END AS round
  FROM walk w, unnest(w.ids) i(id) JOIN jedi_tasks t ON t.jeditaskid = i.id
    JOIN turns s ON s.gshare = t.gshare
  ORDER BY s.turn, round, priority DESC, t.jeditaskid LIMIT 2 * :limit
)
"""
NEXT = f"""
{_FIRST.format(condition=f"{_FREE} AND {_DUE} AND {_ALLOWED} AND {_SETTLED} AND {WANTS_JOBS}")}
SELECT t.jeditaskid FROM best f JOIN jedi_tasks t USING (jeditaskid)
WHERE t.status IN ({WORKING}) AND {_FREE} AND {_DUE}
ORDER BY f.turn, f.round, f.priority DESC, t.jeditaskid LIMIT :limit FOR UPDATE OF t SKIP LOCKED
"""
"""Tasks that want jobs, those first whose turn it is; binds as `Stopped.values()`, and :limit."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Tasks of a work queue (and resource type, None: all) that get no jobs now, unless they have
    the priority `least` (None: however urgent)."""

    queue_id: int
    resource_type: str | None
    least: int | None


def values(stopped: Sequence[Stopped]) -> dict[str, list[Any]]:
    """Return the values that NEXT binds."""
    return {
        "queues": [one.queue_id for one in stopped],
        "types": [one.resource_type for one in stopped],
        "least": [one.least for one in stopped],
    }


class TaskInTurn(NamedTuple):
    """A task that wants jobs, in its place of the order."""

    jedi_task_id: int
    task_name: str
    user_name: str
    status: str
    gshare: str
    turn: int
    ratio: float | None
    shared: bool
    priority: int
    stopped: bool
    next_run_at: datetime | None


_LIST = returns(TaskInTurn)(f"""
{_FIRST.format(condition=WANTS_JOBS)}
SELECT t.jeditaskid, t.taskname, t.username, t.status,
  f.gshare, f.turn, f.ratio, f.shared, f.priority, NOT {_ALLOWED} AS stopped, t.next_run_at
FROM best f JOIN jedi_tasks t USING (jeditaskid)
ORDER BY f.turn, f.round, f.priority DESC, t.jeditaskid LIMIT :limit
""")


def in_order(tx: Connection, limit: int, stopped: Sequence[Stopped]) -> list[TaskInTurn]:
    """Tasks that want jobs, in the order in which they get them, also those that are put off or
    being served at this moment, with what the order comes from."""
    return _LIST.rows(tx, **values(stopped), limit=limit)
