"""States of units, as the Python interface shows them, and their attempts. Nothing is written.

A state follows from the unit's own record, its latest job, its files, and the task.
Source: docs/reference/ganga.md#states-of-units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, listed
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER

_QUEUED = listed((*states.JOB_QUEUED, "sent", "starting"))
_KILLED = "'aborting', 'toabort', 'aborted'"
_OVER = "'tobroken', 'broken', 'finishing', 'passed', 'done', 'finished', 'failed', 'exhausted'"
_STATE = f"""
CASE WHEN u.superseded IS NOT NULL THEN u.superseded WHEN u.refusal IS NOT NULL THEN 'failed'
  WHEN u.job IN ({_QUEUED}) THEN 'submitted'
  WHEN u.job = 'running' THEN 'running'
  WHEN u.job IN ('holding', 'transferring', 'merging') THEN 'completing'
  WHEN u.finished THEN 'completed'
  WHEN u.killed_at IS NOT NULL THEN 'killed'
  WHEN coalesce(u.waiting, true) THEN
    CASE WHEN t.status IN ({_KILLED}) THEN 'killed' WHEN t.status IN ({_OVER}) THEN 'failed'
      ELSE 'submitted' END
  WHEN u.job = 'cancelled' THEN 'killed' ELSE 'failed' END"""
_NEWER = "((CAST(CAST({} AS text) AS bigint) - t.bound) & 4294967295) < 2147483648"
"""See reports/changes.py: true if the cursor's transaction, or a later one, wrote the row."""

_OF = (
    "({0} > t.low AND {0} <= t.high "
    "AND (CAST(:units AS int[]) IS NULL OR {0} = ANY(CAST(:units AS int[]))))"
)
_JOB = f"""
SELECT unit_nr, {_NEWER.format("xmin")}, false, NULL, NULL, NULL, pandaid, status, site, exit_code,
  error_diag, NULL
FROM {{}} WHERE jeditaskid = t.task AND kind = 'normal' AND {_OF.format("unit_nr")}"""
_LISTED = f"jedi_datasets d WHERE d.jeditaskid = t.task AND {LISTED_MASTER}"
_LATEST = "(array_agg({} ORDER BY pandaid DESC NULLS LAST))[1]"


@dataclass(frozen=True, slots=True)
class UnitSummary:
    """A unit now: its state, and of its latest attempt the PandaID, status, site, exit code and
    reason. A refused unit has its refusal as the reason, one without a job that of its task.
    `superseded`: its input was cut again; it keeps its state, and counts no longer."""

    unit_nr: int
    state: str
    attempts: int | None = None
    panda_id: int | None = None
    job_status: str | None = None
    site: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    superseded: bool = False


class HerdStates(NamedTuple):
    """A herd with its units by state, and lists of those that changed. `complete`: all its units
    are known. `counts`: of the units that were looked at; None: nothing has changed. `last`: number
    of the last unit that was looked at, unless it is the last one."""

    jedi_task_id: int
    status: str
    reason: str | None
    complete: bool
    counts: dict[str, int] | None
    changed: list[list[list[Any]]] | None
    last: int | None

    @property
    def units(self) -> list[UnitSummary]:
        """The units that changed, by number."""
        found = [UnitSummary(*one) for some in self.changed or () for one in some]
        return sorted(found, key=lambda one: one.unit_nr)


# The records of units, their jobs and their files are grouped, not joined: a join of each with each
# is what a planner may choose that knows nothing yet of new rows. An archived job has ended, so no
# state hangs on a change of its row.
_STATES = returns(HerdStates)(f"""
WITH w AS MATERIALIZED (
  SELECT t.jeditaskid AS task, t.status, t.errordialog, w.bound, h.split_at IS NOT NULL AS complete,
    coalesce(h.n_units, 0) AS n_units, t.status IS DISTINCT FROM w.status AS moved, w.low, w.counted
  FROM unnest(CAST(:ids AS bigint[]), CAST(:bounds AS bigint[]), CAST(:statuses AS text[]),
      CAST(:lows AS int[]), CAST(:counted AS boolean[]))
    w(id, bound, status, low, counted) JOIN jedi_tasks t ON t.jeditaskid = w.id
    JOIN jedi_herds h USING (jeditaskid)
), s AS MATERIALIZED (
  SELECT *, counted AND NOT moved
    AND NOT EXISTS (SELECT FROM {_LISTED} AND {_NEWER.format("d.xmin")})
    AND NOT EXISTS (SELECT FROM jedi_units u
      WHERE u.jeditaskid = t.task AND {_NEWER.format("u.xmin")})
    AND NOT EXISTS (SELECT FROM jedi_jobs j
      WHERE j.jeditaskid = t.task AND {_NEWER.format("j.xmin")})
    AND NOT EXISTS (SELECT FROM (SELECT d.datasetid FROM {_LISTED}) d, LATERAL (
      SELECT FROM jedi_dataset_contents c
      WHERE c.datasetid = d.datasetid AND {_NEWER.format("c.xmin")} LIMIT 1) c) AS same
  FROM w t
), t AS MATERIALIZED (  -- the first tasks are looked at as far as the page has room
  SELECT *, low + CAST(greatest(0, least(n_units - low, :page - coalesce(
    sum(n_units - low) FILTER (WHERE NOT same) OVER (
      ORDER BY task ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0))) AS int) AS high
  FROM s
), u AS (
  SELECT t.task, u.unit_nr, {_STATE} AS state, nullif(u.attempts, 0) AS attempts, u.pandaid, u.job,
    u.site, u.exit_code, CASE WHEN u.refusal IS NOT NULL THEN u.refusal
      WHEN u.pandaid IS NULL AND u.killed_at IS NOT NULL THEN 'It was killed before it had a job.'
      WHEN u.pandaid IS NULL THEN t.errordialog ELSE u.error_diag END AS reason,
    coalesce(u.newer, t.bound IS NULL)
      OR t.moved AND u.refusal IS NULL AND coalesce(u.waiting, true) AS changed,
    u.superseded IS NOT NULL AS superseded
  FROM t, LATERAL (
    SELECT unit_nr, bool_or(newer) AS newer, max(refusal) AS refusal,
      max(superseded) AS superseded, max(killed_at) AS killed_at, count(pandaid) AS attempts,
      max(pandaid) AS pandaid, {_LATEST.format("job")} AS job, {_LATEST.format("site")} AS site,
      {_LATEST.format("exit_code")} AS exit_code, {_LATEST.format("error_diag")} AS error_diag,
      bool_and(file = 'finished') AS finished,
      bool_or(file IN ('ready', 'pending', 'staging', 'waiting', 'running')) AS waiting
    FROM (
      SELECT unit_nr, {_NEWER.format("xmin")}, true, refusal, superseded, killed_at,
        CAST(NULL AS bigint), CAST(NULL AS text), CAST(NULL AS text), CAST(NULL AS int),
        CAST(NULL AS text), CAST(NULL AS text)
      FROM jedi_units WHERE jeditaskid = t.task AND {_OF.format("unit_nr")}
      UNION ALL {_JOB.format("jedi_jobs")} UNION ALL {_JOB.format("jedi_jobs_archived")} UNION ALL
      SELECT c.boundaryid, {_NEWER.format("c.xmin")}, false, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, c.status
      FROM (SELECT d.datasetid FROM {_LISTED}) d, LATERAL (
        SELECT *, xmin FROM jedi_dataset_contents c WHERE c.datasetid = d.datasetid
          AND {_OF.format("c.boundaryid")} OFFSET 0) c
    ) x(unit_nr, newer, known, refusal, superseded, killed_at, pandaid, job, site, exit_code,
        error_diag, file)
    GROUP BY unit_nr HAVING bool_or(known)) u
  WHERE NOT t.same
), g AS (
  SELECT task, state, count(*) FILTER (WHERE NOT superseded) AS n,
    json_agg(json_build_array(unit_nr, state, attempts, pandaid, job, site, exit_code, reason,
      superseded) ORDER BY unit_nr) FILTER (WHERE changed) AS changed
  FROM u GROUP BY task, state
)
SELECT t.task AS jedi_task_id, t.status, t.errordialog AS reason, t.complete,
  CASE WHEN NOT t.same
    THEN coalesce(jsonb_object_agg(g.state, g.n) FILTER (WHERE g.n > 0), '{{}}') END AS counts,
  json_agg(g.changed) FILTER (WHERE g.changed IS NOT NULL) AS changed,
  CASE WHEN t.high < t.n_units AND NOT t.same THEN t.high END AS last
FROM t LEFT JOIN g USING (task)
GROUP BY t.task, t.status, t.errordialog, t.complete, t.same, t.high, t.n_units
ORDER BY t.task
""")


@dataclass(frozen=True, slots=True)
class StatesQuestion:
    """A herd, the oldest transaction that ran at the last answer, and its status then; None: the
    first question, which asks for all units. `after`: the last unit of the page before. `counted`:
    its units by state are known; they are counted anew only if something has changed."""

    jedi_task_id: int
    bound: int | None = None
    status: str | None = None
    after: int = 0
    counted: bool = False


ALL = 2**31 - 1


def states_of(
    tx: Connection,
    asked: Sequence[StatesQuestion],
    units: Sequence[int] | None = None,
    page: int = ALL,
) -> list[HerdStates]:
    """The herds among tasks with their states, in one statement; `units`: of these alone. It looks
    at `page` units at most, and counts those."""
    values = {
        "ids": [one.jedi_task_id for one in asked],
        "bounds": [one.bound for one in asked],
        "statuses": [one.status for one in asked],
        "lows": [one.after for one in asked],
        "counted": [one.counted for one in asked],
        "units": None if units is None else list(units),
        "page": page,
    }
    return _STATES.rows(tx, **values)


_ATTEMPTS = "pandaid, status, site, exit_code, error_diag, starttime, endtime"


@dataclass(frozen=True, slots=True)
class UnitAttempt:
    """An attempt of a unit: a job. `superseded`: its results were given up for a later one."""

    panda_id: int
    status: str
    site: str | None
    exit_code: int | None
    reason: str | None
    started: datetime | None
    ended: datetime | None
    superseded: bool


ATTEMPTS = returns(UnitAttempt)(f"""
-- The attempts of a unit after a PandaID, the first one first.
SELECT pandaid, status, site, exit_code, error_diag AS reason,
  starttime AS started, endtime AS ended, EXISTS (
    SELECT FROM jedi_superseded_jobs s WHERE s.pandaid = j.pandaid) AS superseded
FROM (SELECT {_ATTEMPTS} FROM jedi_jobs
      WHERE jeditaskid = :task AND unit_nr = :unit AND kind = 'normal' UNION ALL
      SELECT {_ATTEMPTS} FROM jedi_jobs_archived
      WHERE jeditaskid = :task AND unit_nr = :unit AND kind = 'normal') j
WHERE pandaid > :after ORDER BY pandaid LIMIT :limit
""")


_MAKER = returns(int)(f"""
SELECT j.unit_nr FROM jedi_dataset_contents c JOIN {all_jobs("pandaid, unit_nr")} j
  ON j.pandaid = c.outpandaid
WHERE c.fileid = :file AND c.jeditaskid = :task
""")
_JOB_OF = """
SELECT pandaid, unit_nr, kind, purged_at FROM {}
WHERE jeditaskid = :task AND unit_nr >= :unit AND status = 'finished'"""


@dataclass(frozen=True, slots=True)
class UnitOutput:
    """An output file with its unit (None: a merged file, of several), and the name that its payload
    gave it."""

    unit_nr: int | None
    name: str
    file_id: int
    panda_id: int
    dataset: str
    lfn: str
    size: int | None
    adler32: str | None


_MADE = returns(UnitOutput)(f"""
SELECT CASE WHEN j.kind = 'normal' THEN j.unit_nr END AS unit_nr,
  CASE WHEN j.kind = 'normal' THEN f.name ELSE f.lfn END AS name, f.fileid,
  j.pandaid, f.dataset, f.lfn, f.size, f.adler32
FROM ({_JOB_OF.format("jedi_jobs")} UNION ALL {_JOB_OF.format("jedi_jobs_archived")}
  ORDER BY unit_nr) j,
LATERAL (
  SELECT coalesce(f.source_name, f.lfn) AS name, c.fileid, d.datasetname AS dataset,
    c.lfn, c.fsize AS size, c.checksum AS adler32
  FROM {all_files("pandaid, fileid, source_name, lfn")} f, LATERAL (  -- else all files, job by job
    SELECT * FROM jedi_dataset_contents c
    WHERE c.fileid = f.fileid AND c.jeditaskid = :task OFFSET 0) c
    JOIN jedi_datasets d ON d.datasetid = c.datasetid AND d.jeditaskid = c.jeditaskid
  WHERE f.pandaid = j.pandaid AND c.type = 'output' AND c.status = 'finished'
    AND c.outpandaid = j.pandaid AND d.state IS DISTINCT FROM 'missing' OFFSET 0) f
WHERE j.purged_at IS NULL AND (j.unit_nr, f.fileid) > (:unit, :after)
ORDER BY j.unit_nr, f.fileid LIMIT :limit
""")


def outputs(tx: Connection, jedi_task_id: int, after: int, limit: int) -> list[UnitOutput]:
    """The outputs of a task that are kept, by the number of the unit, merged ones last; those after
    a file of it. None, if there is no such file."""
    unit: int | None = 0
    if after:
        unit = _MAKER.row(tx, task=jedi_task_id, file=after)
    values = {"task": jedi_task_id, "unit": unit, "after": after, "limit": limit}
    return _MADE.rows(tx, **values)


@dataclass(frozen=True, slots=True)
class UnitInput:
    """A file that a unit reads, or some of its events."""

    file_id: int
    dataset: str
    lfn: str
    size: int | None
    status: str
    start_event: int | None
    end_event: int | None


INPUTS = returns(UnitInput)(f"""
-- The files of a unit after one of them.
SELECT c.fileid, d.datasetname AS dataset, c.lfn, c.fsize AS size, c.status,
  c.startevent, c.endevent
FROM jedi_datasets d JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.jeditaskid = :task AND d.type = 'input' AND d.masterid IS NULL AND c.boundaryid = :unit
  AND c.fileid > :after AND c.type IN ({MASTER_TYPES}) ORDER BY c.fileid LIMIT :limit
""")
