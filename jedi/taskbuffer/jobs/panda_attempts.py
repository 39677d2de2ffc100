"""Attempts as pilots of PanDA name them: by the job alone, with files at an exchange directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.attempt import JobFile
from jedi.taskbuffer.db.sql_lists import OUTPUT_TYPES
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.jobs.order_files import JOB_FILES, STAGING, job_files, staging


class AttemptStanding(NamedTuple):
    """The last attempt of a job: its number, its status, and the end that its pilot reported."""

    panda_id: int
    lock_seq: int
    status: str
    pilot_result: str | None


_STANDINGS = returns(AttemptStanding)("""
SELECT pandaid, lock_seq, status, pilot_result FROM jedi_jobs
WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND site = :site
""")


def standings(tx: Connection, site: str, panda_ids: Sequence[int]) -> dict[int, AttemptStanding]:
    """The last attempts of the jobs of a site among these, by PandaID."""
    return {one.panda_id: one for one in _STANDINGS.rows(tx, ids=panda_ids, site=site)}


class _ToCollect(NamedTuple):
    status: str
    endpoints: list[str] | None
    files: list[list[Any]] | None


_TO_COLLECT = returns(_ToCollect)(f"""
SELECT status, {STAGING.format(site="j.site")} AS endpoints,
  {JOB_FILES.format(condition=f"f.type IN ({OUTPUT_TYPES})")} AS files
FROM jedi_jobs j WHERE pandaid = :id AND lock_seq = :seq AND site = :site
""")


def to_collect(
    tx: Connection, site: str, panda_id: int, lock_seq: int
) -> tuple[str, tuple[JobFile, ...]] | None:
    """The endpoint where an attempt stages its outputs, and these. None: the attempt is not at the
    site any more."""
    values = {"id": panda_id, "seq": lock_seq, "site": site}
    row = _TO_COLLECT.row(tx, **values)
    if row is None or row.status not in states.JOB_AT_SITE:
        return None
    files = job_files(row.files)
    return staging(row.endpoints, files), files
