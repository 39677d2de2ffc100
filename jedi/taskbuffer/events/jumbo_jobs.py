"""Jumbo jobs: consumers that process ranges of any job set of their task.

A jumbo job is made like a consumer of the first job set that has work, and then gets the inputs of
all of them. It takes ranges of the job sets that were there before it, by their numbers.
Source: docs/reference/event-service.md#jumbo-jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.events import WAITING_CO_JUMBO, NewConsumer
from jedi.taskbuffer.db.sql_lists import INPUT_TYPES, JOB_FINAL, JOB_QUEUED
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events import consumer_ends, job_sets
from jedi.taskbuffer.events.consumer_ends import FREE, IN_WORK, REPORTED
from jedi.taskbuffer.jobs.jobs import LOCK_JOBS
from jedi.taskbuffer.sites.sites import READ_PLACE, WRITE_PLACE

_CODE = states.EVENT_CODES
_FINISHED, _DONE, _FAILED = (_CODE[name] for name in ("finished", "done", "failed"))

# ------------------------------------------------------------------------------- new ones

_LOCK_TASKS = returns(int)("""
SELECT jeditaskid FROM jedi_tasks t
WHERE t.eventservice = 1 AND t.rules ? 'n_jumbo_jobs' AND coalesce(t.site, '') = ''
  AND t.status IN ('ready', 'pending', 'scouting', 'running', 'throttled')
ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED
""")


class JumboLack(NamedTuple):
    """A task with jumbo jobs that has ranges to process: its first job set with some, its release,
    the numbers of jumbo jobs that it may have, the sites of the living ones, what a consumer of
    this job set asks, the events that are ready (or more than were asked for), and how many of the
    last jumbo jobs since this job set failed or processed nothing."""

    jedi_task_id: int
    jobset_id: int
    release: str
    most: int
    per_site: int
    living: list[str]
    cores: int
    memory_mb: int
    events: int
    idle: int


# A jumbo job that processed something has finished.
_LACKING = returns(JumboLack)("""
SELECT t.jeditaskid, f.jobsetid,
  coalesce(nullif(t.transhome, ''), t.transuses, '') AS release,
  CAST(t.rules ->> 'n_jumbo_jobs' AS int) AS most,
  coalesce(CAST(t.rules ->> 'max_jumbo_per_site' AS int), 1) AS per_site,
  ARRAY(SELECT coalesce(j.site, '') FROM jedi_consumers c LEFT JOIN jedi_jobs j USING (pandaid)
    WHERE c.jeditaskid = t.jeditaskid AND c.jobsetid IS NULL AND c.settled_at IS NULL) AS living,
  s.cores, s.memory_mb, CAST((SELECT coalesce(sum(n), 0) FROM (
    SELECT e.def_max_eventid - e.def_min_eventid + 1 AS n FROM jedi_events e
    WHERE e.ready AND e.attemptnr > 0 AND e.jeditaskid = t.jeditaskid
    LIMIT :most_events) e) AS bigint) AS events,
  (SELECT count(*) FROM (
    SELECT bool_or(j.status = 'finished') OVER (ORDER BY c.pandaid DESC) AS since,
      j.status = 'failed' OR j.substatus = 'es_noevent' AS tried
    FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
    WHERE c.jeditaskid = t.jeditaskid AND c.jobsetid IS NULL AND c.settled_at IS NOT NULL
      AND c.pandaid > f.jobsetid) c  -- those before it could not take its ranges
   WHERE c.tried AND NOT c.since) AS idle
FROM jedi_tasks t, LATERAL (
  SELECT e.jobsetid FROM jedi_events e
  WHERE e.ready AND e.attemptnr > 0 AND e.jeditaskid = t.jeditaskid
  ORDER BY e.jobsetid, e.fileid, e.job_processid LIMIT 1) f JOIN jedi_jobsets s USING (jobsetid)
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[])) AND t.rules ? 'n_jumbo_jobs'
  AND coalesce(t.site, '') = '' ORDER BY t.jeditaskid
""")


def lock_lacking(tx: Connection, most_events: int) -> list[JumboLack]:
    """Tasks that may lack jumbo jobs; they are locked, so that nobody else adds some."""
    return lacking(tx, _LOCK_TASKS.rows(tx), most_events)


def lacking(tx: Connection, task_ids: Sequence[int], most_events: int) -> list[JumboLack]:
    """The tasks among these that have ranges for jumbo jobs; up to so many events are counted."""
    values = {"ids": list(task_ids), "most_events": most_events}
    return _LACKING.rows(tx, **values) if task_ids else []


class LeftSite(NamedTuple):
    """A site where no pilot took a jumbo job of a task."""

    jedi_task_id: int
    site: str


NOT_TAKEN = returns(LeftSite)("""
-- The sites where no pilot took jumbo jobs of these tasks.
SELECT DISTINCT j.jeditaskid, j.site
FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
WHERE c.jeditaskid = ANY(CAST(:ids AS bigint[])) AND c.jobsetid IS NULL
  AND j.error_code = 'not_taken'
""")


_READS = "x.site = m.site AND x.roles LIKE '%read%' AND x.ddm_endpoint ="


class SetSite(NamedTuple):
    """A site, and a job set whose pieces can be merged with those of the site."""

    jobset_id: int
    site: str


_MERGEABLE = returns(SetSite)(f"""
SELECT s.jobsetid, n.site
FROM jedi_jobsets s JOIN jedi_jobs j ON j.pandaid = s.merge_pandaid,
  unnest(CAST(:sites AS text[])) n(site),
  LATERAL (SELECT coalesce(s.sites ->> 0, j.site) AS site) p
WHERE s.jobsetid = ANY(CAST(:ids AS bigint[]))
  AND (n.site = p.site OR p.site = '{WAITING_CO_JUMBO}' OR EXISTS (
  SELECT FROM jedi_sites m WHERE m.status = 'online'
    AND EXISTS (SELECT FROM jedi_site_endpoints x
                WHERE {_READS} {WRITE_PLACE.format(site="n.site")})
    AND EXISTS (SELECT FROM jedi_site_endpoints x
                WHERE {_READS} {WRITE_PLACE.format(site="p.site")})))
""")


def mergeable(tx: Connection, jobset_ids: Sequence[int], sites: Sequence[str]) -> set[SetSite]:
    """Pairs of these job sets and sites where a third site reads the pieces of both: those of the
    job set's own site, and those of a jumbo job at the other one."""
    values = {"ids": list(jobset_ids), "sites": list(sites)}
    return set(_MERGEABLE.rows(tx, **values))


_N = "unnest(CAST(:ids AS bigint[])) n(id)"
_STAGE = changes(f"""
WITH f AS (
  SELECT DISTINCT ON (n.id, f.lfn) n.id, f.fileid, f.jeditaskid, f.datasetid, f.type, f.lfn,
    f.source_name, {READ_PLACE.format(site="j.site", endpoint="f.endpoint")}, f.fsize, f.checksum,
    f.guid, f.n_events
  FROM {_N}  -- each by its key: hash joins read all jobs, and the files of all
    CROSS JOIN LATERAL (SELECT * FROM jedi_jobs WHERE pandaid = n.id OFFSET 0) j
    CROSS JOIN LATERAL (SELECT * FROM jedi_jobsets WHERE jeditaskid = j.jeditaskid
      AND ended_at IS NULL AND jobsetid < n.id OFFSET 0) s
    CROSS JOIN LATERAL (
      SELECT * FROM jedi_job_files
      WHERE pandaid = s.merge_pandaid AND type IN ({INPUT_TYPES}) OFFSET 0) f
  WHERE (n.id, f.lfn) NOT IN (  -- a hash of their files
    SELECT pandaid, lfn FROM jedi_job_files WHERE pandaid = ANY(CAST(:ids AS bigint[])))
  ORDER BY n.id, f.lfn, s.jobsetid
), new AS (
  INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
    endpoint, fsize, checksum, guid, n_events)
  SELECT * FROM f
)
UPDATE jedi_jobs j SET walltime_s = q.maxtime, n_inputs = coalesce(j.n_inputs, 0) + g.files,
  n_events = coalesce(j.n_events, 0) + g.events,
  disk_mb = CASE WHEN j.disk_mb > 0 THEN j.disk_mb + g.mb ELSE 0 END
FROM {_N} LEFT JOIN LATERAL (SELECT count(*) AS files, coalesce(sum(f.n_events), 0) AS events,
    CAST(ceil(coalesce(sum(f.fsize), 0) / 1048576.0) AS int) AS mb FROM f WHERE f.id = n.id) g
    ON true, jedi_sites q
WHERE j.pandaid = ANY(CAST(:ids AS bigint[])) AND j.pandaid = n.id AND q.site = j.site
""")
_IN_USE = changes("""
UPDATE jedi_tasks t SET usejumbo = 'Y' FROM jedi_jobs j
WHERE j.pandaid = ANY(CAST(:ids AS bigint[])) AND t.jeditaskid = j.jeditaskid
  AND t.usejumbo IS NULL
""")


def add_jumbos(tx: Connection, wanted: Sequence[NewConsumer], agent: str) -> list[int]:
    """Add jumbo jobs at sites, each with the command of a job set, and the inputs of all open job
    sets of its task. Return their numbers."""
    ids = [one.panda_id for one in job_sets.add_consumers(tx, wanted, agent)]
    if ids:
        _STAGE.run(tx, ids=ids)
        _IN_USE.run(tx, ids=ids)
    return ids


# ------------------------------------------------------------------------------- their ends

DUE = returns(int)(f"""
-- Jumbo jobs that have ended, or whose pilots are through, but for those of `not_yet`.
SELECT c.pandaid FROM jedi_consumers c LEFT JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid IS NULL AND c.settled_at IS NULL
  AND (coalesce(j.status, 'closed') IN ({JOB_FINAL}) OR {REPORTED})
  AND c.pandaid <> ALL(CAST(:not_yet AS bigint[]))
ORDER BY c.pandaid LIMIT :limit
""")


_LOCK_SETS = changes(f"""
WITH e AS (
  SELECT e.jobsetid, bool_or(e.status <> {_FINISHED}) AS back
  FROM jedi_consumers c JOIN jedi_events e USING (jeditaskid, pandaid)
  WHERE c.pandaid = ANY(CAST(:ids AS bigint[]))
    AND e.status IN ({_CODE["sent"]}, {_CODE["running"]}, {_FINISHED}, {_FAILED})
  GROUP BY e.jobsetid
), s AS (
  SELECT s.jobsetid FROM jedi_jobsets s JOIN e USING (jobsetid)
  WHERE e.back OR s.next_look_at IS NOT NULL ORDER BY s.jobsetid FOR NO KEY UPDATE OF s
)
UPDATE jedi_jobsets t SET next_look_at = jedi_now()
FROM s WHERE t.jobsetid = s.jobsetid AND t.ended_at IS NULL
""")
_LOCK_ALL = changes("""
SELECT FROM jedi_jobsets WHERE jobsetid = ANY(CAST(:sets AS bigint[])) OR jobsetid IN (
  SELECT e.jobsetid FROM jedi_consumers c JOIN jedi_events e USING (jeditaskid, pandaid)
  WHERE c.pandaid = ANY(CAST(:ids AS bigint[])))
ORDER BY jobsetid FOR NO KEY UPDATE
""")


class EndedJumbo(NamedTuple):
    """A jumbo job whose end is not booked, with its task's rules, as those of a locked job set."""

    panda_id: int
    jedi_task_id: int
    status: str
    pilot_result: str | None
    kill_code: str | None
    error_code: str | None
    error_diag: str | None
    lock_seq: int
    held: bool
    partial: bool
    spares_attempts: bool


_ENDED = returns(EndedJumbo)(f"""
SELECT c.pandaid, c.jeditaskid, coalesce(j.status, 'closed') AS status,
  j.pilot_result, j.kill_code, j.error_code, j.error_diag, coalesce(j.lock_seq, 0) AS lock_seq,
  ({FREE}) IS NOT TRUE AS held, t.rules @> '{{"allow_partial_finish": true}}' AS partial,
  t.rules @> '{{"dec_att_on_failed_es": true}}' AS spares_attempts
FROM jedi_consumers c JOIN jedi_tasks t USING (jeditaskid) LEFT JOIN jedi_jobs j USING (pandaid)
WHERE c.pandaid = ANY(CAST(:ids AS bigint[])) AND c.settled_at IS NULL ORDER BY c.pandaid
""")


def lock_with_sets(tx: Connection, panda_ids: Sequence[int], jobset_ids: Sequence[int]) -> None:
    """Lock what ends of jumbo jobs and of job sets in one transaction lock, in the one order: all
    jobs, then all job sets, their datasets later."""
    LOCK_JOBS.run(tx, ids=sorted({*panda_ids, *consumer_ends.jobs_of(tx, jobset_ids)}))
    _LOCK_ALL.run(tx, ids=list(panda_ids), sets=list(jobset_ids))


def lock_ended(tx: Connection, panda_ids: Sequence[int]) -> list[EndedJumbo]:
    """Jumbo jobs, which the caller has locked, whose ends are not booked. The job sets that waited
    for their ranges, or whose ranges come back, are locked, too, and due at once."""
    ids = {"ids": list(panda_ids)}
    _LOCK_SETS.run(tx, **ids)
    return _ENDED.rows(tx, **ids)


# ------------------------------------------------------------------------------- job sets


class TaskJumbo(NamedTuple):
    """A jumbo job of a task; it is alive until its end is booked."""

    jedi_task_id: int
    panda_id: int
    alive: bool


_OF_TASKS = returns(TaskJumbo)("""
SELECT jeditaskid, pandaid, settled_at IS NULL AS alive
FROM jedi_consumers WHERE jobsetid IS NULL AND jeditaskid = ANY(CAST(:tasks AS bigint[]))
""")


def of_tasks(tx: Connection, task_ids: Iterable[int]) -> list[TaskJumbo]:
    """All jumbo jobs of tasks, past ones included."""
    return _OF_TASKS.rows(tx, tasks=sorted({*task_ids}))


_TAKE = changes(f"""
UPDATE jedi_events SET status = {_DONE}
WHERE jobsetid = ANY(CAST(:ids AS bigint[])) AND is_jumbo = 1 AND status = {_FINISHED}
""")


def take_processed(tx: Connection, jobset_ids: Sequence[int]) -> None:
    """Ranges that jumbo jobs have processed are done, finished → done, in job sets that the caller
    has locked, and that are not merged yet."""
    if jobset_ids:
        _TAKE.run(tx, ids=list(jobset_ids))


# Values, not EXISTS: no plan for all ranges comes of them. Only job sets without a ready range are
# read as a whole, and of whole tasks only the ranges that living consumers hold.
_READY = """coalesce((SELECT true FROM jedi_events e
  WHERE e.ready AND e.jeditaskid = {task} AND e.jobsetid {sets} LIMIT 1), false)"""
_HELD = f"""coalesce((SELECT true FROM jedi_consumers o, LATERAL (
    SELECT FROM jedi_events e WHERE e.jeditaskid = o.jeditaskid AND e.pandaid = o.pandaid
      AND (e.jobsetid < c.pandaid) IS TRUE  -- by its owner, not by the index of job sets
      AND (e.status IN ({_CODE["sent"]}, {_CODE["running"]})
        OR e.status = {_FAILED} AND o.jobsetid IS NULL) LIMIT 1) e
  WHERE o.jeditaskid = c.jeditaskid AND o.settled_at IS NULL LIMIT 1), false)"""
NEEDLESS = returns(int)(f"""
-- Consumers of tasks with jumbo jobs that no pilot has, and whose job sets are processed, by jumbo
-- jobs or others.
SELECT c.pandaid FROM jedi_jobsets s JOIN jedi_consumers c USING (jobsetid)
  JOIN jedi_jobs j USING (pandaid)
WHERE s.ended_at IS NULL AND c.settled_at IS NULL AND j.status IN ({JOB_QUEUED})
  AND s.jeditaskid IN (SELECT jeditaskid FROM jedi_consumers WHERE jobsetid IS NULL)
  AND CASE WHEN {_READY.format(task="s.jeditaskid", sets="= s.jobsetid")} THEN false
    ELSE NOT {IN_WORK} AND EXISTS (SELECT FROM jedi_events e
      WHERE e.jobsetid = s.jobsetid AND e.status IN ({_FINISHED}, {_DONE})) END
ORDER BY c.pandaid
""")
IDLE = returns(int)(f"""
-- Jumbo jobs that no pilot has, and for which no job set has ranges.
SELECT c.pandaid FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid IS NULL AND c.settled_at IS NULL AND j.status IN ({JOB_QUEUED})
  AND CASE WHEN {_READY.format(task="c.jeditaskid", sets="< c.pandaid")} THEN false
    ELSE NOT {_HELD} END
ORDER BY c.pandaid
""")
