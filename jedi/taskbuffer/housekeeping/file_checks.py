"""Invariants of jobs with their files, and of what jobs run by; see checks.py.

Those of files look at each file once, beside its dataset and the jobs that have it. A condition
says which files an invariant is about, another one which of them break it.

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
from jedi.taskbuffer.schema.dataset_rules import SHARED

_AT_WORK = "'picked', 'running', 'partial'"
_UNDONE = f"{_AT_WORK}, 'failed', 'lost', 'missing', 'broken'"


def _used(files: str, jobs: str) -> str:
    """Files with a job that lives or succeeded; live consumers of events have files as well."""
    return f"""
    SELECT f.pandaid, f.fileid, f.jeditaskid, f.datasetid, j.status = 'finished' AS finished,
      f.type IN ({OUTPUT_TYPES}) AS makes,
      f.type IN ({OUTPUT_TYPES}) AND j.kind NOT IN ({CONSUMER_KINDS}) AS writes,
      f.type IN ({INPUT_TYPES}) AND j.kind NOT IN ({CONSUMER_KINDS}) AS takes,
      f.type = 'pp_input' AS builds
    FROM {files} f JOIN {jobs} j USING (pandaid) WHERE j.status IN ({JOB_LIVE}, 'finished')"""


ROWS = f"""
SELECT coalesce(c.fileid, u.fileid) AS id, coalesce(c.jeditaskid, u.jeditaskid) AS task,
  c.fileid IS NOT NULL AS known, c.status, c.pandaid, c.attemptnr, c.maxattempt,
  c.type = 'random_seed' AS is_seed, c.type IN ('input', 'pseudo_input') AS is_main,
  c.type IN ({FED_TYPES}) AS is_fed, c.type IN ({INPUT_TYPES}) AS is_input,
  c.type IN ({OUTPUT_TYPES}) AS is_output, d.datasetid, d.status AS dataset, d.master, d.shared,
  d.task_status, u.*
FROM jedi_dataset_contents c FULL JOIN (
  SELECT fileid, jeditaskid, min(datasetid) AS used_in, bool_or(NOT finished) AS lives,
    bool_or(finished) AS succeeded, bool_or(finished AND makes) AS made,
    count(*) FILTER (WHERE writes) AS writers,
    count(*) FILTER (WHERE takes AND NOT finished) AS takers,
    count(*) FILTER (WHERE uses) AS users, min(pandaid) FILTER (WHERE uses) AS first_user,
    max(pandaid) FILTER (WHERE uses) AS last_user,
    bool_or(finished) FILTER (WHERE uses) AS processed,
    bool_or(NOT finished) FILTER (WHERE uses) AS in_use
  FROM (
    SELECT f.*, takes AND NOT builds AND NOT (finished AND s.pandaid IS NOT NULL) AS uses
    FROM ({_used("jedi_job_files", "jedi_jobs")} UNION ALL
      {_used("jedi_job_files_archived", "jedi_jobs_archived")}) f
      LEFT JOIN jedi_superseded_jobs s USING (pandaid)
    ORDER BY fileid, jeditaskid) f  -- sorted: a hash of all files is beyond the memory
  GROUP BY fileid, jeditaskid) u USING (fileid, jeditaskid)
LEFT JOIN (
  SELECT d.datasetid, d.jeditaskid, d.status, t.status AS task_status, {SHARED} AS shared,
    d.masterid IS NULL AND d.status <> 'removed' AS master
  FROM jedi_datasets d LEFT JOIN jedi_tasks t USING (jeditaskid)) d
ON d.datasetid = coalesce(c.datasetid, u.used_in) AND d.jeditaskid = coalesce(c.jeditaskid,
  u.jeditaskid)
OFFSET 0"""
"""All files, known ones and those of jobs, each with its dataset and what its jobs are to it.
`users`: the jobs that live or have processed it, superseded ones apart, and builds (pp_input):
software that was lost is built again. OFFSET: what several conditions need is computed once."""

TWO_LIVE_JOBS = ROWS, "takers > 0 AND NOT shared", "takers > 1"

PROCESSED_ONCE = ROWS, "users > 0 AND NOT shared", "users > 1 AND processed"
"""A file that a job has processed is processed by no other one."""

INPUTS_OF_JOBS = (
    ROWS,
    "users > 0 AND NOT shared",
    "pandaid IS DISTINCT FROM first_user OR first_user <> last_user "
    "OR processed AND status <> 'finished' OR in_use AND status <> 'running'",
)
"""Nobody takes an input of a live job for another job, nor one that was processed."""

SHARED_INPUTS = (
    ROWS,
    "is_input AND shared IS NOT NULL",
    f"shared AND status IN ({_AT_WORK}, 'finished')",
)
"""Files that several jobs may have are ready beside their jobs and after them."""

ONE_WRITER = ROWS, "writers > 0", "writers > 1"
"""A job's outputs go to its heir when it has failed, and all copies of a job have the same."""

RUNNING_INPUTS = ROWS, "is_input AND status = 'running'", "lives IS NOT TRUE"
FINISHED_INPUTS = ROWS, "is_input AND status = 'finished'", "succeeded IS NOT TRUE"
FINISHED_OUTPUTS = ROWS, "is_output AND status = 'finished'", "succeeded IS NOT TRUE"
OPEN_OUTPUTS = ROWS, "is_output AND status IN ('defined', 'running')", "lives IS NOT TRUE"
OUTPUTS_OF_FINISHED_JOBS = (
    ROWS,
    "made",
    "coalesce(status, '') NOT IN ('finished', 'nooutput') "
    "AND (id, task) NOT IN (SELECT fileid, jeditaskid FROM jedi_lost_files)",
)
ATTEMPTS = ROWS, "is_input AND NOT is_seed", "attemptnr > maxattempt"
DATASET_OF_FILE = ROWS, "known", "datasetid IS NULL"

DONE_TASKS = ROWS, "is_main AND master", f"task_status = 'done' AND status IN ({_UNDONE})"
"""All master inputs of a done task that were to be used are finished."""

DONE_DATASETS = (
    ROWS,
    "is_fed AND datasetid IS NOT NULL",
    f"dataset = 'done' AND status IN ({_AT_WORK})",
)
"""A task whose datasets are done ends: no job has files of them."""

FILES_OF_JOBS = f"""
SELECT j.pandaid, NOT coalesce(f.inputs AND f.outputs, false)
FROM jedi_jobs j LEFT JOIN (
  SELECT pandaid, bool_or(type IN ({INPUT_TYPES})) AS inputs,
    bool_or(type NOT IN ({INPUT_TYPES})) AS outputs FROM jedi_job_files GROUP BY pandaid) f
  USING (pandaid)
WHERE j.status IN ({JOB_LIVE})"""
