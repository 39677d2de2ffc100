"""Lists for people: tasks, their datasets and files. Nothing is written here.

Columns come under their Python names, as the values of `service/tasks/task_details.py` call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.queries import MOST_ROWS, FileQuery, ListPage, TaskQuery
from jedi.model.splitting.split_rules import SCOUTED
from jedi.taskbuffer.db.sql_lists import JOB_QUEUED
from jedi.taskbuffer.db.statement import Statement, returns
from jedi.taskbuffer.reports.conditions import TASK_COLUMNS, where
from jedi.taskbuffer.scheduling.patterns import like
from jedi.taskbuffer.schema.all_jobs import all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks.interventions import THROTTLED_UNTIL

BY_EVENTS = """
CASE WHEN t.rules ->> 'n_events_per_job' IS NOT NULL
THEN coalesce(CAST(t.rules ->> 'n_events_per_job' AS bigint)
  < nullif(CAST(t.rules ->> 'n_events_per_input' AS bigint), 0), true)
ELSE t.rules ->> 'target_events_per_job' IS NOT NULL
  AND coalesce(t.rules ->> 'n_files_per_job', t.rules ->> 'n_gb_per_job') IS NULL END
"""
"""`SplitRules.by_events` in SQL: rows of the input are ranges of events."""
_JOBS = f""", LATERAL (
  SELECT count(*) FILTER (WHERE o.status = 'running') AS n_jobs_running,
    count(*) FILTER (WHERE o.status <> 'running' AND o.status IN ({JOB_QUEUED}))
      AS n_jobs_waiting  -- most jobs run: one comparison in place of those of the list
  FROM jedi_jobs o WHERE o.jeditaskid = t.jeditaskid AND postprocessed_at IS NULL) j
"""
_UNCOUNTED = ", (SELECT CAST(0 AS bigint) AS n_jobs_running, CAST(0 AS bigint) AS n_jobs_waiting) j"


def _summary(jobs: str) -> str:
    return f"""
SELECT t.jeditaskid, t.reqid, t.taskname,
  t.username, t.status,
  t.prodsourcelabel, t.workqueue_id AS queue_id, t.gshare AS share,
  t.currentpriority AS priority, t.attemptnr,
  t.reason_code, t.errordialog AS reason, t.creationdate,
  t.statechangetime, t.endtime,
  coalesce({THROTTLED_UNTIL}, t.next_run_at) AS next_run_at,
  d.n_files, d.n_files_finished, d.n_files_failed, j.n_jobs_running, j.n_jobs_waiting,
  CASE WHEN {BY_EVENTS} THEN 'ranges' ELSE 'files' END AS unit, d.n_events,
  least(d.n_events, CASE WHEN t.eventservice > 0 THEN (
    SELECT CAST(coalesce(sum(z.n_events), 0) AS bigint) FROM jedi_event_zips z
    WHERE z.jeditaskid = t.jeditaskid) END) AS n_events_processed
FROM jedi_tasks t, LATERAL (
  SELECT coalesce(sum(greatest(nfiles, nfilestobeused)), 0)::bigint AS n_files,
    coalesce(sum(nfilesfinished), 0)::bigint AS n_files_finished,
    coalesce(sum(nfilesfailed), 0)::bigint AS n_files_failed,
    CASE WHEN t.eventservice > 0 THEN CAST(sum(nevents) AS bigint) END AS n_events
  FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER}) d{jobs}
"""


SUMMARY = _summary(_JOBS)
EXISTS = returns(bool)("""
-- True if there is such a task.
SELECT EXISTS (SELECT FROM jedi_tasks WHERE jeditaskid = :task)
""")
_FIND = "{summary} WHERE {conditions} ORDER BY t.jeditaskid {order} LIMIT :limit"
"""Completed by what is asked for, and by conditions.where."""
_ASKED = {
    "user_name": "t.username = :user_name",
    "name": "t.taskname LIKE :name",
    "statuses": "t.status = ANY(:statuses)",
    "ids": "t.jeditaskid = ANY(:ids)",
    "begins": "starts_with(CAST(t.jeditaskid AS text), :begins)",
    "before": "t.jeditaskid < :before",
    "after": "t.jeditaskid > :after",
}
"""Only what is asked for stands in the statement: beside `:ids IS NULL OR` a plan that serves any
value reads all tasks, also to find one."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task at a glance; files are those of its master inputs, also those that wait for scouts.
    `req_id`: the request that it names, else its own id. `unit`: `files`, or `ranges`
    if the task cuts files into ranges of events and counts these. `n_events`, `n_events_processed`:
    of a task whose jobs get events while they run; None: of any other."""

    jedi_task_id: int
    req_id: int
    task_name: str
    user_name: str
    status: str
    prod_source_label: str
    queue_id: int | None
    share: str | None
    priority: int
    attempt_nr: int
    reason_code: str | None
    reason: str | None
    creation_date: datetime
    state_change_time: datetime
    end_time: datetime | None
    next_run_at: datetime | None
    n_files: int
    n_files_finished: int
    n_files_failed: int
    n_jobs_running: int
    n_jobs_waiting: int
    unit: str
    n_events: int | None
    n_events_processed: int | None

    @property
    def percent(self) -> int | None:
        """The finished part of the input; None: there is none yet."""
        return 100 * self.n_files_finished // self.n_files if self.n_files else None

    @property
    def is_final(self) -> bool:
        """Nothing more will happen unless somebody asks."""
        return self.status in states.TASK.final


TASK = returns(TaskSummary)(f"""
-- A task; its live jobs are not counted. To count 100,000 of them takes 15 ms.
{_summary(_UNCOUNTED)} WHERE t.jeditaskid = :task
""")


def tasks(
    tx: Connection, query: TaskQuery, page: ListPage, begins: str, unit_s: float
) -> list[TaskSummary]:
    """Tasks with the counts of their master files and live jobs, newest first, whose ids begin
    so; `unit_s`: the first rest of throttled ones."""
    cursor = {"begins": begins or None, "before": page.before, "after": page.after}
    sql, values = asked_for(query, **cursor)
    order = "DESC" if page.after is None else "ASC"
    found = _find(sql, order, jobs=True).rows(tx, **values, limit=page.limit, unit_s=unit_s)
    return found if page.after is None else found[::-1]


def tasks_by_id(
    tx: Connection, ids: Sequence[int], unit_s: float, *, jobs: bool = True
) -> list[TaskSummary]:
    """These tasks, newest first; `jobs`: live jobs are counted."""
    sql, values = asked_for(TaskQuery(), ids=[*ids])
    return _find(sql, "DESC", jobs).rows(tx, **values, limit=MOST_ROWS, unit_s=unit_s)


def asked_for(query: TaskQuery, **more: Any) -> tuple[str, dict[str, Any]]:
    """The condition on a task `t` in SQL, and its values; `more`: others of _ASKED. BadInput."""
    conditions, given = where(query.conditions, TASK_COLUMNS)
    name = query.name and like(query.name)
    asked = {"user_name": query.user, "name": name, "statuses": query.status, **more}
    asked = {key: value for key, value in asked.items() if value is not None}
    return " AND ".join([*(_ASKED[key] for key in asked), conditions]), {**asked, **given}


@lru_cache(maxsize=256)
def _find(conditions: str, order: str, jobs: bool) -> Statement[TaskSummary]:
    summary = SUMMARY if jobs else _summary(_UNCOUNTED)
    return returns(TaskSummary)(_FIND.format(summary=summary, conditions=conditions, order=order))


_GONE = "'lost', 'missing', 'broken'"

_AFTER = """(SELECT datasetid FROM jedi_dataset_contents
  WHERE fileid = CAST(:after AS bigint) AND jeditaskid = :task)"""
HAS_FILE = returns(bool)("""
-- True if the task has this file.
SELECT EXISTS (SELECT FROM jedi_dataset_contents WHERE fileid = :file AND jeditaskid = :task)
""")


@dataclass(frozen=True, slots=True)
class JobMetric:
    """A figure of a task's jobs, such as ramCount, and its origin: finished jobs measured it,
    failed jobs proved that they need so much (then `measured` is what finished ones needed), or the
    task gives it."""

    name: str
    value: int
    unit: str | None
    origin: str
    measured: int | None


MEASURED = returns(JobMetric)(f"""
-- Return the figures of a task that its jobs gave, and its other ones.
SELECT m.name, m.value, m.unit, CASE WHEN f.proven >= m.value THEN 'failed jobs'
    WHEN f.measured IS NOT NULL THEN 'finished jobs' ELSE 'task' END AS origin,
  CASE WHEN f.proven >= m.value THEN f.measured END AS measured
FROM jedi_tasks t, LATERAL (VALUES
  (1, 'cpuTime', 'cpu_time', t.cputime, t.cputimeunit),
  (2, 'ramCount', 'ram_count', t.ramcount, t.ramunit),
  (3, 'outDiskCount', 'out_disk_count', t.outdiskcount, t.outdiskunit),
  (4, 'workDiskCount', 'work_disk_count', t.workdiskcount, t.workdiskunit),
  (5, 'walltime', 'walltime', t.walltime, t.walltimeunit),
  (6, 'ioIntensity', 'io_intensity', t.iointensity, t.iointensityunit),
  (7, 'diskIO', 'disk_io', t.diskio, t.diskiounit)
) m(place, name, key, value, unit), LATERAL (
  SELECT CAST(t.figures -> m.key ->> 'proven' AS bigint) AS proven,
    CAST(t.figures -> m.key ->> 'measured' AS bigint) AS measured) f
WHERE t.jeditaskid = :task AND m.value IS NOT NULL
  AND (t.rules ->> 'use_scout' = '{SCOUTED}' OR t.figures IS NOT NULL)
ORDER BY m.place
""")


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset of a task, with its counters and how it is used (see Attributes). Where ranges of
    events are used, `n_files_to_be_used`, `n_files_used` and `n_files_waiting` count them, the
    others whole files: one is failed if one of its ranges is. `n_left_out`: files and other entries
    that no job gets; `left_out`: of those with a row, how many by reason."""

    dataset_id: int
    name: str
    type: str
    status: str
    state: str | None
    master_id: int | None
    stream_name: str | None
    n_files: int
    n_files_to_be_used: int
    n_files_used: int
    n_files_finished: int
    n_files_failed: int
    n_files_missing: int
    n_files_waiting: int
    attributes: str | None
    n_left_out: int
    left_out: dict[str, int]


DATASETS = returns(DatasetSummary)(f"""
-- The datasets of a task.
SELECT d.datasetid, d.datasetname AS name, d.type, d.status, d.state,
  d.masterid, d.streamname, coalesce(f.n, d.nfiles) AS n_files,
  d.nfilestobeused, d.nfilesused,
  coalesce(f.finished, d.nfilesfinished) AS n_files_finished,
  coalesce(f.failed, d.nfilesfailed) AS n_files_failed,
  coalesce(f.missing, d.nfilesmissing) AS n_files_missing, d.nfileswaiting,
  d.attributes, d.nleftout, coalesce(o.reasons, '{{}}') AS left_out
FROM jedi_datasets d LEFT JOIN LATERAL (
  SELECT count(*) AS n, count(*) FILTER (WHERE finished) AS finished,
    count(*) FILTER (WHERE failed AND NOT missing) AS failed,
    count(*) FILTER (WHERE missing) AS missing
  FROM (
    SELECT bool_and(status = 'finished') AS finished, bool_or(status = 'failed') AS failed,
      bool_or(status IN ({_GONE})) AS missing
    FROM jedi_dataset_contents c WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid
      AND c.status <> 'skipped' AND d.type = 'input' AND d.masterid IS NULL
      AND (SELECT {BY_EVENTS} FROM jedi_tasks t WHERE t.jeditaskid = :task)
    GROUP BY lfn) r
  HAVING count(*) > 0) f ON true LEFT JOIN LATERAL (
  SELECT jsonb_object_agg(reason, n) AS reasons FROM (
    SELECT reason, count(*) AS n FROM jedi_dataset_contents c
    WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid AND c.status = 'skipped'
      AND d.nleftout > 0 GROUP BY reason) r) o ON true
WHERE d.jeditaskid = :task ORDER BY d.datasetid
""")


class PgiState(NamedTuple):
    """PGI state and substate of a task."""

    state: str
    substate: str


PGI_STATE = returns(PgiState)("""
-- PGI state and substate of a task that has no job; None: it has some, or nothing to do.
SELECT pgi_state AS state, pgi_substate AS substate FROM jedi_task_states
WHERE jeditaskid = :task
""")


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A file of a task, or the part of it from `start_event` to `end_event`; size in bytes, adler32
    in 8 hex digits. `gone`: it was made, and is not kept any more. `reason`: the code of the reason
    if it is left out (skipped)."""

    file_id: int
    dataset: str
    lfn: str
    type: str
    status: str
    size: int | None
    adler32: str | None
    guid: str | None
    n_events: int | None
    start_event: int | None
    end_event: int | None
    reason: str | None
    attempt_nr: int
    max_attempt: int | None
    failed_attempt: int
    panda_id: int | None
    gone: bool


_FILES = returns(FileSummary)(f"""
SELECT c.fileid, d.datasetname AS dataset, c.lfn, c.type, c.status, c.fsize AS size,
  c.checksum AS adler32, c.guid, c.nevents, c.startevent,
  c.endevent, c.reason, c.attemptnr,
  c.maxattempt, c.failedattempt, c.pandaid,
  c.status = 'finished' AND (d.state = 'missing' OR c.type = 'output' AND EXISTS (
    SELECT FROM {all_jobs("pandaid, purged_at")} j
    WHERE j.pandaid = c.outpandaid AND j.purged_at IS NOT NULL)) IS TRUE AS gone
FROM jedi_datasets d, LATERAL (
  -- the first ones of each dataset, by an index in their order
  SELECT * FROM jedi_dataset_contents c WHERE c.datasetid = d.datasetid
    AND c.fileid > CASE d.datasetid WHEN {_AFTER} THEN CAST(:after AS bigint) ELSE 0 END
    AND coalesce(c.type = ANY(CAST(:types AS text[])), c.type <> ALL(:hidden))
    AND (CAST(:statuses AS text[]) IS NULL OR c.status = ANY(:statuses))
    AND (CAST(:job AS bigint) IS NULL OR c.outpandaid = :job)
  ORDER BY c.fileid LIMIT :limit) c
WHERE d.jeditaskid = :task AND (CAST(:after AS bigint) IS NULL OR d.datasetid >= {_AFTER})
ORDER BY d.datasetid, c.fileid LIMIT :limit
""")


def files(
    tx: Connection,
    jedi_task_id: int,
    query: FileQuery,
    limit: int,
    panda_id: int | None = None,
    after: int | None = None,
) -> list[FileSummary]:
    """The files of a task, or those that one of its jobs was to make; `after`: only those behind
    this file."""
    values = {
        "task": jedi_task_id,
        "types": query.type,
        "statuses": query.status,
        "limit": limit,
        "job": panda_id,
        "after": after,
        "hidden": list(states.PRE_MERGE_TYPES),
    }
    return _FILES.rows(tx, **values)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A finished output or log of a task."""

    dataset: str
    lfn: str
    adler32: str | None


OUTPUT = returns(OutputFile)("""
-- A finished output or log of a task, by its id.
SELECT d.datasetname AS dataset, c.lfn, c.checksum AS adler32
FROM jedi_dataset_contents c JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE c.jeditaskid = :task AND c.fileid = :file AND c.status = 'finished'
  AND c.type IN ('output', 'log')
""")


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a task's status: when, who, why."""

    time: datetime
    from_status: str | None
    status: str
    agent: str | None
    reason_code: str | None
    reason: str | None
    attempt_nr: int | None
    user_name: str | None


HISTORY = returns(Step)("""
-- Every status a task had, the first one first.
SELECT modificationtime AS time, fromstatus, status, agent, reason_code, reason,
  attemptnr, username
FROM jedi_tasks_statuslog WHERE jeditaskid = :task ORDER BY log_id
""")
