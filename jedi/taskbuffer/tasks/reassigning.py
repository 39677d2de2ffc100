"""Reassignment of a task: its new place, and the return of attempts that were not its fault."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.sql_lists import INPUT_TYPES, PRODUCT_TYPES

_LOCK_DATASETS = text("""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY datasetid FOR NO KEY UPDATE
""")
_SPARE = text(f"""
UPDATE jedi_dataset_contents c SET maxattempt = c.attemptnr + 1
FROM jedi_job_files f
WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({INPUT_TYPES})
  AND c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid AND c.pandaid = f.pandaid
  AND c.attemptnr >= c.maxattempt
""")


def spare_inputs(tx: Connection, task_ids: Sequence[int], panda_ids: Sequence[int]) -> None:
    """Let the inputs of these jobs of the tasks be tried once more if this was their last attempt:
    the jobs, which the caller has locked, are about to be closed, which is no fault of the
    inputs."""
    tx.execute(_LOCK_DATASETS, {"ids": list(task_ids)})
    tx.execute(_SPARE, {"ids": list(panda_ids)})


_SET_DESTINATION = text(f"""
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
    tx.execute(_LOCK_DATASETS, {"ids": ids})
    tx.execute(_SET_DESTINATION, {"ids": ids, "sites": sites, "nuclei": nuclei})
