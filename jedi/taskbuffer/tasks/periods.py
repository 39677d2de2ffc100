"""Periodical tasks: their files wait until their period comes.

Nobody takes a file that is `waiting`. As long as there is one the task does not end; an endless one
gets a new file for each that is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER

ANY_PERIODICAL = returns(bool)("""
-- Return True if there is a task whose time may come.
SELECT EXISTS (SELECT FROM jedi_tasks WHERE period IS NOT NULL AND status IN ('ready', 'running'))
""")


class PeriodicalTask(NamedTuple):
    """A task with a period that is due, or was never computed, at the time `now`."""

    jedi_task_id: int
    period: str
    next_period: datetime | None
    now: datetime


DUE = returns(PeriodicalTask)("""
-- Lock tasks whose time has come, or was never computed.
SELECT jeditaskid, period, nextperiod, jedi_now() AS now
FROM jedi_tasks
WHERE period IS NOT NULL AND status IN ('ready', 'running')
  AND (nextperiod IS NULL OR nextperiod <= jedi_now())
ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")


SET_NEXT = changes("""
-- Note when the next period of tasks begins.
UPDATE jedi_tasks t SET nextperiod = n.at
FROM unnest(CAST(:ids AS bigint[]), CAST(:times AS timestamptz[])) n(id, at)
WHERE t.jeditaskid = n.id
""")


_LOCK = changes(f"""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
  AND masterid IS NULL AND type IN ({MASTER_TYPES}) ORDER BY datasetid FOR NO KEY UPDATE
""")
_RELEASE = returns(int)(f"""
WITH f AS (
  SELECT t.jeditaskid, c.fileid,
    NOT (p.taskparams ? 'nFiles' OR t.rules @> '{{"pfn_list": true}}') AS endless
  FROM jedi_tasks t JOIN jedi_taskparams p USING (jeditaskid), LATERAL (
    SELECT c.fileid FROM jedi_datasets d JOIN jedi_dataset_contents c USING (datasetid)
    WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER} AND c.status = 'waiting'
    ORDER BY c.datasetid, c.fileid
    LIMIT coalesce(CAST(t.rules ->> 'n_files_per_job' AS bigint), 1)) c
  WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
), u AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready'
  FROM f WHERE c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  RETURNING c.*, f.endless AND c.type = 'pseudo_input' AS followed
), n AS (
  INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, lfn, status, proc_status,
    keeptrack, maxattempt, maxfailure, fsize)
  SELECT datasetid, jeditaskid, type, lfn, 'waiting', 'waiting', keeptrack, maxattempt, maxfailure,
    fsize FROM u WHERE followed
), g AS (
  SELECT datasetid, jeditaskid, count(*) AS released, count(*) FILTER (WHERE followed) AS added
  FROM u GROUP BY datasetid, jeditaskid
), d AS (
  UPDATE jedi_datasets d SET nfilestobeused = d.nfilestobeused + g.released,
    nfiles = d.nfiles + g.added, modificationtime = jedi_now()
  FROM g WHERE d.datasetid = g.datasetid
)
SELECT DISTINCT jeditaskid FROM u
""")


def release(tx: Connection, tasks: Sequence[int]) -> list[int]:
    """Let the files of one job of each of these tasks, which the caller has locked, be used; those
    that had some. A task without input that does not say how many jobs it wants gets as many new
    files, which wait."""
    ids = {"ids": list(tasks)}
    _LOCK.run(tx, **ids)
    released = _RELEASE.rows(tx, **ids)
    if released:
        wake(tx, "files:ready")
    return released
