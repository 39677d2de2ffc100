"""Statements of a simulation on its scratch database, and its maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core.states import EVENT_CODES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.scheduling.task_order import OWN_SHARE
from jedi.taskbuffer.schema.all_jobs import all_jobs

_COLUMNS = (
    "pandaid, jeditaskid, kind, site, gshare, status, error_code, cores, creationtime, starttime, "
    "endtime, statechangetime"
)
_LEAVE = changes("""
WITH u AS (
  UPDATE jedi_jobs j SET status = t.status
  FROM unnest(CAST(:ids AS bigint[]), CAST(:statuses AS text[])) t(id, status)
  WHERE j.jeditaskid = t.id AND j.status = 'activated'
  RETURNING j.*
), gone AS (
  DELETE FROM jedi_job_ready r USING u WHERE r.pandaid = u.pandaid
), l AS (
  UPDATE jedi_jobs_statuslog l SET status = u.status FROM u WHERE l.pandaid = u.pandaid
)
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT site, workqueue_id, gshare, resource_type, s.status, s.n, s.n * cores
FROM u, LATERAL (VALUES ('activated', -1), (u.status, 1)) s(status, n)
""")


class JobLife(NamedTuple):
    """A job with the times of its life, its work queue and the share that its task came with."""

    panda_id: int
    jedi_task_id: int
    kind: str
    site: str
    gshare: str
    status: str
    error_code: str | None
    cores: int
    creation_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    state_change_time: datetime
    queue: str | None
    share: str | None


JOBS = returns(JobLife)(f"""
-- The next jobs of all there ever were, by PandaID, with the times of their lives, their work queue
-- and the share that their task came with.
SELECT j.pandaid, j.jeditaskid, j.kind, j.site, j.gshare, j.status,
  j.error_code, j.cores, j.creationtime, j.starttime,
  j.endtime, j.statechangetime, q.queue_name AS queue,
  {OWN_SHARE} AS share
FROM {all_jobs(_COLUMNS)} j JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_work_queue q ON q.queue_id = t.workqueue_id
WHERE pandaid > :after ORDER BY pandaid LIMIT :limit
""")


class TaskLife(NamedTuple):
    """A task, the share that it came with, and when it came and ended."""

    jedi_task_id: int
    task_name: str
    status: str
    share: str
    reason_code: str | None
    creation_date: datetime
    end_time: datetime | None


TASKS = returns(TaskLife)(f"""
-- All tasks by id, the share that they came with, and when they came and ended.
SELECT jeditaskid, taskname, status, {OWN_SHARE} AS share,
  reason_code, creationdate, endtime
FROM jedi_tasks t ORDER BY jeditaskid
""")


MERGED_EVENTS = returns(tuple[int, int])(f"""
-- The merged events of each task that has some.
SELECT jeditaskid, CAST(sum(def_max_eventid - def_min_eventid + 1) AS bigint) FROM jedi_events
WHERE status = {EVENT_CODES["merged"]} GROUP BY jeditaskid ORDER BY jeditaskid
""")


BOOSTED = returns(int)(f"""
-- Tasks that are in another share than the one they came with.
SELECT jeditaskid FROM jedi_tasks t WHERE gshare <> {OWN_SHARE}
""")


_PUT = changes("""
WITH f AS (
  INSERT INTO ddm_files (dataset_id, lfn, size, adler32, guid)
  SELECT dataset_id, lfn, :size, :adler32, CAST(CAST(md5(lfn) AS uuid) AS text)
  FROM ddm_datasets, generate_series(CAST(:first AS bigint), :last) n,
    LATERAL (SELECT substr(name, strpos(name, ':') + 1) || '.' || n AS lfn) w
  WHERE name = :name RETURNING file_id
)
INSERT INTO ddm_replicas (file_id, endpoint)
SELECT file_id, endpoint FROM f, unnest(CAST(:endpoints AS text[])) endpoint
""")


def put(
    tx: Connection, name: str, endpoints: Sequence[str], numbers: range, size: int, adler32: str
) -> None:
    """Files with these numbers belong to a dataset that has none of them yet, and lie at all these
    endpoints. The server makes their names up: to send them takes three times as long."""
    values = {
        "name": name,
        "endpoints": list(endpoints),
        "first": numbers[0],
        "last": numbers[-1],
        "size": size,
        "adler32": adler32,
    }
    _PUT.run(tx, **values)


class Arrival(NamedTuple):
    """A file of a dataset that comes to an endpoint, for good or until then."""

    name: str
    lfn: str
    endpoint: str
    until: datetime | None


_ARRIVE = changes("""
INSERT INTO ddm_replicas (file_id, endpoint, expires_at)
SELECT file_id, endpoint, until FROM ddm_datasets JOIN ddm_files USING (dataset_id)
  JOIN unnest(CAST(:names AS text[]), CAST(:lfns AS text[]),
  CAST(:endpoints AS text[]), CAST(:limits AS timestamptz[]))
  w(name, lfn, endpoint, until) USING (name, lfn)
ORDER BY file_id, endpoint ON CONFLICT DO NOTHING
""")


def arrive(tx: Connection, files: Sequence[Arrival]) -> None:
    """Files lie where they came to from now on."""
    names, lfns, endpoints, limits = map(list, zip(*files, strict=True))
    _ARRIVE.run(tx, names=names, lfns=lfns, endpoints=endpoints, limits=limits)


_WITHOUT_GUARDS = changes("SET LOCAL session_replication_role = replica")


def leave(tx: Connection, tasks: Mapping[int, str]) -> None:
    """Jobs of these tasks that wait for pilots were born in these statuses, as though who made them
    had died before they were ready."""
    _WITHOUT_GUARDS.run(tx)  # no move leads there
    _LEAVE.run(tx, ids=list(tasks), statuses=list(tasks.values()))


TIDY = changes("""
-- Do the work of autovacuum, but at a time that two runs have in common. `tx` commits each
-- statement at once.
VACUUM (ANALYZE)
""")


TIDY_JOBS = changes("""
-- Vacuum the table of live jobs.
VACUUM jedi_jobs
""")
