"""Lists of a task's jobs for people: the jobs, causes of failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.queries import JobQuery
from jedi.taskbuffer.db.sql_lists import FED_FILE_TYPES
from jedi.taskbuffer.db.statement import Statement, returns
from jedi.taskbuffer.reports.conditions import JOB_COLUMNS, where
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs

TAIL_CHARACTERS = 2_000
"""Characters of the log that is shown beside a cause of failures."""

_UNSUCCESSFUL = "j.status <> 'finished'"
"""The condition of an index on archived jobs, most of which have finished."""


_JOB = """
SELECT j.pandaid, j.originpandaid, j.unit_nr,
  j.attemptnr, h.predecessors, h.relation, j.kind, j.status, j.substatus, j.kill_code,
  j.site, j.priority, j.n_inputs, j.memory_mb, j.creationtime,
  j.starttime, j.endtime, j.exit_code, j.error_source, j.error_code,
  j.error_diag, j.cpu_s, j.wall_s, j.max_rss_kb, t.stderr_tail,
  CASE WHEN j.status = 'failed' THEN ARRAY(
    SELECT effect FROM jedi_retry_matches m WHERE m.pandaid = j.pandaid ORDER BY m.rule_id)
  END AS retry_effects
FROM {table} j LEFT JOIN jedi_job_tail t USING (pandaid), LATERAL (
  SELECT array_agg(oldpandaid ORDER BY oldpandaid) AS predecessors, min(relationtype) AS relation
  FROM jedi_job_retry_history WHERE jeditaskid = :task AND newpandaid = j.pandaid) h
WHERE j.jeditaskid = :task AND (CAST(:statuses AS text[]) IS NULL OR j.status = ANY(:statuses))
  AND (CAST(:ids AS bigint[]) IS NULL OR j.pandaid = ANY(:ids))
  AND (CAST(:after AS bigint) IS NULL OR j.pandaid > :after)
  AND {{conditions}}
"""


_PARTS = (
    f"{_JOB.format(table='jedi_jobs')} AND j.postprocessed_at IS NULL",
    f"{_JOB.format(table='jedi_jobs')} AND j.postprocessed_at IS NOT NULL",
    _JOB.format(table="jedi_jobs_archived"),
)
_JOBS = f"""
{" UNION ALL ".join(f"({part} ORDER BY j.pandaid LIMIT :limit)" for part in _PARTS)}
ORDER BY pandaid LIMIT :limit
"""
"""Completed by conditions.where. Each part has an index in the order of its jobs and gives its
first ones, so that a page costs what it returns."""


@dataclass(frozen=True, slots=True)
class JobMetadata:
    """Metadata that the payload of a job reported."""

    panda_id: int
    metadata: dict[str, Any]


METADATA = returns(JobMetadata)(f"""
-- The metadata of a task's finished jobs.
SELECT pandaid, metadata
FROM {all_jobs("pandaid, jeditaskid, status, metadata")} j
WHERE jeditaskid = :task AND status = 'finished' AND metadata IS NOT NULL
ORDER BY pandaid LIMIT :limit
""")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause of failed jobs: how many, and the latest of them, with the end of its stderr; the
    times at which the first and the last one failed."""

    error_code: str | None
    error_source: str | None
    exit_code: int | None
    jobs: int
    panda_id: int
    error_diag: str | None
    first_seen: datetime
    last_seen: datetime
    stderr_tail: str | None


FAILURES = returns(FailureCause)(f"""
-- The causes of a task's failed jobs, the most frequent first, each with its latest job.
SELECT error_code, error_source, exit_code, CAST(c.jobs AS bigint) AS jobs, c.panda_id,
  j.error_diag, c.first_seen, c.last_seen, right(t.stderr_tail, {TAIL_CHARACTERS}) AS stderr_tail
FROM (
  SELECT error_code, error_source, exit_code, sum(jobs) AS jobs, max(panda_id) AS panda_id,
    min(first_seen) AS first_seen, max(last_seen) AS last_seen
  FROM (
    SELECT error_code, error_source, exit_code, count(*) AS jobs, max(pandaid) AS panda_id,
      min(statechangetime) AS first_seen, max(statechangetime) AS last_seen
    FROM jedi_jobs
    WHERE jeditaskid = :task AND status = 'failed' AND postprocessed_at IS NOT NULL GROUP BY 1, 2, 3
    UNION ALL
    SELECT cause ->> 0, cause ->> 1, CAST(cause ->> 2 AS int), jobs, last_job, first_seen, last_seen
    FROM job_stats_archived WHERE jeditaskid = :task AND status = 'failed') b
  GROUP BY error_code, error_source, exit_code) c
  CROSS JOIN LATERAL (SELECT error_diag FROM {all_jobs("pandaid, error_diag")} j
    WHERE j.pandaid = c.panda_id OFFSET 0) j
  LEFT JOIN jedi_job_tail t ON t.pandaid = c.panda_id
ORDER BY c.jobs DESC, c.panda_id
""")


class JobRow(NamedTuple):
    """A job of a task as people look at it."""

    panda_id: int
    origin_panda_id: int
    unit_nr: int
    attempt_nr: int
    predecessors: list[int] | None
    relation: str | None
    kind: str
    status: str
    substatus: str | None
    kill_code: str | None
    site: str
    priority: int
    n_inputs: int
    memory_mb: int
    creation_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    exit_code: int | None
    error_source: str | None
    error_code: str | None
    error_diag: str | None
    cpu_s: float | None
    wall_s: float | None
    max_rss_kb: int | None
    stderr_tail: str | None
    retry_effects: list[str] | None


def jobs(
    tx: Connection,
    jedi_task_id: int,
    query: JobQuery,
    limit: int,
    ids: Sequence[int] | None = None,
    after: int | None = None,
) -> list[JobRow]:
    """The jobs of a task, or those of `ids`, archived ones too; `after`: only greater ids.
    BadInput."""
    more, given = where(query.conditions, JOB_COLUMNS)
    if query.status and "finished" not in query.status:
        more = f"{_UNSUCCESSFUL} AND {more}"
    values = {
        "task": jedi_task_id,
        "statuses": query.status,
        "limit": limit,
        "ids": ids,
        "after": after,
        **given,
    }
    return _listed(more).rows(tx, **values)


@lru_cache(maxsize=256)
def _listed(conditions: str) -> Statement[JobRow]:
    return returns(JobRow)(_JOBS.format(conditions=conditions))


_WORST_FIRST = ["failed", "cancelled", "closed", *states.JOB_LIVE, "finished"]
_STANDING = returns(int)(f"""
WITH RECURSIVE d(pandaid) AS (
  SELECT CAST(:job AS bigint)
  UNION
  SELECT h.newpandaid FROM d JOIN jedi_job_retry_history h ON h.oldpandaid = d.pandaid
)
SELECT j.pandaid FROM d JOIN {all_jobs("pandaid, jeditaskid, status")} j USING (pandaid)
WHERE j.jeditaskid = :task AND (EXISTS (
  SELECT FROM {all_files("pandaid, fileid, jeditaskid")} f JOIN jedi_dataset_contents c
    ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  WHERE f.pandaid = j.pandaid AND c.pandaid = j.pandaid
    AND (c.type IN ({FED_FILE_TYPES}) OR c.type = ANY(:merged) AND c.status <> 'failed'))
  -- no input names a consumer of ranges: the last of a row stands
  OR EXISTS (SELECT FROM jedi_consumers c WHERE c.pandaid = j.pandaid) AND NOT EXISTS (
    SELECT FROM jedi_job_retry_history h WHERE h.oldpandaid = j.pandaid))
ORDER BY array_position(CAST(:worst AS text[]), j.status), j.pandaid
""")


def standing(tx: Connection, jedi_task_id: int, panda_id: int) -> list[int]:
    """The jobs, of this one and all that took over from it, that had an input last: they show its
    fate. The worst ends come first, finished jobs last."""
    values = {
        "task": jedi_task_id,
        "job": panda_id,
        "worst": _WORST_FIRST,
        "merged": list(states.PRE_MERGE_TYPES),
    }
    return _STANDING.rows(tx, **values)
