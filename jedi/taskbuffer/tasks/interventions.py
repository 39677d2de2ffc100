"""Searches of dogs for active tasks that must pause, stop or hurry, and for tasks that have reached
their goal. Every search is bounded; tasks that somebody holds are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, TASK_FINAL
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.all_jobs import all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks.tasks import UNCLAIMED

_JOBS = all_jobs("jeditaskid, status, attemptnr, n_inputs, postprocessed_at")

# ---------------------------------------------------------------------------------- throttling


class TaskDueForThrottling(NamedTuple):
    """A task to throttle for the `n`-th time; `most`: the highest attempt of its jobs, of those
    that count."""

    jedi_task_id: int
    most: int
    n: int


# A mean of so many failures needs a job of as many attempts: jobs are fewer than files.
_DUE_FOR_THROTTLING = returns(TaskDueForThrottling)(f"""
SELECT t.jeditaskid, j.most,
  CASE WHEN :by_mean THEN coalesce(t.numthrottled, 0) + 1 ELSE j.most / :every END AS n
FROM (
    SELECT c.jeditaskid AS id, max(c.attemptnr - c.freeattempt) AS most
    FROM jedi_job_files f JOIN jedi_dataset_contents c USING (fileid)
    WHERE f.pandaid = ANY(CAST(:jobs AS bigint[])) AND f.type IN ({MASTER_TYPES})
    GROUP BY c.jeditaskid) j
  JOIN jedi_tasks t ON t.jeditaskid = j.id JOIN jedi_taskparams p USING (jeditaskid)
WHERE t.status IN ('ready', 'scouting', 'running')
  AND j.most / :every > coalesce(t.numthrottled, 0)
  AND NOT coalesce(CAST(p.taskparams ->> 'noThrottle' AS bool), false)
  AND (NOT :by_mean OR (
    SELECT avg(coalesce(failedattempt, 0)) FROM jedi_dataset_contents c
    WHERE c.jeditaskid = t.jeditaskid AND c.type IN ({MASTER_TYPES})
      AND c.status IN ('ready', 'running')
  ) >= :every * (coalesce(t.numthrottled, 0) + 1))
ORDER BY t.jeditaskid
""")


def due_for_throttling(
    tx: Connection, panda_ids: Sequence[int], every: int, by_mean: bool
) -> list[TaskDueForThrottling]:
    """The tasks that have reached another multiple of `every` attempts that count: of one of these
    jobs, or with `by_mean` of failures of the remaining files. The caller has locked the tasks, and
    made these jobs of them now."""
    values = {"jobs": list(panda_ids), "every": every, "by_mean": by_mean}
    if not panda_ids:
        return []
    return _DUE_FOR_THROTTLING.rows(tx, **values)


_NOTE_THROTTLED = changes("""
UPDATE jedi_tasks t SET throttledtime = jedi_now(), numthrottled = r.n
FROM unnest(CAST(:ids AS bigint[]), CAST(:times AS int[])) r(id, n)
WHERE t.jeditaskid = r.id
""")


def note_throttled(tx: Connection, times: Mapping[int, int]) -> None:
    """Tasks were throttled for the n-th time."""
    if not times:
        return
    _NOTE_THROTTLED.run(tx, ids=list(times), times=list(times.values()))


THROTTLED_UNTIL = """
CASE WHEN t.status = 'throttled'
  THEN t.throttledtime + make_interval(secs => :unit_s * t.numthrottled ^ 2) END
"""
"""SQL: until when a task `t` makes no jobs; binds `unit_s`, which may have changed meanwhile."""


class ThrottledTask(NamedTuple):
    """A task that was throttled long enough, and its status before."""

    jedi_task_id: int
    lock_seq: int
    old_status: str


THROTTLE_ENDED = returns(ThrottledTask)(f"""
-- Tasks that were throttled for `unit_s` x the square of how often they were.
SELECT t.jeditaskid, t.lock_seq, t.oldstatus FROM jedi_tasks t
WHERE t.status = 'throttled' AND t.{UNCLAIMED} AND {THROTTLED_UNTIL} < jedi_now()
ORDER BY t.jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


# ----------------------------------------------------------------------------- enough, too long


class LongExhaustedTask(NamedTuple):
    """An exhausted task that nobody cared about."""

    jedi_task_id: int
    lock_seq: int
    error_dialog: str | None


LONG_EXHAUSTED = returns(LongExhaustedTask)(f"""
-- Tasks that nobody cared about for that long since they were exhausted, but for those that forbid
-- it.
SELECT t.jeditaskid, t.lock_seq, t.errordialog FROM jedi_tasks t
WHERE t.status = 'exhausted' AND t.{UNCLAIMED}
  AND t.statechangetime < jedi_now() - make_interval(secs => :timeout_s)
  AND NOT coalesce(CAST(t.rules ->> 'disable_auto_finish' AS bool), false)
ORDER BY t.jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


# Events count where they are known. A goal only saves further attempts: files that never failed are
# worked on. A termination condition is about them, too.
_FINISH_AT_GOAL = changes(f"""
WITH enough AS (
  SELECT t.jeditaskid, t.goal / 10.0 AS goal, t.termcondition,
    100.0 * d.files_done / nullif(d.files, 0) AS of_files,
    100.0 * d.events_done / nullif(d.events, 0) AS of_events
  FROM jedi_tasks t, LATERAL (
    SELECT sum(nfiles) AS files, sum(nfilesfinished) AS files_done, sum(nevents) AS events,
      sum(neventsused) AS events_done
    FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER} OFFSET 0) d
  WHERE t.status IN ('ready', 'running', 'throttled', 'pending')
    AND (t.goal IS NOT NULL OR t.termcondition IS NOT NULL)
    AND NOT EXISTS (SELECT FROM jedi_commands c
      WHERE c.jeditaskid = t.jeditaskid AND c.acknowledged_at IS NULL)
), met AS (
  SELECT jeditaskid, 'The goal of ' || trim_scale(e.goal) || ' % is reached.' AS comment
  FROM enough e JOIN jedi_tasks t USING (jeditaskid)
  WHERE coalesce(of_events, of_files) >= e.goal
    AND NOT coalesce(CAST(t.rules ->> 'disable_auto_finish' AS bool), false)
    AND NOT EXISTS (SELECT FROM jedi_datasets d JOIN jedi_dataset_contents c USING (datasetid)
      WHERE d.jeditaskid = e.jeditaskid AND {LISTED_MASTER}
        AND c.ready AND coalesce(c.failedattempt, 0) = 0)
    AND NOT EXISTS (SELECT FROM jedi_tasks p WHERE p.jeditaskid = t.parent_tid
      AND p.jeditaskid <> t.jeditaskid AND p.status NOT IN ({TASK_FINAL}))
  UNION ALL
  SELECT jeditaskid, 'It was to end with ' || termcondition || '.' FROM enough
  WHERE CASE WHEN termcondition LIKE '%events' THEN of_events ELSE of_files END
    >= CAST(split_part(termcondition, '%', 1) AS numeric)
)
INSERT INTO jedi_commands (jeditaskid, command, arguments, username, comment)
SELECT jeditaskid, 'finish', jsonb_build_object('soft', true), :who, min(comment)
FROM met GROUP BY jeditaskid ORDER BY jeditaskid LIMIT :limit
""")


def finish_at_goal(tx: Connection, who: str, limit: int) -> int:
    """Ask those tasks to finish softly that have reached their goal, or their condition to end; how
    many."""
    finished = _FINISH_AT_GOAL.run(tx, who=who, limit=limit)
    if finished:
        wake(tx, "command")
    return finished


# ------------------------------------------------------------------------- failing, nearly done

_WORK = f"""
LATERAL (
  SELECT count(*) FILTER (WHERE j.postprocessed_at IS NULL) AS live, avg(j.n_inputs) AS per_job,
    count(*) FILTER (WHERE j.status = 'failed') AS failed,
    count(*) FILTER (WHERE j.status IN ('finished', 'failed')) AS ended
  FROM {_JOBS} j WHERE j.jeditaskid = t.jeditaskid OFFSET 0) j,
LATERAL (
  SELECT sum(nfiles - nfilesused - nfilesmissing) AS unused
  FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER} OFFSET 0) d,
LATERAL (SELECT j.live + ceil(d.unused / greatest(j.per_job, 1)) AS to_do) w
"""


class FailingTask(NamedTuple):
    """A task whose jobs fail: failed and ended ones, and how many are to do."""

    jedi_task_id: int
    lock_seq: int
    failed: int
    ended: int
    to_do: int


_FAILING = returns(FailingTask)(f"""
SELECT t.jeditaskid, t.lock_seq, j.failed, j.ended, CAST(w.to_do AS int) AS to_do
FROM jedi_tasks t, {_WORK}
WHERE t.status = 'running' AND t.failurerate > 0 AND t.{UNCLAIMED}
  AND NOT coalesce(CAST(t.rules ->> 'no_auto_pause' AS bool), false)
  AND 100 * j.failed >= :percent * j.ended AND j.ended >= :ended AND w.to_do >= :to_do
  AND NOT EXISTS (SELECT FROM jedi_tasks_statuslog l WHERE l.jeditaskid = t.jeditaskid
    AND l.attemptnr = t.attemptnr AND l.status = 'paused' AND l.reason_code = :code)
ORDER BY t.jeditaskid LIMIT :limit FOR NO KEY UPDATE OF t SKIP LOCKED
""")


def failing(
    tx: Connection, percent: float, ended: int, to_do: int, code: str, limit: int
) -> list[FailingTask]:
    """Tasks of which so many percent of at least so many ended jobs have failed and that have so
    many to do, but for those that were paused for it (`code`) in this attempt already."""
    found = {"percent": percent, "ended": ended, "to_do": to_do, "code": code, "limit": limit}
    return _FAILING.rows(tx, **found)


# Datasets first: few tasks are nearly done, and the jobs of a task are many. OFFSET 0 lets jobs be
# looked up by task: a hash read all of them.
NEARLY_DONE = returns(int)(f"""
-- Tasks with one of these labels of which so many percent of the files have finished or failed and
-- fewer than so many jobs are left, that lack this priority or share, or have jobs that do:
-- somebody held these.
WITH most AS MATERIALIZED (
  SELECT t.jeditaskid FROM jedi_tasks t, LATERAL (
    SELECT sum(nfiles) AS files, sum(nfilesfinished + nfilesfailed) AS ended
    FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER} OFFSET 0) f
  WHERE t.status = 'running' AND t.prodsourcelabel = ANY(:labels)
    AND 100 * f.ended >= :percent * f.files
)
SELECT t.jeditaskid FROM most JOIN jedi_tasks t USING (jeditaskid), {_WORK}
WHERE t.status = 'running' AND t.{UNCLAIMED}
  AND (t.gshare IS DISTINCT FROM :share OR t.currentpriority < :priority
    OR EXISTS (SELECT FROM jedi_jobs j WHERE j.jeditaskid = t.jeditaskid
      AND j.postprocessed_at IS NULL AND (j.gshare <> :share OR j.priority < :priority) OFFSET 0))
  AND w.to_do < :to_do
  AND NOT EXISTS (SELECT FROM jedi_tasks p WHERE p.jeditaskid = t.parent_tid
    AND p.jeditaskid <> t.jeditaskid AND p.status NOT IN ('done', 'finished'))
ORDER BY t.jeditaskid LIMIT :limit FOR NO KEY UPDATE OF t SKIP LOCKED
""")


_BOOST = changes("""
UPDATE jedi_tasks SET gshare = :share, currentpriority = greatest(currentpriority, :priority)
WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
""")
_BOOST_JOBS = changes("""
WITH old AS (
  SELECT pandaid, gshare FROM jedi_jobs
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND postprocessed_at IS NULL
    AND (gshare IS DISTINCT FROM :share OR priority < :priority)  -- else each round writes all
  ORDER BY pandaid FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE jedi_jobs j SET gshare = :share, priority = greatest(j.priority, :priority)
  FROM old WHERE j.pandaid = old.pandaid
  RETURNING j.pandaid, j.site, j.workqueue_id, old.gshare AS before, j.gshare, j.resource_type,
    j.status, j.cores, j.priority
), r AS (
  UPDATE jedi_job_ready r SET gshare = u.gshare, priority = u.priority
  FROM u WHERE r.pandaid = u.pandaid
)
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT site, workqueue_id, s.gshare, resource_type, status, sum(s.n), sum(s.n * cores)
FROM u, LATERAL (VALUES (u.gshare, 1), (u.before, -1)) s(gshare, n) WHERE u.gshare <> u.before
GROUP BY site, workqueue_id, s.gshare, resource_type, status
""")


def boost(tx: Connection, task_ids: Sequence[int], priority: int, share: str) -> None:
    """Raise the priority of tasks (which the transaction holds) and of their live jobs, and give
    them another share."""
    values = {"ids": list(task_ids), "priority": priority, "share": share}
    _BOOST.run(tx, **values)
    _BOOST_JOBS.run(tx, **values)
