"""Jobs whose files are on their way: assigned (inputs), transferring (outputs), held for that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.attempt import JobFile
from jedi.taskbuffer.db.sql_lists import PRODUCT_TYPES
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.jobs.order_files import JOB_FILES, STAGING, job_files, staging


class StagedJob(NamedTuple):
    """A holding job: its attempt, the endpoints for its pilot, its output files."""

    lock_seq: int
    endpoints: list[str] | None
    files: list[list[Any]] | None


_LAID_DOWN = returns(StagedJob)(f"""
SELECT lock_seq, {STAGING.format(site="j.site")} AS endpoints,
  {JOB_FILES.format(condition="f.type = ANY(:types)")} AS files
FROM jedi_jobs j WHERE pandaid = :id AND status = 'holding'
""")


def laid_down(tx: Connection, panda_id: int) -> tuple[str, int, tuple[JobFile, ...]] | None:
    """Staged outputs of a job that are not stored yet: the endpoint and the
    lock_seq of the staging directory where it lies, the files. None: the job is not `holding`."""
    values = {"id": panda_id, "types": list(states.OUTPUT_TYPES)}
    if (row := _LAID_DOWN.row(tx, **values)) is None:
        return None
    files = job_files(row.files)
    return staging(row.endpoints, files), row.lock_seq, files


class HeldInputs(NamedTuple):
    """The input files of a held job."""

    panda_id: int
    files: list[list[Any]] | None


_BROUGHT = returns(HeldInputs)(f"""
SELECT pandaid, {JOB_FILES.format(condition="f.type = ANY(:types)")} AS files
FROM jedi_jobs j WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND hold_kind = 'manual_stage_in'
ORDER BY pandaid
""")


def brought_by_owners(tx: Connection, panda_ids: Sequence[int]) -> list[tuple[int, JobFile]]:
    """The inputs of those of the jobs that are held until their owners have brought them."""
    values = {"ids": list(panda_ids), "types": list(states.FILE_TYPES)}
    rows = _BROUGHT.rows(tx, **values)
    return [(row.panda_id, file) for row in rows for file in job_files(row.files) if file.endpoint]


class MovingJob(NamedTuple):
    """A job whose files are on their way, for `age_s`; `kept`: datasets whose files stay where
    they are brought to; `files`: for `job_files()`."""

    panda_id: int
    site: str
    priority: int
    processing_type: str | None
    kept: list[str]
    age_s: float
    files: Any


_MOVING = returns(MovingJob)(f"""
WITH waiting AS (
  SELECT pandaid, jeditaskid, site, priority, processingtype, statechangetime,
    row_number() OVER (PARTITION BY site ORDER BY priority DESC, pandaid) AS place
  FROM jedi_jobs WHERE moving AND status = :status AND hold_kind IS NULL
    AND pandaid <> ALL(:not_yet)
)
SELECT pandaid, site, priority, processingtype,
  ARRAY(SELECT d.datasetname FROM jedi_datasets d WHERE d.jeditaskid = j.jeditaskid
    AND (d.type IN ({PRODUCT_TYPES})
      OR 'manytime' = ANY(string_to_array(d.attributes, ',')))) AS kept,
  CAST(extract(epoch FROM jedi_now() - statechangetime) AS float8) AS age_s,
  {JOB_FILES.format(condition="f.type = ANY(:types)")} AS files
FROM waiting j WHERE place <= :limit ORDER BY site, place
""")


def moving_jobs(
    tx: Connection, status: str, types: Collection[str], not_yet: Collection[int], limit: int
) -> list[MovingJob]:
    """Up to `limit` jobs of each site in this status that are not held, by site, highest priority
    first, but for those of `not_yet`; their files of these types."""
    values = {"status": status, "types": list(types), "not_yet": list(not_yet), "limit": limit}
    return _MOVING.rows(tx, **values)
