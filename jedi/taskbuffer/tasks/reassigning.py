"""Reassignment of a task: its new place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import PRODUCT_TYPES
from jedi.taskbuffer.db.statement import changes

_LOCK_DATASETS = changes("""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY datasetid FOR NO KEY UPDATE
""")
_SET_DESTINATION = changes(f"""
WITH p AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:sites AS text[]), CAST(:nuclei AS text[]))
    p(id, site, nucleus)
), t AS (
  UPDATE jedi_tasks t SET site = coalesce(p.site, t.site), nucleus = coalesce(p.nucleus, t.nucleus)
  FROM p WHERE t.jeditaskid = p.id
), o AS (
  UPDATE jedi_taskparams o SET taskparams = o.taskparams
    || jsonb_strip_nulls(jsonb_build_object('site', p.site, 'nucleus', p.nucleus))
  FROM p WHERE o.jeditaskid = p.id
)
UPDATE jedi_datasets d SET destination = NULL
FROM p WHERE d.jeditaskid = p.id AND p.nucleus IS NOT NULL AND d.type IN ({PRODUCT_TYPES})
""")


def set_destination(tx: Connection, places: Sequence[tuple[int, str | None, str | None]]) -> None:
    """Give tasks another site or nucleus, or leave the one they have: (task, site, nucleus). With a
    nucleus, where the outputs go is to be found anew."""
    ids, sites, nuclei = map(list, zip(*places, strict=True))
    _LOCK_DATASETS.run(tx, ids=ids)
    _SET_DESTINATION.run(tx, ids=ids, sites=sites, nuclei=nuclei)
