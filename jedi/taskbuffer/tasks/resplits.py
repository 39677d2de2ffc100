"""Units whose input is cut again, and the new units that get it.

The caller has seized the task and locked its datasets. Source: docs/reference/ganga.md#resplit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.tasks import herds


class _ReadFiles(NamedTuple):
    unit_nr: int
    file_ids: list[int]


_FILES = returns(_ReadFiles)(f"""
SELECT CAST(c.boundaryid AS int) AS unit_nr, array_agg(c.fileid ORDER BY c.fileid) AS file_ids
FROM jedi_datasets d JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.jeditaskid = :task AND d.masterid IS NULL AND c.type IN ({MASTER_TYPES})
  AND c.boundaryid = ANY(CAST(:units AS int[]))
GROUP BY c.boundaryid
""")


def files(tx: Connection, jedi_task_id: int, units: Sequence[int]) -> dict[int, list[int]]:
    """The ids of the files that units read, in their order."""
    found = _FILES.rows(tx, task=jedi_task_id, units=list(units))
    return {row.unit_nr: row.file_ids for row in found}


_MARK = changes("""
UPDATE jedi_units u SET superseded = n.state
FROM unnest(CAST(:units AS int[]), CAST(:states AS text[])) n(unit_nr, state)
WHERE u.jeditaskid = :task AND u.unit_nr = n.unit_nr
""")
_COUNT = returns(int)("""
UPDATE jedi_herds SET n_units = n_units + :added WHERE jeditaskid = :task
RETURNING n_units - :added + 1
""")
_ADD = changes("""
INSERT INTO jedi_units (jeditaskid, unit_nr, originpandaid, options)
SELECT u.jeditaskid, n.new, n.origin, u.options
FROM unnest(CAST(:news AS int[]), CAST(:olds AS int[]), CAST(:origins AS bigint[]))
    n(new, old, origin)
  JOIN jedi_units u ON u.jeditaskid = :task AND u.unit_nr = n.old
""")
_MOVE = changes("""
UPDATE jedi_dataset_contents c SET boundaryid = n.unit_nr
FROM unnest(CAST(:files AS bigint[]), CAST(:units AS int[])) n(file, unit_nr)
WHERE c.fileid = n.file AND c.jeditaskid = :task
""")


def supersede(
    tx: Connection,
    jedi_task_id: int,
    states: Mapping[int, str],
    parts: Sequence[tuple[int, Sequence[int]]],
) -> list[int]:
    """Supersede units, which keep these states, by new ones: a unit for each part of the files of
    an old one. Their numbers."""
    old = {"task": jedi_task_id, "units": list(states), "states": list(states.values())}
    _MARK.run(tx, **old)
    first: int = _COUNT.value(tx, task=jedi_task_id, added=len(parts))
    made = [*range(first, first + len(parts))]
    _ADD.run(
        tx,
        task=jedi_task_id,
        news=made,
        olds=[unit for unit, _ in parts],
        origins=herds.reserve(tx, len(parts)),
    )
    moved = [(file, new) for new, (_, part) in zip(made, parts, strict=True) for file in part]
    _MOVE.run(
        tx, task=jedi_task_id, files=[file for file, _ in moved], units=[new for _, new in moved]
    )
    return made
