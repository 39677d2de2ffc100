"""Searches of the WatchDog's dogs. Every search is bounded, and what it finds is locked to the end
of the transaction; rows that somebody is writing to are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import FILE_TYPES, JOB_LIVE, TASK_FINAL
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events import kept_ranges
from jedi.taskbuffer.tasks import tasks


class KillerTask(NamedTuple):
    """A task whose workers died, and the last of them."""

    jedi_task_id: int
    lock_seq: int
    status: str
    locked_by: str | None
    worker_deaths: int


CLAIM_KILLERS = returns(KillerTask)(f"""
-- Take tasks whose workers died `max_deaths` times in a row from their present holders.
UPDATE jedi_tasks t SET lock_seq = lock_seq + 1 WHERE jeditaskid = ANY(ARRAY(
  SELECT jeditaskid FROM jedi_tasks
  -- real time: leases live in it
  WHERE lockedby IS NOT NULL
    AND worker_deaths + CAST(lease_until < clock_timestamp() AND {tasks.DIED} AS int) >= :max_deaths
  ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED))
RETURNING jeditaskid, lock_seq, status, lockedby, worker_deaths
""")


ANY_CLAIMED = returns(bool)("""
-- Return True if a process works on a task, or died of it.
SELECT EXISTS (SELECT FROM jedi_tasks WHERE lockedby IS NOT NULL)
""")


RELEASE_STALE = changes(f"""
-- Take leases that ran out from their tasks, and count the dead workers, who write nothing any more
-- (`DIED`); how many.
UPDATE jedi_tasks SET lockedby = NULL, lockedtime = NULL, lease_until = NULL,
  lock_seq = lock_seq + 1, worker_deaths = worker_deaths + CAST({tasks.DIED} AS int),
  rescuetime = jedi_now()
WHERE jeditaskid = ANY(ARRAY(
  SELECT jeditaskid FROM jedi_tasks
  -- real time: leases live in it
  WHERE lockedby IS NOT NULL AND lease_until < clock_timestamp()
  ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED))
""")


_TOO_LONG = """
coalesce(frozentime, statechangetime) < jedi_now() - make_interval(secs => :timeout_s)"""


class HeldTask(NamedTuple):
    """A pending task to try again, or one, pending or without a nucleus, to give up (`too_long`);
    `held_s`: time on hold for this
    reason; `soon`: its holder set the time of the next try."""

    jedi_task_id: int
    lock_seq: int
    status: str
    old_status: str
    reason_code: str | None
    error_dialog: str | None
    state_change_time: datetime
    soon: bool
    held_s: float
    too_long: bool


ON_HOLD = returns(HeldTask)(f"""
-- Pending tasks to try again, at the time that their holder set or `retry_s` later, and tasks to
-- give up (`too_long`): pending ones, and those that wait for a nucleus.
SELECT jeditaskid, lock_seq, status, oldstatus, reason_code,
  errordialog, statechangetime,
  next_run_at IS NOT NULL AS soon,
  CAST(extract(epoch FROM jedi_now() - statechangetime) AS float8) AS held_s,
  {_TOO_LONG} AS too_long
FROM jedi_tasks
WHERE status IN ('pending', 'assigning') AND {tasks.UNCLAIMED}
  AND ({_TOO_LONG} OR status = 'pending'
    AND coalesce(next_run_at, statechangetime + make_interval(secs => :retry_s)) < jedi_now())
ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


class LiveAttempt(NamedTuple):
    """A live job and its present attempt."""

    panda_id: int
    lock_seq: int


_LIVING = returns(LiveAttempt)(f"""
SELECT j.pandaid, j.lock_seq FROM jedi_jobs j
  JOIN unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[])) a(id, seq)
  ON j.pandaid = a.id AND j.lock_seq = a.seq WHERE j.status IN ({JOB_LIVE})
""")


def living(tx: Connection, attempts: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The attempts (panda_id, lock_seq) that are the present ones of live jobs."""
    pairs = list(attempts)
    wanted = {"ids": [p[0] for p in pairs], "seqs": [p[1] for p in pairs]}
    return {*_LIVING.rows(tx, **wanted)}


_STAY = changes("""
SELECT FROM jedi_tasks WHERE jeditaskid = ANY(CAST(:tasks AS bigint[])) ORDER BY jeditaskid
FOR SHARE
""")


class OpenJobSet(NamedTuple):
    """A job set that has not ended; 0: those of a task."""

    jedi_task_id: int
    jobset_id: int


# Looked up one by one: a plan for all would read every job set, or every range.
_OPEN_SETS = returns(OpenJobSet)(f"""
SELECT w.task AS jedi_task_id, w.jobset AS jobset_id
FROM unnest(CAST(:tasks AS bigint[]), CAST(:jobsets AS bigint[])) w(task, jobset), LATERAL (
  SELECT status NOT IN ({TASK_FINAL}) AS lives, ({kept_ranges.KEEPING}) IS TRUE AS keeps
  FROM jedi_tasks t WHERE t.jeditaskid = w.task OFFSET 0) t
WHERE t.lives AND w.jobset = 0
  OR w.jobset = 0 AND EXISTS (SELECT FROM jedi_consumers c
    WHERE c.jeditaskid = w.task AND c.jobsetid IS NULL AND c.settled_at IS NULL OFFSET 0)
  OR t.lives AND EXISTS (SELECT FROM jedi_jobsets s
    WHERE s.jobsetid = w.jobset AND s.jeditaskid = w.task
      AND (s.ended_at IS NULL OR t.keeps AND EXISTS (
        SELECT FROM jedi_consumers c JOIN jedi_events e USING (jeditaskid, pandaid)
        WHERE c.jobsetid = s.jobsetid AND e.ziprow_id IS NOT NULL
          AND e.status = {states.EVENT_CODES["done"]} OFFSET 0)) OFFSET 0)
""")


def open_sets(tx: Connection, jobsets: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The job sets among these (jedi_task_id, jobset_id) that have not ended, or whose zip files
    wait to be merged in others; 0 stands for several, as long as the task lives or the pilot of a
    jumbo job may report more. Ranges that are done in none of them are discarded."""
    pairs = list(jobsets)
    wanted = {"tasks": [p[0] for p in pairs], "jobsets": [p[1] for p in pairs]}
    _STAY.run(tx, **wanted)  # nobody retries an ended task while its ranges are discarded
    found = {*_OPEN_SETS.rows(tx, **wanted)}
    kept_ranges.discard(tx, [pair for pair in pairs if pair not in found])
    return {*found}


class AwaitingJob(NamedTuple):
    """An assigned job and its inputs: lists of dataset, LFN and the endpoint where it is to be
    (None: there is none)."""

    panda_id: int
    lock_seq: int
    inputs: Any


AWAITING_INPUTS = returns(AwaitingJob)(f"""
-- Assigned jobs of a priority above this, with ids above `after`, and their inputs.
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
