"""Invariants of jobs with their files, and of what jobs run by; see checks.py.

Source: docs/reference/task-states.md#invariants-of-files.
"""

from __future__ import annotations

from jedi.taskbuffer.db.sql_lists import (
    CONSUMER_KINDS,
    FED_TYPES,
    INPUT_TYPES,
    JOB_LIVE,
    OUTPUT_TYPES,
)
from jedi.taskbuffer.jobs import all_jobs
from jedi.taskbuffer.schema.dataset_rules import SHARED

_AT_WORK = "'picked', 'running', 'partial'"
_UNDONE = f"{_AT_WORK}, 'failed', 'lost', 'missing', 'broken'"

TWO_LIVE_JOBS = f"""
SELECT f.fileid, count(*) OVER (PARTITION BY f.fileid) > 1
FROM jedi_job_files f JOIN jedi_jobs j ON j.pandaid = f.pandaid
  JOIN jedi_datasets d ON d.datasetid = f.datasetid AND d.jeditaskid = f.jeditaskid
WHERE j.status IN ({JOB_LIVE}) AND f.type IN ({INPUT_TYPES}) AND NOT {SHARED}
  AND j.kind NOT IN ({CONSUMER_KINDS})"""

_JOBS = all_jobs.all_jobs("pandaid, status, kind")
_FILES = all_jobs.all_files("pandaid, fileid, jeditaskid, datasetid, type")
_USES = f"""(
  SELECT f.fileid, f.jeditaskid, j.pandaid, j.status
  FROM {_FILES} f JOIN {_JOBS} j ON j.pandaid = f.pandaid
    JOIN jedi_datasets d ON d.datasetid = f.datasetid AND d.jeditaskid = f.jeditaskid
    LEFT JOIN jedi_superseded_jobs s ON s.pandaid = j.pandaid
  WHERE (j.status IN ({JOB_LIVE}) OR j.status = 'finished' AND s.pandaid IS NULL)
    AND f.type IN ({INPUT_TYPES}) AND f.type <> 'pp_input' AND NOT {SHARED}
    AND j.kind NOT IN ({CONSUMER_KINDS}))"""
"""Input files with their jobs that live or have processed them. Software that was lost is built
again: builds (pp_input) are apart."""

PROCESSED_ONCE = f"""
SELECT u.fileid, count(*) OVER w > 1 AND bool_or(u.status = 'finished') OVER w
FROM {_USES} u WINDOW w AS (PARTITION BY u.fileid)"""
"""A file that a job has processed is processed by no other one."""

INPUTS_OF_JOBS = f"""
SELECT u.fileid, coalesce(c.status, '') <> CASE WHEN u.status = 'finished' THEN u.status
                                                ELSE 'running' END
  OR c.pandaid IS DISTINCT FROM u.pandaid
FROM {_USES} u
  LEFT JOIN jedi_dataset_contents c ON c.fileid = u.fileid AND c.jeditaskid = u.jeditaskid"""
"""Nobody takes an input of a live job for another job, nor one that was processed."""

SHARED_INPUTS = f"""
SELECT c.fileid, {SHARED} AND c.status IN ({_AT_WORK}, 'finished')
FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
WHERE c.type IN ({INPUT_TYPES})"""
"""Files that several jobs may have are ready beside their jobs and after them."""

ONE_WRITER = f"""
SELECT f.fileid, count(*) OVER (PARTITION BY f.fileid) > 1
FROM {_FILES} f JOIN {_JOBS} j ON j.pandaid = f.pandaid
WHERE f.type IN ({OUTPUT_TYPES}) AND (j.status IN ({JOB_LIVE}) OR j.status = 'finished')
  AND j.kind NOT IN ({CONSUMER_KINDS})"""
"""A job's outputs go to its heir when it has failed, and all copies of a job have the same."""

FILES_OF_JOBS = f"""
SELECT j.pandaid, NOT coalesce(f.inputs AND f.outputs, false)
FROM jedi_jobs j LEFT JOIN (
  SELECT pandaid, bool_or(type IN ({INPUT_TYPES})) AS inputs,
    bool_or(type NOT IN ({INPUT_TYPES})) AS outputs FROM jedi_job_files GROUP BY pandaid) f
  USING (pandaid)
WHERE j.status IN ({JOB_LIVE})"""

DONE_TASKS = f"""
SELECT c.fileid, t.status = 'done' AND c.status IN ({_UNDONE})
FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
  JOIN jedi_tasks t ON t.jeditaskid = c.jeditaskid
WHERE c.type IN ('input', 'pseudo_input') AND d.masterid IS NULL AND d.status <> 'removed'"""
"""All master inputs of a done task that were to be used are finished."""

DONE_DATASETS = f"""
SELECT c.fileid, d.status = 'done' AND c.status IN ({_AT_WORK})
FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
WHERE c.type IN ({FED_TYPES})"""
"""A task whose datasets are done ends: no job has files of them."""
