"""The database's record of a task's products, for its comparison with data management."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, OUTPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.inputs.contents import lfns_of
from jedi.taskbuffer.inputs.recovery import LOST
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs

DUPLICATES = "duplicates_found"
"""The code with which tasks are paused for that."""

_JOBS = all_jobs("jeditaskid, pandaid, status, purged_at")
_FILES = all_files("pandaid, fileid, datasetid, type")


@dataclass(frozen=True, slots=True)
class Products:
    """LFNs of an output or log dataset: `made` by the task's jobs with success, unless the dataset
    has expired since, or the job was purged, which keeps its log; files that were lost before are
    among them, unless they are made again. `bad`: of no job, of whatever task, that had success or
    may have it yet."""

    made: frozenset[str]
    bad: frozenset[str]


class DatasetProducts(NamedTuple):
    """LFNs of an output or log dataset, a line each: see Products."""

    name: str
    made: str | None
    bad: str | None


# One text a dataset: a row a file costs three times as much.
_PRODUCTS = returns(DatasetProducts)(f"""
SELECT o.datasetname AS name, string_agg(f.lfn, E'\\n') FILTER (WHERE f.made) AS made,
  string_agg(f.lfn, E'\\n') FILTER (WHERE f.bad) AS bad
FROM (
  SELECT DISTINCT datasetname FROM jedi_datasets
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type IN ({OUTPUT_TYPES})
) o, LATERAL (
  SELECT c.lfn, bool_and(c.status = 'failed' AND NOT {LOST}) AS bad,
    bool_or((c.status = 'finished' OR {LOST})
      AND c.jeditaskid = ANY(CAST(:ids AS bigint[]))
      AND d.state IS DISTINCT FROM 'missing' AND (c.type = 'output' AND c.outpandaid IN (
        SELECT pandaid FROM {_JOBS} j WHERE j.jeditaskid = ANY(CAST(:ids AS bigint[]))
          AND j.purged_at IS NOT NULL)) IS NOT TRUE) AS made
  FROM jedi_datasets d JOIN jedi_dataset_contents c USING (datasetid)
  WHERE d.datasetname = o.datasetname AND d.type IN ({OUTPUT_TYPES}) GROUP BY c.lfn) f
GROUP BY o.datasetname
""")


def products(tx: Connection, task_ids: Sequence[int]) -> dict[str, Products]:
    """Return the records of the output and log datasets of tasks, by name."""
    rows = _PRODUCTS.rows(tx, ids=list(task_ids))
    return {row.name: Products(lfns_of(row.made), lfns_of(row.bad)) for row in rows}


_LOSE = changes(f"""
WITH w AS (
  SELECT * FROM unnest(CAST(:datasets AS bigint[]), CAST(:lfns AS text[])) w(datasetid, lfn)
), k AS (  -- in the order in which all lock them
  SELECT FROM jedi_datasets WHERE datasetid IN (SELECT datasetid FROM w)
  ORDER BY datasetid FOR NO KEY UPDATE
), c AS (
  UPDATE jedi_dataset_contents c SET status = 'failed', proc_status = 'failed'
  FROM (SELECT count(*) FROM k) locked
  WHERE c.datasetid = ANY(CAST(:datasets AS bigint[]))
    AND ((c.datasetid, c.lfn) IN (SELECT * FROM w)) IS TRUE  -- a hash: no pairs of all with all
    AND c.type IN ({OUTPUT_TYPES}) AND c.status = 'finished'
  RETURNING c.jeditaskid, c.datasetid, c.fileid, c.lfn
), d AS (
  UPDATE jedi_datasets d SET nfilesfinished = d.nfilesfinished - g.n,
    nfilesfailed = d.nfilesfailed + g.n
  FROM (SELECT datasetid, count(*) AS n FROM c GROUP BY datasetid) g
  WHERE d.datasetid = g.datasetid
  RETURNING d.datasetid, d.datasetname
)
INSERT INTO jedi_lost_files (jeditaskid, fileid, datasetname, lfn, removed_at)
SELECT c.jeditaskid, c.fileid, d.datasetname, c.lfn, jedi_now() FROM c JOIN d USING (datasetid)
ON CONFLICT DO NOTHING
""")


def lose(tx: Connection, gone: Mapping[int, Collection[str]]) -> None:
    """Let files that jobs with success made, by dataset id, and that data management has not, count
    as failed and as lost. A recovery makes outputs again, nobody logs."""
    if pairs := [(dataset, lfn) for dataset in gone for lfn in sorted(gone[dataset])]:
        datasets, lfns = map(list, zip(*pairs, strict=True))
        _LOSE.run(tx, datasets=datasets, lfns=lfns)


# A superseded job does not count: its input was given back. Nor does a consumer of ranges: the
# merge job of its job set has the inputs.
_DUPLICATES = returns(tuple[int, int])(f"""
WITH twice AS MATERIALIZED (
  SELECT t.jeditaskid, t.attemptnr
  FROM jedi_tasks t JOIN {_JOBS} j USING (jeditaskid)
    JOIN {_FILES} f USING (pandaid) JOIN jedi_datasets d ON d.datasetid = f.datasetid
  WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[])) AND t.status = 'prepared'
    AND j.status = 'finished' AND d.type IN ({MASTER_TYPES}) AND d.masterid IS NULL
    AND NOT EXISTS (SELECT FROM jedi_consumers c WHERE c.pandaid = j.pandaid)
    AND NOT EXISTS (SELECT FROM jedi_superseded_jobs s WHERE s.pandaid = j.pandaid)
  GROUP BY t.jeditaskid, t.attemptnr, f.fileid HAVING count(*) > 1
)
SELECT jeditaskid, count(*) AS n FROM twice t
WHERE NOT EXISTS (SELECT FROM jedi_tasks_statuslog l WHERE l.jeditaskid = t.jeditaskid
  AND l.attemptnr = t.attemptnr AND l.status = 'paused' AND l.reason_code = '{DUPLICATES}')
GROUP BY jeditaskid
""")


def duplicates(tx: Connection, task_ids: Sequence[int]) -> dict[int, int]:
    """The number of master files (or ranges) of each prepared task that more than one job has
    processed with success; none, once the task was paused for it in this attempt. Many jobs may use
    a secondary file."""
    return dict(_DUPLICATES.rows(tx, ids=list(task_ids)))
