"""Bad input files: those to blame for the end of a job, in all rows that no job has.

A file has several rows if its events are cut into ranges, or if its dataset stands below several
masters. No job has the row of a file that several jobs may use at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.model.splitting.split_rules import SCOUTING
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import FED_FILE_TYPES, MASTER_TYPES, OUTPUT_TYPES
from jedi.taskbuffer.db.statement import changes

BadInput = tuple[int, str, str]
"""A job, the LFN of an input that it can't use, and the problem: missing or broken."""

_NOTE = changes(f"""
UPDATE jedi_job_files f SET problem = b.problem
FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[]), CAST(:problems AS text[]))
  AS b(id, lfn, problem)
WHERE f.pandaid = b.id AND f.lfn = b.lfn AND f.type NOT IN ({OUTPUT_TYPES})
""")


def columns(files: Sequence[BadInput]) -> dict[str, list[int] | list[str]]:
    """The values of a statement about such inputs, column by column."""
    return {
        "ids": [job for job, _, _ in files],
        "lfns": [lfn for _, lfn, _ in files],
        "problems": [problem for _, _, problem in files],
    }


def note(tx: Connection, files: Sequence[BadInput]) -> None:
    """Note inputs that jobs, which the caller has locked, can't use. The ends of these jobs mark
    the files."""
    if files:
        _NOTE.run(tx, **columns(files))


_FREE = "'ready', 'pending'"

# Datasets that others have locked are left out: to wait for them after higher numbers could be a
# deadlock. So are rows that the generator is giving to jobs. The next job that gets such a file
# reports it, too. A generator that has only read a row makes its jobs anew (inputs_changed).
_SKIP = changes(f"""
WITH b AS MATERIALIZED (
  SELECT f.fileid, f.jeditaskid, f.datasetid, d.datasetname, f.lfn, f.problem,
    f.start_event IS NOT NULL AS cut
  FROM jedi_jobs j,
    LATERAL (SELECT * FROM jedi_job_files WHERE pandaid = j.pandaid AND problem IS NOT NULL
      AND type IN ({FED_FILE_TYPES}) OFFSET 0) f,
    LATERAL (SELECT datasetname FROM jedi_datasets WHERE datasetid = f.datasetid OFFSET 0) d
  WHERE j.pandaid = ANY(CAST(:ids AS bigint[])) AND j.status <> 'finished'
), d AS MATERIALIZED (
  SELECT datasetid, jeditaskid, datasetname FROM jedi_datasets WHERE datasetid = ANY(ARRAY(
    SELECT s.datasetid FROM (SELECT DISTINCT jeditaskid, datasetname FROM b) b, LATERAL (
      SELECT datasetid FROM jedi_datasets s WHERE s.jeditaskid = b.jeditaskid
        AND s.datasetname = b.datasetname AND s.type IN ({FED_FILE_TYPES}) OFFSET 0) s))
  ORDER BY datasetid FOR NO KEY UPDATE SKIP LOCKED
), s AS MATERIALIZED (  -- datasets that may have other rows of these files: each is read once
  SELECT datasetid, jsonb_object_agg(lfn, problem) AS bad FROM (
    SELECT d.datasetid, b.lfn, min(b.problem) AS problem
    FROM d JOIN b USING (jeditaskid, datasetname)
    WHERE b.cut OR b.datasetid <> d.datasetid GROUP BY d.datasetid, b.lfn) f
  GROUP BY datasetid
), m AS MATERIALIZED (
  SELECT fileid, min(problem) AS problem FROM (
    SELECT b.fileid, b.problem FROM b JOIN d USING (datasetid)
    UNION ALL
    SELECT c.fileid, s.bad ->> c.lfn FROM s, LATERAL (
      SELECT fileid, lfn FROM jedi_dataset_contents
      WHERE datasetid = s.datasetid AND status IN ({_FREE}) AND s.bad ? lfn OFFSET 0) c) f
  GROUP BY fileid
), r AS MATERIALIZED (
  SELECT fileid, datasetid, status = 'pending' AS withheld,
    coalesce(endevent - startevent + 1, nevents) AS events
  FROM jedi_dataset_contents  -- by their numbers: a join read all files of all tasks
  WHERE fileid = ANY(ARRAY(SELECT fileid FROM m)) AND status IN ({_FREE})
  ORDER BY fileid FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE jedi_dataset_contents c SET status = m.problem, proc_status = 'failed'
  FROM r JOIN m USING (fileid) WHERE c.fileid = r.fileid
), g AS (
  SELECT datasetid, count(*) AS n, count(*) FILTER (WHERE withheld) AS withheld,
    sum(events) FILTER (WHERE withheld) AS events
  FROM r GROUP BY datasetid
)
UPDATE jedi_datasets d SET nfilesmissing = d.nfilesmissing + g.n,
  -- withheld files count as released, as those that are lost do; the number of scouts stays
  nfilestobeused = CASE WHEN d.masterid IS NULL AND d.type IN ({MASTER_TYPES})
      AND t.rules ->> 'use_scout' = '{SCOUTING}'
    THEN least(d.nfilestobeused + g.n, g.withheld + (SELECT count(*) FROM jedi_dataset_contents c
      WHERE c.datasetid = d.datasetid
        AND c.status NOT IN ('pending', 'staging', 'waiting', 'skipped')))
    ELSE d.nfilestobeused + g.withheld END,
  neventstobeused = coalesce(d.neventstobeused + g.events, d.neventstobeused, g.events)
FROM g, jedi_tasks t WHERE d.datasetid = g.datasetid AND t.jeditaskid = d.jeditaskid
""")


def skip(tx: Connection, panda_ids: Sequence[int]) -> None:
    """Let no further job have the inputs that were to blame for the ends of these jobs, whose
    datasets are locked."""
    if _SKIP.run(tx, ids=list(panda_ids)):
        wake(tx, "files:done")
