"""Units that come with a submission.

Source: docs/reference/herds.md#explicit; docs/reference/ganga.md#submission.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.model.splitting.units import GivenUnit
from jedi.taskbuffer.db.copying import copy_rows
from jedi.taskbuffer.db.statement import changes, returns

ORIGINS = returns(list[int])("""
-- PandaIDs for so many units of a herd: the originator's and new ones, ascending.
SELECT originpandaid || ARRAY(SELECT nextval('jedi_panda_id_seq') FROM generate_series(2, :n))
FROM jedi_herds WHERE jeditaskid = :task
""")


_COUNT = changes("""
UPDATE jedi_herds SET n_units = :n,
  split_at = CASE WHEN after = 'refine' THEN jedi_now() END
WHERE jeditaskid = :task
""")


def write(
    tx: Connection,
    jedi_task_id: int,
    origins: Sequence[int],
    options: Sequence[str],
    units: Sequence[GivenUnit],
) -> None:
    """Write the units of a new herd, with their PandaIDs and their options as JSON. A herd that
    reads no file is split by that."""
    block = {
        "jeditaskid": jedi_task_id,
        "unit_nr": [*range(1, len(units) + 1)],
        "originpandaid": [*origins],
        "options": [*options],
        "files": [None if one.files is None else json.dumps(one.files) for one in units],
        "refusal": [one.refusal for one in units],
    }
    copy_rows(tx, "jedi_units", [block])
    _COUNT.run(tx, task=jedi_task_id, n=len(units))


class RefusedUnit(NamedTuple):
    """A unit that the submission refused."""

    jedi_task_id: int
    unit_nr: int
    refusal: str


REFUSED = returns(RefusedUnit)("""
-- The refused units of tasks, in their order.
SELECT jeditaskid, unit_nr, refusal FROM jedi_units
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND refusal IS NOT NULL
ORDER BY jeditaskid, unit_nr
""")


class _UnitFiles(NamedTuple):
    jedi_task_id: int
    files: list[str] | None
    refusal: str | None


_GIVEN = returns(_UnitFiles)("""
SELECT jeditaskid, files, refusal FROM jedi_units
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) ORDER BY jeditaskid, unit_nr
""")


def given(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[GivenUnit]]:
    """The units of explicit herds, in their order, without their options."""
    found: dict[int, list[GivenUnit]] = {}
    for row in _GIVEN.rows(tx, ids=list(task_ids)):
        found.setdefault(row.jedi_task_id, []).append(GivenUnit({}, row.files, row.refusal))
    return found
