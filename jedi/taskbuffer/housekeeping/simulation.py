"""Statements of a simulation on its scratch database, and its maintenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.core.states import EVENT_CODES
from jedi.taskbuffer.db.rows import dict_of, rows_of
from jedi.taskbuffer.jobs.all_jobs import all_jobs
from jedi.taskbuffer.scheduling.turns import OWN_SHARE

_COLUMNS = (
    "pandaid, jeditaskid, kind, site, gshare, status, error_code, cores, creationtime, starttime, "
    "endtime, statechangetime"
)
_LEAVE = text("""
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


_JOBS = text(f"""
SELECT j.pandaid AS panda_id, j.jeditaskid AS jedi_task_id, j.kind, j.site, j.gshare, j.status,
  j.error_code, j.cores, j.creationtime AS creation_time, j.starttime AS start_time,
  j.endtime AS end_time, j.statechangetime AS state_change_time, q.queue_name AS queue,
  {OWN_SHARE} AS share
FROM {all_jobs(_COLUMNS)} j JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_work_queue q ON q.queue_id = t.workqueue_id
WHERE pandaid > :after ORDER BY pandaid LIMIT :limit
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


def jobs(tx: Connection, after: int, limit: int) -> list[JobLife]:
    """The next jobs of all there ever were, by PandaID, with the times of their lives, their work
    queue and the share that their task came with."""
    return rows_of(JobLife, tx.execute(_JOBS, {"after": after, "limit": limit}))


_TASKS = text(f"""
SELECT jeditaskid AS jedi_task_id, taskname AS task_name, status, {OWN_SHARE} AS share,
  reason_code, creationdate AS creation_date, endtime AS end_time
FROM jedi_tasks t ORDER BY jeditaskid
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


def tasks(tx: Connection) -> list[TaskLife]:
    """All tasks by id, the share that they came with, and when they came and ended."""
    return rows_of(TaskLife, tx.execute(_TASKS))


_MERGED = text(f"""
SELECT jeditaskid, CAST(sum(def_max_eventid - def_min_eventid + 1) AS bigint) FROM jedi_events
WHERE status = {EVENT_CODES["merged"]} GROUP BY jeditaskid ORDER BY jeditaskid
""")


def merged_events(tx: Connection) -> dict[int, int]:
    """The merged events of each task that has some."""
    return dict_of(int, int, tx.execute(_MERGED))


_BOOSTED = text(f"SELECT jeditaskid FROM jedi_tasks t WHERE gshare <> {OWN_SHARE}")


def boosted(tx: Connection) -> list[int]:
    """Tasks that are in another share than the one they came with."""
    return list(tx.execute(_BOOSTED).scalars())


_PUT = text("""
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
    values = {"name": name, "endpoints": list(endpoints), "first": numbers[0], "last": numbers[-1],
              "size": size, "adler32": adler32}  # fmt: skip
    tx.execute(_PUT, values)


class Arrival(NamedTuple):
    """A file of a dataset that comes to an endpoint, for good or until then."""

    name: str
    lfn: str
    endpoint: str
    until: datetime | None


_ARRIVE = text("""
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
    tx.execute(_ARRIVE, {"names": names, "lfns": lfns, "endpoints": endpoints, "limits": limits})


_WITHOUT_GUARDS = text("SET LOCAL session_replication_role = replica")


def leave(tx: Connection, tasks: Mapping[int, str]) -> None:
    """Jobs of these tasks that wait for pilots were born in these statuses, as though who made them
    had died before they were ready."""
    tx.execute(_WITHOUT_GUARDS)  # no move leads there
    tx.execute(_LEAVE, {"ids": list(tasks), "statuses": list(tasks.values())})


_TIDY = text("VACUUM (ANALYZE)")


def tidy(tx: Connection) -> None:
    """Do the work of autovacuum, but at a time that two runs have in common. `tx` commits each
    statement at once."""
    tx.execute(_TIDY)


_TIDY_JOBS = text("VACUUM jedi_jobs")


def tidy_jobs(tx: Connection) -> None:
    """Vacuum the table of live jobs."""
    tx.execute(_TIDY_JOBS)
