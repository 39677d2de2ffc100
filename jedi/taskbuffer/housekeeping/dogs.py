"""Searches of the WatchDog's dogs. Every search is bounded, and what it finds is locked to the end
of the transaction; rows that somebody is writing to are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, text

from jedi.taskbuffer.db.sql_lists import FILE_TYPES, JOB_LIVE
from jedi.taskbuffer.tasks import tasks

_KILLERS = text("""
UPDATE jedi_tasks t SET lock_seq = lock_seq + 1 WHERE jeditaskid = ANY(ARRAY(
  SELECT jeditaskid FROM jedi_tasks
  -- real time: leases live in it
  WHERE lockedby IS NOT NULL
    AND worker_deaths + CAST(lease_until < clock_timestamp() AS int) >= :max_deaths
  ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED))
RETURNING jeditaskid, lock_seq, status, lockedby, worker_deaths
""")


def claim_killers(tx: Connection, max_deaths: int, limit: int) -> list[Row[Any]]:
    """Take tasks whose workers died `max_deaths` times in a row from whoever has them now:
    jeditaskid, lock_seq, status, lockedby, worker_deaths."""
    return list(tx.execute(_KILLERS, {"max_deaths": max_deaths, "limit": limit}))


_RELEASE = text("""
UPDATE jedi_tasks SET lockedby = NULL, lockedtime = NULL, lease_until = NULL,
  lock_seq = lock_seq + 1, worker_deaths = worker_deaths + 1, rescuetime = jedi_now()
WHERE jeditaskid = ANY(ARRAY(
  SELECT jeditaskid FROM jedi_tasks
  -- real time: leases live in it
  WHERE lockedby IS NOT NULL AND lease_until < clock_timestamp()
  ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED))
""")


def release_stale(tx: Connection, limit: int) -> int:
    """Take leases that ran out from their tasks, and count the dead workers, who write nothing any
    more; how many."""
    return tx.execute(_RELEASE, {"limit": limit}).rowcount


_ON_HOLD = text(f"""
SELECT jeditaskid, lock_seq, oldstatus, reason_code, errordialog, statechangetime,
  next_run_at IS NOT NULL AS soon,
  CAST(extract(epoch FROM jedi_now() - statechangetime) AS float8) AS held_s,
  frozentime < jedi_now() - make_interval(secs => :timeout_s) AS too_long
FROM jedi_tasks
WHERE status = 'pending' AND {tasks.UNCLAIMED}
  AND (coalesce(next_run_at, statechangetime + make_interval(secs => :retry_s)) < jedi_now()
       OR frozentime < jedi_now() - make_interval(secs => :timeout_s))
ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


def on_hold(tx: Connection, retry_s: float, timeout_s: float, limit: int) -> list[Row[Any]]:
    """Pending tasks to try again, when whoever held them said or `retry_s` later, or (`too_long`)
    to give up: jeditaskid, lock_seq, oldstatus, reason_code, errordialog, statechangetime,
    too_long; `held_s`: how long for this reason; `soon`: their holder said when."""
    found = {"retry_s": retry_s, "timeout_s": timeout_s, "limit": limit}
    return list(tx.execute(_ON_HOLD, found))


_LIVING = text(f"""
SELECT j.pandaid, j.lock_seq FROM jedi_jobs j
  JOIN unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[])) a(id, seq)
  ON j.pandaid = a.id AND j.lock_seq = a.seq WHERE j.status IN ({JOB_LIVE})
""")


def living(tx: Connection, attempts: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of the attempts (pandaid, lock_seq) that are their job's present one and go on."""
    pairs = list(attempts)
    rows = tx.execute(_LIVING, {"ids": [p[0] for p in pairs], "seqs": [p[1] for p in pairs]})
    return {(row.pandaid, row.lock_seq) for row in rows}


_AWAITING = text(f"""
SELECT j.pandaid, j.lock_seq, (
  SELECT jsonb_agg(jsonb_build_array(d.datasetname, f.lfn, f.endpoint))
  FROM jedi_job_files f JOIN jedi_datasets d USING (datasetid, jeditaskid)
  WHERE f.pandaid = j.pandaid AND f.type IN ({FILE_TYPES})
    AND (f.endpoint IS NOT NULL OR f.type <> 'trn_log')) AS inputs
FROM jedi_jobs j
WHERE j.moving AND j.status = 'assigned' AND j.priority > :above
  AND j.pandaid > :after
ORDER BY j.pandaid LIMIT :limit
""")


def awaiting_inputs(tx: Connection, above: int, after: int, limit: int) -> list[Row[Any]]:
    """Assigned jobs of a priority above this, with ids above `after`: pandaid, lock_seq, inputs
    (lists of dataset, LFN and the endpoint where it is to be; None: there is none)."""
    return list(tx.execute(_AWAITING, {"above": above, "after": after, "limit": limit}))
