"""Units that are killed, or submitted again: their marks, files and jobs.

The caller has seized the task: no agent makes jobs of its files meanwhile.
Source: docs/reference/ganga.md#kill-and-resubmit.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from jedi.core import states
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import FED_TYPES, MASTER_TYPES

UNITS = "units"
"""Argument of the retry of some units of a task: their files are ready already."""

_LIVE = text("""
SELECT pandaid FROM jedi_jobs
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[])) AND kind = 'normal'
  AND postprocessed_at IS NULL AND status = ANY(:statuses) ORDER BY pandaid
""")


def live_jobs(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> list[int]:
    """The jobs of units that have not ended."""
    values = {"task": jedi_task_id, "units": list(units), "statuses": list(states.JOB_LIVE)}
    return list(tx.scalars(_LIVE, values))


_NUMBERS = text("SELECT unit_nr FROM jedi_units WHERE jeditaskid = :task ORDER BY unit_nr")


_MAKES_OUTPUT = text("""
SELECT EXISTS (
  SELECT FROM jedi_datasets WHERE jeditaskid = :task AND type IN ('output', 'trn_output'))
""")


def makes_output(tx: Connection, jedi_task_id: int) -> bool:
    """True if the jobs of a task make outputs beside their logs. A finished job without any can't
    be undone: nothing would show that its inputs were processed again on purpose."""
    return bool(tx.scalar(_MAKES_OUTPUT, {"task": jedi_task_id}))


def numbers(tx: Connection, jedi_task_id: int) -> list[int]:
    """The numbers of all units of a task."""
    return list(tx.scalars(_NUMBERS, {"task": jedi_task_id}))


_KILL = text("""
UPDATE jedi_units SET killed_at = jedi_now()
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
""")
_LAST = text(f"""
UPDATE jedi_dataset_contents c SET maxattempt = c.attemptnr
WHERE c.jeditaskid = :task AND c.boundaryid = ANY(CAST(:units AS int[]))
  AND c.type IN ({MASTER_TYPES}) AND c.status = 'running' AND c.attemptnr < c.maxattempt
""")


def kill(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> None:
    """Mark units as killed. Their jobs are the last attempt of their files."""
    values = {"task": jedi_task_id, "units": list(units)}
    tx.execute(_KILL, values)
    tx.execute(_LOCK_INPUTS, {"ids": [jedi_task_id]})
    tx.execute(_LAST, values)


_LOCK_INPUTS = text(f"""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type IN ({FED_TYPES})
ORDER BY datasetid FOR NO KEY UPDATE
""")
_GIVE_UP = f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'failed', proc_status = 'failed'
  FROM jedi_units u JOIN jedi_datasets d USING (jeditaskid)
  WHERE u.jeditaskid = ANY(CAST(:ids AS bigint[])) AND {{}}
    AND d.masterid IS NULL AND d.type IN ({MASTER_TYPES}) AND c.datasetid = d.datasetid
    AND c.jeditaskid = u.jeditaskid AND c.boundaryid = u.unit_nr AND c.ready
  RETURNING c.datasetid
), g AS (SELECT datasetid, count(*) AS n FROM c GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilesfailed = d.nfilesfailed + g.n, nfilesused = d.nfilesused + g.n
FROM g WHERE d.datasetid = g.datasetid
"""
_GIVE_UP_KILLED = text(_GIVE_UP.format("u.killed_at IS NOT NULL"))
_GIVE_UP_OTHERS = text(_GIVE_UP.format("u.unit_nr <> ALL(CAST(:units AS int[]))"))


def give_up_killed(tx: Connection, task_ids: Sequence[int]) -> None:
    """Fail the ready files of killed units: they are not tried any more."""
    if task_ids:
        tx.execute(_LOCK_INPUTS, {"ids": list(task_ids)})
        tx.execute(_GIVE_UP_KILLED, {"ids": list(task_ids)})
        wake(tx, "files:done")


_KILL_OTHERS = text(f"""
UPDATE jedi_units u SET killed_at = jedi_now()
WHERE u.jeditaskid = :task AND u.unit_nr <> ALL(CAST(:units AS int[])) AND u.killed_at IS NULL
  AND u.refusal IS NULL AND NOT EXISTS (
    SELECT FROM jedi_dataset_contents c JOIN jedi_datasets d USING (jeditaskid, datasetid)
    WHERE c.jeditaskid = :task AND c.boundaryid = u.unit_nr AND d.masterid IS NULL
      AND c.type IN ({MASTER_TYPES}) AND c.status IN ('finished', 'failed'))
""")


def leave_others(tx: Connection, jedi_task_id: int, units: Sequence[int], *, killed: bool) -> None:
    """Let a task that has ended go on with these units alone: files of others that were not used
    are given up. `killed`: the task was, and so these units were."""
    values = {"task": jedi_task_id, "units": list(units)}
    if killed:
        tx.execute(_KILL_OTHERS, values)
    tx.execute(_LOCK_INPUTS, {"ids": [jedi_task_id]})
    tx.execute(_GIVE_UP_OTHERS, {"ids": [jedi_task_id], "units": list(units)})


_UNMARK = text("""
UPDATE jedi_units SET killed_at = NULL
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
""")
_REVIVE = text(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready',
    maxattempt = greatest(c.maxattempt, c.attemptnr + a.adds),
    maxfailure = CASE WHEN c.failedattempt >= c.maxfailure THEN c.failedattempt + a.adds
                      ELSE c.maxfailure END
  FROM (SELECT CASE WHEN rules ? 'disable_auto_retry' THEN 1 ELSE :adds END AS adds
        FROM jedi_tasks WHERE jeditaskid = :task) a
  WHERE c.jeditaskid = :task AND c.boundaryid = ANY(CAST(:units AS int[]))
    AND c.type IN ({FED_TYPES}) AND c.status = 'failed'
  RETURNING c.datasetid
), g AS (SELECT datasetid, count(*) AS n FROM c GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilesfailed = d.nfilesfailed - g.n, nfilesused = d.nfilesused - g.n
FROM g WHERE d.datasetid = g.datasetid
""")


def revive(tx: Connection, jedi_task_id: int, units: Sequence[int], adds: int) -> None:
    """Let the failed files of units be tried `adds` times more (once, where nothing is retried by
    itself)."""
    values = {"task": jedi_task_id, "units": list(units), "adds": adds}
    tx.execute(_UNMARK, values)
    tx.execute(_LOCK_INPUTS, {"ids": [jedi_task_id]})
    tx.execute(_REVIVE, values)
    wake(tx, "files:ready")


_FINISHED_JOBS = text("""
SELECT pandaid FROM jedi_jobs WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
  AND kind = 'normal' AND status = 'finished'
UNION ALL
SELECT pandaid FROM jedi_jobs_archived
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[])) AND kind = 'normal'
  AND status = 'finished'
""")


def finished_jobs(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> list[int]:
    """The jobs of units that had success."""
    return list(tx.scalars(_FINISHED_JOBS, {"task": jedi_task_id, "units": list(units)}))
