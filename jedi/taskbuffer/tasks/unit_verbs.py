"""Units that are killed, or submitted again: their marks, files and jobs.

The caller has seized the task: no agent makes jobs of its files meanwhile. Then it has locked the
jobs, and then the datasets, as those do who end jobs.
Source: docs/reference/ganga.md#kill-and-resubmit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.needs import JobNeeds
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import FED_TYPES, MASTER_TYPES
from jedi.taskbuffer.db.statement import changes, returns

UNITS = "units"
"""Argument of the retry of some units of a task: their files are ready already."""

_LIVE = returns(int)("""
SELECT pandaid FROM jedi_jobs
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[])) AND kind = 'normal'
  AND postprocessed_at IS NULL AND status = ANY(:statuses) ORDER BY pandaid
""")


def live_jobs(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> list[int]:
    """The jobs of units that have not ended."""
    values = {"task": jedi_task_id, "units": list(units), "statuses": list(states.JOB_LIVE)}
    return _LIVE.rows(tx, **values)


NUMBERS = returns(int)("""
-- The numbers of all units of a task.
SELECT unit_nr FROM jedi_units WHERE jeditaskid = :task ORDER BY unit_nr
""")


EXISTS = returns(bool)("""
-- True if a task has a unit with this number.
SELECT EXISTS (SELECT FROM jedi_units WHERE jeditaskid = :task AND unit_nr = :unit)
""")


KILL = changes("""
-- Mark units as killed: when their jobs end, their files are not tried again.
UPDATE jedi_units SET killed_at = jedi_now()
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
""")


LOCK_DATASETS = changes("""
-- Lock all datasets of a task in one order, before any of them is changed.
SELECT FROM jedi_datasets WHERE jeditaskid = :task ORDER BY datasetid FOR NO KEY UPDATE
""")


_LOCK_INPUTS = changes(f"""
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
_GIVE_UP_KILLED = changes(_GIVE_UP.format("u.killed_at IS NOT NULL"))
_GIVE_UP_OTHERS = changes(_GIVE_UP.format("u.unit_nr <> ALL(CAST(:units AS int[]))"))


def give_up_killed(tx: Connection, task_ids: Sequence[int]) -> None:
    """Fail the ready files of killed units: they are not tried any more."""
    if task_ids:
        _LOCK_INPUTS.run(tx, ids=list(task_ids))
        _GIVE_UP_KILLED.run(tx, ids=list(task_ids))
        wake(tx, "files:done")


_KILL_OTHERS = changes(f"""
UPDATE jedi_units u SET killed_at = jedi_now()
WHERE u.jeditaskid = :task AND u.unit_nr <> ALL(CAST(:units AS int[])) AND u.killed_at IS NULL
  AND u.refusal IS NULL AND u.superseded IS NULL
  AND u.unit_nr NOT IN (  -- a hash: a join compared each unit with each file of new, large tasks
    SELECT c.boundaryid
    FROM jedi_dataset_contents c JOIN jedi_datasets d USING (jeditaskid, datasetid)
    WHERE c.jeditaskid = :task AND c.boundaryid IS NOT NULL AND d.masterid IS NULL
      AND c.type IN ({MASTER_TYPES}) AND c.status IN ('finished', 'failed'))
""")


def leave_others(tx: Connection, jedi_task_id: int, units: Sequence[int], *, killed: bool) -> None:
    """Let a task that has ended go on with these units alone: files of others that were not used
    are given up. `killed`: the task was, and so these units were."""
    values = {"task": jedi_task_id, "units": list(units)}
    if killed:
        _KILL_OTHERS.run(tx, **values)
    _GIVE_UP_OTHERS.run(tx, ids=[jedi_task_id], units=list(units))


_UNMARK = changes("""
UPDATE jedi_units SET killed_at = NULL
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
""")
_REVIVE = changes(f"""
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
    _UNMARK.run(tx, **values)
    _REVIVE.run(tx, **values)
    wake(tx, "files:ready")


FINISHED_JOBS = returns(int)("""
-- The jobs of units that had success.
SELECT pandaid FROM jedi_jobs WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[]))
  AND kind = 'normal' AND status = 'finished'
UNION ALL
SELECT pandaid FROM jedi_jobs_archived
WHERE jeditaskid = :task AND unit_nr = ANY(CAST(:units AS int[])) AND kind = 'normal'
  AND status = 'finished'
""")


class MergedUnits(NamedTuple):
    """A finished merge job, and the units whose outputs it merged."""

    panda_id: int
    units: list[int]


MERGED = returns(MergedUnits)("""
-- The finished merge jobs of a task whose results count.
SELECT c.pandaid, array_agg(DISTINCT c.boundaryid ORDER BY c.boundaryid) AS units
FROM jedi_dataset_contents c JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE d.jeditaskid = :task AND d.type = 'trn_output' AND c.status = 'finished'
GROUP BY c.pandaid
""")


class TaskNeeds(NamedTuple):
    """Cores and memory that a task asks for."""

    core_count: int | None
    ram_count: int | None
    ram_unit: str | None
    base_ram_count: int | None


_NEEDS = returns(TaskNeeds)("""
SELECT corecount, ramcount, ramunit,
  baseramcount
FROM jedi_tasks WHERE jeditaskid = :task
""")


def needs(tx: Connection, jedi_task_id: int) -> TaskNeeds:
    """The present needs of a task."""
    found: TaskNeeds | None = _NEEDS.row(tx, task=jedi_task_id)
    assert found is not None
    return found


MAX_ATTEMPTS = returns(int)("""
-- The attempts that a task gives its files; None: it leaves them to a knob.
SELECT CAST(taskparams ->> 'maxAttempt' AS int) FROM jedi_taskparams WHERE jeditaskid = :task
""")


_CHANGE_NEEDS = changes("""
WITH p AS (
  UPDATE jedi_taskparams SET taskparams = taskparams || jsonb_strip_nulls(jsonb_build_object(
    'coreCount', CAST(:cores AS int), 'ramCount', CAST(:memory AS int),
    'ramUnit', CASE WHEN CAST(:memory AS int) > 0 THEN 'MB' END,
    'baseRamCount', CASE WHEN CAST(:memory AS int) > 0 THEN 0 END,
    'baseWalltime', CAST(:walltime AS int), 'maxAttempt', CAST(:attempts AS int)))
  WHERE jeditaskid = :task
), c AS (
  UPDATE jedi_dataset_contents SET ramcount = NULL
  WHERE jeditaskid = :task AND CAST(:memory AS int) > 0 AND ramcount IS NOT NULL
    AND boundaryid = ANY(CAST(:units AS int[]))
)
UPDATE jedi_tasks SET corecount = coalesce(CAST(:cores AS int), corecount),
  ramcount = coalesce(CAST(:memory AS int), ramcount),
  ramunit = CASE WHEN CAST(:memory AS int) > 0 THEN 'MB' ELSE ramunit END,
  baseramcount = CASE WHEN CAST(:memory AS int) > 0 THEN 0 ELSE baseramcount END,
  basewalltime = coalesce(CAST(:walltime AS int), basewalltime), resource_type = :shape
WHERE jeditaskid = :task
""")


def change_needs(
    tx: Connection, jedi_task_id: int, units: Sequence[int], new: JobNeeds, shape: str
) -> None:
    """Give the next jobs of a task other needs, and the shape of jobs that follows from them; files
    of these units need no more memory than that."""
    _CHANGE_NEEDS.run(
        tx,
        task=jedi_task_id,
        units=list(units),
        cores=new.cores,
        memory=new.memory_mb,
        walltime=new.walltime_s,
        attempts=new.max_attempts,
        shape=shape,
    )
