"""A job in a person's hands: whose it is and where, its history, hold and release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

from jedi.core.pgi import LIVE
from jedi.taskbuffer import outbox
from jedi.taskbuffer.alljobs import all_jobs
from jedi.taskbuffer.engine import wake
from jedi.taskbuffer.jobs import lock_jobs

HOLDABLE = tuple(status for status, (state, _) in LIVE.items() if state == "Pre-processing")
"""Inputs come, or came, and no pilot has the job."""

_HOLDABLE = ", ".join(f"'{status}'" for status in HOLDABLE)
_TOLD = "pandaid, site, priority, pilot_id, kill_code, hold_kind, hold_reason, hold_since, " \
        "exit_code, error_code, error_diag, retention, purged_at"  # fmt: skip
_ONE = text(f"""
SELECT s.pandaid AS panda_id, s.originpandaid AS origin_panda_id, s.jeditaskid AS jedi_task_id,
  t.username AS user_name, s.attemptnr AS attempt_nr, s.status, s.pgi_state, s.pgi_substate,
  j.site, j.priority, j.pilot_id, j.kill_code, j.hold_kind, j.hold_reason, j.hold_since,
  j.exit_code, j.error_code, j.error_diag, j.retention, j.purged_at
FROM jedi_job_states s JOIN {all_jobs(_TOLD)} j USING (pandaid) JOIN jedi_tasks t USING (jeditaskid)
WHERE s.pandaid = ANY(CAST(:ids AS bigint[])) AND j.pandaid = ANY(CAST(:ids AS bigint[]))
ORDER BY s.pandaid
""")
_STEPS = text("""
SELECT modificationtime AS time, fromstatus AS from_status, status, agent, reason_code, reason
FROM jedi_jobs_statuslog WHERE pandaid = :id ORDER BY log_id
""")
_ALLOCATIONS = text("""
SELECT resource, allocated_at, released_at FROM jedi_job_allocations WHERE pandaid = :id
ORDER BY allocated_at, resource
""")
_NEWEST = text("""
SELECT pandaid, status FROM jedi_jobs WHERE username = :user ORDER BY pandaid DESC LIMIT :limit
""")
_LOG = """
l AS (
  INSERT INTO jedi_jobs_statuslog
    (pandaid, jeditaskid, fromstatus, status, agent, reason_code, reason)
  SELECT pandaid, jeditaskid, status, status, :agent, :code, :reason FROM u
)
"""
_HOLD = text(f"""
WITH u AS (
  UPDATE jedi_jobs
  SET hold_kind = 'user_request', hold_reason = :reason, hold_since = jedi_now()
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND status IN ({_HOLDABLE}) AND hold_kind IS NULL
  RETURNING pandaid, jeditaskid, status
), gone AS (
  DELETE FROM jedi_job_ready r USING u WHERE r.pandaid = u.pandaid
), {_LOG}
SELECT pandaid FROM u
""")
# Time-outs of its status begin anew.
_RELEASE = text(f"""
WITH u AS (
  UPDATE jedi_jobs
  SET hold_kind = NULL, hold_reason = NULL, hold_since = NULL, statechangetime = jedi_now()
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND hold_kind = 'user_request'
  RETURNING *
), came AS (
  INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s,
                              disk_mb)
  SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb
  FROM u WHERE status = 'activated'
), {_LOG}
SELECT pandaid FROM u
""")


def found(tx: Connection, panda_ids: Sequence[int]) -> list[Row[Any]]:
    """Jobs, archived ones too, with their owners and PGI states."""
    return list(tx.execute(_ONE, {"ids": list(panda_ids)}))


def steps(tx: Connection, panda_id: int) -> list[Row[Any]]:
    """Every status that a job had, holds and releases between them."""
    return list(tx.execute(_STEPS, {"id": panda_id}))


def allocations(tx: Connection, panda_id: int) -> list[Row[Any]]:
    """What a job holds or held: resource, allocated_at, released_at."""
    return list(tx.execute(_ALLOCATIONS, {"id": panda_id}))


def newest(tx: Connection, user_name: str, limit: int) -> list[Row[Any]]:
    """The newest jobs of a user that are not archived: pandaid, status."""
    return list(tx.execute(_NEWEST, {"user": user_name, "limit": limit}))


def hold(tx: Connection, panda_ids: Sequence[int], agent: str, reason: str) -> set[int]:
    """Keep jobs that no pilot has from pilots and from the mover; which. Others are left alone."""
    lock_jobs(tx, panda_ids)
    held = _told(tx, _HOLD, panda_ids, agent, "held", reason)
    outbox.tell_jobs(tx, sorted(held))
    return held


def release(tx: Connection, panda_ids: Sequence[int], agent: str, reason: str) -> set[int]:
    """End the holds of `hold`; of which jobs."""
    lock_jobs(tx, panda_ids)
    wake(tx, "job:activated", "job:assigned")
    return _told(tx, _RELEASE, panda_ids, agent, "released", reason)


def _told(
    tx: Connection,
    statement: TextClause,
    panda_ids: Sequence[int],
    agent: str,
    code: str,
    reason: str,
) -> set[int]:
    given = {"ids": list(panda_ids), "agent": agent, "code": code, "reason": reason}
    return set(tx.scalars(statement, given))
