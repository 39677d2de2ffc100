"""jedi_herds and jedi_units: tasks with a splitter, and the children that the split makes.

Source: docs/reference/herds.md#records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.jobs.generation import HerdUnit
from jedi.model.splitting.units import OptionValue
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.copying import copy_rows
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.tasks import tasks

BEGIN = changes("""
-- Make a new task a herd, in the transaction that stores it. The PandaID of its first unit, the
-- originator, is the next one, unless the task is tried out under `origin`.
INSERT INTO jedi_herds (jeditaskid, originpandaid, splitter, after)
VALUES (:task, coalesce(CAST(:origin AS bigint), nextval('jedi_panda_id_seq')), :splitter, :after)
""")


ANY_TO_SPLIT = returns(bool)("""
-- True if there may be a herd to split.
SELECT EXISTS (SELECT FROM jedi_herds h JOIN jedi_tasks t USING (jeditaskid)
               WHERE h.split_at IS NULL AND t.status = 'defined')
""")


TO_SPLIT = "to_split"
"""Reason of a herd whose input is known, and which is to be divided."""

_DUE = f"""
AND EXISTS (SELECT FROM jedi_herds h WHERE h.jeditaskid = jedi_tasks.jeditaskid
  AND h.split_at IS NULL AND (h.after = 'refine' OR jedi_tasks.reason_code = '{TO_SPLIT}'))
"""
NOT_DUE = _DUE.replace("AND EXISTS", "AND NOT EXISTS", 1)
"""SQL: a task `jedi_tasks` that does not wait for its split."""


def claim(tx: Connection, me: str, lease_s: float, limit: int) -> list[ClaimedTask]:
    """Take herds that are to be split now."""
    return tasks.claim(tx, ("defined",), me, lease_s, limit, _DUE)


class HerdManifest(NamedTuple):
    """A herd as submitted: the PandaID of its originator, its strategy with the options, and the
    options that every child has."""

    jedi_task_id: int
    origin: int
    splitter: str
    options: dict[str, Any]
    values: dict[str, OptionValue]


MANIFESTS = returns(HerdManifest)("""
-- The manifests of herds.
SELECT h.jeditaskid, h.originpandaid AS origin, h.splitter,
  p.taskparams #> '{splitter,options}' AS options, p.taskparams #> '{splitter,values}' AS values
FROM jedi_herds h JOIN jedi_taskparams p USING (jeditaskid)
WHERE h.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


class HerdFiles(NamedTuple):
    """The files of a master dataset that are to be divided, by name, column by column."""

    jedi_task_id: int
    dataset_id: int
    dataset_name: str
    file_ids: list[int]
    lfns: list[str]
    sizes: list[int]
    events: list[int | None]
    boundaries: list[int | None]


FILES = returns(HerdFiles)("""
-- The input of herds, a value for each master dataset.
SELECT d.jeditaskid, d.datasetid, d.datasetname,
  f.*
FROM jedi_datasets d, LATERAL (
  SELECT array_agg(fileid ORDER BY lfn) AS file_ids, array_agg(lfn ORDER BY lfn) AS lfns,
    array_agg(coalesce(fsize, 0) ORDER BY lfn) AS sizes,
    array_agg(nevents ORDER BY lfn) AS events, array_agg(boundaryid ORDER BY lfn) AS boundaries
  FROM jedi_dataset_contents c
  WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid
    AND c.status IN ('pending', 'staging')) f
WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.type = 'input' AND d.masterid IS NULL
  AND f.file_ids IS NOT NULL
ORDER BY d.jeditaskid, d.datasetid
""")


LOCK_UNSPLIT = returns(int)("""
-- The herds among tasks, which the caller has locked, that are not split and that no command waits
-- for: a kill wins.
SELECT h.jeditaskid FROM jedi_herds h
WHERE h.jeditaskid = ANY(CAST(:ids AS bigint[])) AND h.split_at IS NULL AND NOT EXISTS (
  SELECT FROM jedi_commands c WHERE c.jeditaskid = h.jeditaskid AND c.acknowledged_at IS NULL)
ORDER BY 1 FOR UPDATE OF h
""")


_RESERVE = returns(int)("SELECT nextval('jedi_panda_id_seq') FROM generate_series(1, :n)")


def reserve(tx: Connection, number: int) -> list[int]:
    """So many PandaIDs, ascending."""
    return _RESERVE.rows(tx, n=number) if number > 0 else []


class FilePart(NamedTuple):
    """A file of a unit, or its events from `start` to before `stop`."""

    file_id: int
    unit_nr: int
    start: int | None
    stop: int | None


@dataclass(frozen=True, slots=True)
class NewUnits:
    """The units of a herd, in their order: their number, PandaIDs, own options as JSON, and files.
    Explicit ones have PandaIDs and options already, and bring none."""

    jedi_task_id: int
    n_units: int
    origins: Sequence[int]
    options: Sequence[str]
    parts: Sequence[FilePart]


# A file of several units has a row for each: its own for the last one, so that the rows of a unit
# stand in the order of their files.
_DIVIDE = changes("""
WITH n AS (
  SELECT *, row_number() OVER (PARTITION BY file ORDER BY unit DESC) AS nr
  FROM unnest(CAST(:files AS bigint[]), CAST(:units AS bigint[]), CAST(:starts AS bigint[]),
    CAST(:stops AS bigint[])) n(file, unit, first, stop)
), f AS (
  SELECT c.*, coalesce(sum(c.nevents) OVER (
      PARTITION BY c.datasetid ORDER BY c.lfn ROWS UNBOUNDED PRECEDING), 0) - c.nevents AS before
  FROM jedi_dataset_contents c WHERE c.jeditaskid = ANY(CAST(:ids AS bigint[]))
    AND c.fileid = ANY(CAST(:files AS bigint[]))
), u AS (
  UPDATE jedi_dataset_contents c SET boundaryid = n.unit, startevent = n.first,
    endevent = n.stop - 1, firstevent = f.before + n.first + 1
  FROM n JOIN f ON f.fileid = n.file
  WHERE n.nr = 1 AND c.jeditaskid = f.jeditaskid AND c.fileid = n.file
), i AS (
  INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, scope, status, proc_status,
    keeptrack, maxattempt, maxfailure, lfn, guid, fsize, checksum, nevents, startevent, endevent,
    firstevent, boundaryid, lumiblocknr)
  SELECT f.datasetid, f.jeditaskid, f.type, f.scope, f.status, f.proc_status, f.keeptrack,
    f.maxattempt, f.maxfailure, f.lfn, f.guid, f.fsize, f.checksum, f.nevents, n.first, n.stop - 1,
    f.before + n.first + 1, n.unit, f.lumiblocknr
  FROM n JOIN f ON f.fileid = n.file WHERE n.nr > 1
  RETURNING datasetid
), g AS (SELECT datasetid, count(*) AS added FROM i GROUP BY datasetid)
UPDATE jedi_datasets d SET nfiles = d.nfiles + g.added FROM g WHERE d.datasetid = g.datasetid
""")
_FINISH = changes("""
WITH d AS (  -- looked at at once, and for the last time
  UPDATE jedi_datasets SET statechecktime = NULL WHERE datasetid IN (
    SELECT datasetid FROM jedi_datasets
    WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type = 'input' AND status = 'running'
    ORDER BY datasetid FOR NO KEY UPDATE)
)
UPDATE jedi_herds h SET n_units = n.units, split_at = jedi_now()
FROM unnest(CAST(:ids AS bigint[]), CAST(:counts AS int[])) n(id, units)
WHERE h.jeditaskid = n.id
""")


def finish(tx: Connection, new: Sequence[NewUnits]) -> None:
    """Write the units of herds, which the caller has locked, and the unit of each file: then they
    are split."""
    if not new:
        return
    copy_rows(
        tx,
        "jedi_units",
        (
            {
                "jeditaskid": one.jedi_task_id,
                "unit_nr": [*range(1, len(one.origins) + 1)],
                "originpandaid": [*one.origins],
                "options": [*one.options],
            }
            for one in new
        ),
    )
    if parts := [part for one in new for part in one.parts]:
        values = {
            "ids": [one.jedi_task_id for one in new],
            "files": [part.file_id for part in parts],
            "units": [part.unit_nr for part in parts],
            "starts": [part.start for part in parts],
            "stops": [part.stop for part in parts],
        }
        _DIVIDE.run(tx, **values)
    counts = [one.n_units for one in new]
    _FINISH.run(tx, ids=[one.jedi_task_id for one in new], counts=counts)
    wake(tx, "task:defined", "files:more")


_UNITS = returns(HerdUnit)("""
SELECT u.unit_nr, u.originpandaid AS origin, NOT EXISTS (
  SELECT FROM jedi_jobs j WHERE j.pandaid = u.originpandaid
  UNION ALL SELECT FROM jedi_jobs_archived j WHERE j.pandaid = u.originpandaid) AS is_new,
  u.options
FROM jedi_units u WHERE u.jeditaskid = :task AND u.unit_nr = ANY(CAST(:units AS int[]))
""")


def units(tx: Connection, jedi_task_id: int, numbers: Sequence[int]) -> dict[int, HerdUnit]:
    """The units of a herd that have these numbers, with their own options."""
    rows = _UNITS.rows(tx, task=jedi_task_id, units=list(numbers))
    return {row.unit_nr: row for row in rows}


_COUNTS = returns(tuple[int, int])("""
SELECT jeditaskid, CASE WHEN split_at IS NULL THEN 0 ELSE n_units END AS n_units
FROM jedi_herds
WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def counts(tx: Connection, task_ids: Sequence[int]) -> dict[int, int]:
    """The numbers of units of those tasks that are herds; 0: it is not split."""
    return dict(_COUNTS.rows(tx, ids=list(task_ids)))


IS_HERD = returns(bool)("""
-- True if a task has a splitter.
SELECT EXISTS (SELECT FROM jedi_herds WHERE jeditaskid = :task)
""")
