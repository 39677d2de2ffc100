"""jedi_subjobs: subjobs, as registries know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


@dataclass(frozen=True, slots=True)
class KnownSubjob:
    """A subjob as its registry knows it. `override`: JSON."""

    k: int
    status: str
    attempt: int | None
    panda_id: int | None
    site: str | None
    exit_code: int | None
    reason: str | None
    superseded: bool
    override: str


CLEAR = changes("""
-- Forget the subjobs of a job.
DELETE FROM jedi_subjobs WHERE guid = :guid AND job = :job
""")


PUT = changes("""
-- Subjobs now, column by column. Known ones keep their overrides.
INSERT INTO jedi_subjobs AS u (guid, job, k, status, attempt, panda_id, site, exit_code, reason,
  superseded, override)
SELECT :guid, n.* FROM unnest(CAST(:jobs AS bigint[]), CAST(:ks AS integer[]),
  CAST(:statuses AS text[]), CAST(:attempts AS integer[]), CAST(:panda_ids AS bigint[]),
  CAST(:sites AS text[]), CAST(:exit_codes AS bigint[]), CAST(:reasons AS text[]),
  CAST(:supersededs AS bool[]), CAST(:overrides AS text[]))
  AS n (job, k, status, attempt, panda_id, site, exit_code, reason, superseded, override)
ON CONFLICT (guid, job, k) DO UPDATE SET status = excluded.status, attempt = excluded.attempt,
  panda_id = excluded.panda_id, site = excluded.site, exit_code = excluded.exit_code,
  reason = excluded.reason, superseded = excluded.superseded
""")


class SubjobCount(NamedTuple):
    """The number of subjobs of a job with a status, without superseded ones."""

    job: int
    status: str
    number: int


COUNTS = returns(SubjobCount)("""
-- Numbers of subjobs by job and status.
SELECT job, status, count(*) AS number FROM jedi_subjobs
WHERE guid = :guid AND job = ANY(CAST(:jobs AS bigint[])) AND NOT superseded GROUP BY job, status
""")


_OF_JOB = returns(KnownSubjob)("""
SELECT k, status, attempt, panda_id, site, exit_code, reason, superseded, override
FROM jedi_subjobs
WHERE guid = :guid AND job = :job
  AND (CAST(:ks AS integer[]) IS NULL OR k = ANY(CAST(:ks AS integer[])))
ORDER BY k
""")


def of_job(
    tx: Connection, guid: str, job: int, ks: Sequence[int] | None = None
) -> list[KnownSubjob]:
    """Subjobs of a job, or those with these numbers."""
    values = {"guid": guid, "job": job, "ks": None if ks is None else list(ks)}
    return _OF_JOB.rows(tx, **values)
