"""States of units, as the Python interface shows them, and their attempts. Nothing is written.

A state follows from the unit's own record, its latest job, its files, and the task.
Source: docs/reference/ganga.md#states-of-units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jedi.core import states
from jedi.taskbuffer.db.rows import rows_of
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, listed
from jedi.taskbuffer.jobs.all_jobs import all_files, all_jobs

_QUEUED = listed((*states.JOB_QUEUED, "sent", "starting"))
_KILLED = "'aborting', 'toabort', 'aborted'"
_OVER = "'tobroken', 'broken', 'finishing', 'passed', 'done', 'finished', 'failed', 'exhausted'"
_STATE = f"""
CASE WHEN u.refusal IS NOT NULL THEN 'failed'
  WHEN j.status IN ({_QUEUED}) THEN 'submitted'
  WHEN j.status = 'running' THEN 'running'
  WHEN j.status IN ('holding', 'transferring', 'merging') THEN 'completing'
  WHEN f.finished THEN 'completed'
  WHEN u.killed_at IS NOT NULL THEN 'killed'
  WHEN coalesce(f.waiting, true) THEN
    CASE WHEN t.status IN ({_KILLED}) THEN 'killed' WHEN t.status IN ({_OVER}) THEN 'failed'
      ELSE 'submitted' END
  WHEN j.status = 'cancelled' THEN 'killed' ELSE 'failed' END"""
_NEWER = "((CAST(CAST({} AS text) AS bigint) - t.bound) & 4294967295) < 2147483648"
"""See reports/changes.py: true if the cursor's transaction, or a later one, wrote the row."""

_JOB = """
SELECT pandaid, status, site, exit_code, error_diag, xmin AS version, unit_nr
FROM {} WHERE jeditaskid = t.task AND kind = 'normal' AND {}"""
_OF = "(CAST(:units AS int[]) IS NULL OR {} = ANY(CAST(:units AS int[])))"
_STATES = text(f"""
WITH t AS MATERIALIZED (
  SELECT t.jeditaskid AS task, t.status, t.errordialog, w.bound, h.split_at IS NOT NULL AS complete,
    h.n_units, t.status IS DISTINCT FROM w.status AS moved
  FROM unnest(CAST(:ids AS bigint[]), CAST(:bounds AS bigint[]), CAST(:statuses AS text[]))
    w(id, bound, status) JOIN jedi_tasks t ON t.jeditaskid = w.id
    JOIN jedi_herds h USING (jeditaskid)
), j AS (
  SELECT DISTINCT ON (t.task, j.unit_nr) t.task, j.*, {_NEWER.format("j.version")} AS newer,
    count(*) OVER (PARTITION BY t.task, j.unit_nr) AS attempts
  FROM t, LATERAL ({_JOB.format("jedi_jobs", _OF.format("unit_nr"))}
    UNION ALL {_JOB.format("jedi_jobs_archived", _OF.format("unit_nr"))}) j
  ORDER BY t.task, j.unit_nr, j.pandaid DESC
), f AS (
  SELECT t.task, c.boundaryid AS unit_nr, bool_and(c.status = 'finished') AS finished,
    bool_or(c.status IN ('ready', 'pending', 'staging', 'waiting', 'running')) AS waiting,
    bool_or({_NEWER.format("c.xmin")}) AS newer
  FROM t JOIN jedi_datasets d ON d.jeditaskid = t.task AND d.type IN ({MASTER_TYPES})
      AND d.masterid IS NULL AND d.status <> 'removed'
    JOIN jedi_dataset_contents c ON c.datasetid = d.datasetid AND c.jeditaskid = t.task
  WHERE {_OF.format("c.boundaryid")} GROUP BY t.task, c.boundaryid
), u AS (
  SELECT t.task, u.unit_nr, {_STATE} AS state, j.attempts, j.pandaid, j.status AS job, j.site,
    j.exit_code, CASE WHEN u.refusal IS NOT NULL THEN u.refusal
      WHEN j.pandaid IS NULL AND u.killed_at IS NOT NULL THEN 'It was killed before it had a job.'
      WHEN j.pandaid IS NULL THEN t.errordialog ELSE j.error_diag END AS reason,
    coalesce({_NEWER.format("u.xmin")} OR j.newer OR f.newer, t.bound IS NULL)
      OR t.moved AND u.refusal IS NULL AND coalesce(f.waiting, true) AS changed
  FROM t JOIN jedi_units u ON u.jeditaskid = t.task
    LEFT JOIN j ON j.task = u.jeditaskid AND j.unit_nr = u.unit_nr
    LEFT JOIN f ON f.task = u.jeditaskid AND f.unit_nr = u.unit_nr
  WHERE {_OF.format("u.unit_nr")}
), g AS (
  SELECT task, state, count(*) AS n, json_agg(json_build_array(unit_nr, state, attempts, pandaid,
    job, site, exit_code, reason) ORDER BY unit_nr) FILTER (WHERE changed) AS changed
  FROM u GROUP BY task, state
)
SELECT t.task AS jedi_task_id, t.status, t.errordialog AS reason, t.complete,
  coalesce(jsonb_object_agg(g.state, g.n) FILTER (WHERE g.state IS NOT NULL), '{{}}') AS counts,
  json_agg(g.changed) FILTER (WHERE g.changed IS NOT NULL) AS changed
FROM t LEFT JOIN g USING (task)
GROUP BY t.task, t.status, t.errordialog, t.complete ORDER BY t.task
""")


@dataclass(frozen=True, slots=True)
class UnitSummary:
    """A unit now: its state, and of its latest attempt the PandaID, status, site, exit code and
    reason. A refused unit has its refusal as the reason, one without a job that of its task."""

    unit_nr: int
    state: str
    attempts: int | None = None
    panda_id: int | None = None
    job_status: str | None = None
    site: str | None = None
    exit_code: int | None = None
    reason: str | None = None


class HerdStates(NamedTuple):
    """A herd with its units by state, and lists of those that changed. `complete`: all its units
    are known."""

    jedi_task_id: int
    status: str
    reason: str | None
    complete: bool
    counts: dict[str, int]
    changed: list[list[list[Any]]] | None

    @property
    def units(self) -> list[UnitSummary]:
        """The units that changed, by number."""
        found = [UnitSummary(*one) for some in self.changed or () for one in some]
        return sorted(found, key=lambda one: one.unit_nr)


@dataclass(frozen=True, slots=True)
class StatesQuestion:
    """A herd, the oldest transaction that ran at the last answer, and its status then; None: there
    was no answer, and all units are asked for."""

    jedi_task_id: int
    bound: int | None = None
    status: str | None = None


def states_of(
    tx: Connection, asked: Sequence[StatesQuestion], units: Sequence[int] | None = None
) -> list[HerdStates]:
    """The herds among tasks with their states, in one statement; `units`: of these alone."""
    values = {
        "ids": [one.jedi_task_id for one in asked],
        "bounds": [one.bound for one in asked],
        "statuses": [one.status for one in asked],
        "units": None if units is None else list(units),
    }
    return rows_of(HerdStates, tx.execute(_STATES, values))


_ATTEMPTS = "pandaid, status, site, exit_code, error_diag, starttime, endtime"
_OF_UNIT = text(f"""
SELECT pandaid AS panda_id, status, site, exit_code, error_diag AS reason,
  starttime AS started, endtime AS ended
FROM (SELECT {_ATTEMPTS} FROM jedi_jobs
      WHERE jeditaskid = :task AND unit_nr = :unit AND kind = 'normal' UNION ALL
      SELECT {_ATTEMPTS} FROM jedi_jobs_archived
      WHERE jeditaskid = :task AND unit_nr = :unit AND kind = 'normal') j ORDER BY pandaid
""")


@dataclass(frozen=True, slots=True)
class UnitAttempt:
    """An attempt of a unit: a job."""

    panda_id: int
    status: str
    site: str | None
    exit_code: int | None
    reason: str | None
    started: datetime | None
    ended: datetime | None


def attempts(tx: Connection, jedi_task_id: int, unit_nr: int) -> list[UnitAttempt]:
    """The attempts of a unit, the first one first."""
    return rows_of(UnitAttempt, tx.execute(_OF_UNIT, {"task": jedi_task_id, "unit": unit_nr}))


_MADE = text(f"""
SELECT f.fileid AS file_id, j.unit_nr, coalesce(f.source_name, f.lfn) AS name
FROM {all_jobs("pandaid, jeditaskid, unit_nr, kind")} j
  JOIN {all_files("pandaid, fileid, source_name, lfn, type")} f USING (pandaid)
WHERE j.jeditaskid = :task AND j.kind = 'normal' AND f.type = 'output'
""")


class MadeByUnit(NamedTuple):
    """An output file of a unit, and the name that its payload gave it."""

    file_id: int
    unit_nr: int
    name: str


def made_by_units(tx: Connection, jedi_task_id: int) -> dict[int, MadeByUnit]:
    """The outputs of the units of a task, by file id."""
    rows = rows_of(MadeByUnit, tx.execute(_MADE, {"task": jedi_task_id}))
    return {row.file_id: row for row in rows}
