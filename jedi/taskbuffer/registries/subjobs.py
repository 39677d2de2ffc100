"""jedi_subjobs: subjobs, as registries know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import rows_of


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


_CLEAR = text("DELETE FROM jedi_subjobs WHERE guid = :guid AND job = :job")


def clear(tx: Connection, guid: str, job: int) -> None:
    """Forget the subjobs of a job."""
    tx.execute(_CLEAR, {"guid": guid, "job": job})


_PUT = text("""
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


def put(tx: Connection, guid: str, columns: dict[str, list[Any]]) -> None:
    """Subjobs now, column by column. Known ones keep their overrides."""
    tx.execute(_PUT, {"guid": guid, **columns})


_COUNTS = text("""
SELECT job, status, count(*) AS number FROM jedi_subjobs
WHERE guid = :guid AND job = ANY(CAST(:jobs AS bigint[])) AND NOT superseded GROUP BY job, status
""")


class SubjobCount(NamedTuple):
    """The number of subjobs of a job with a status, without superseded ones."""

    job: int
    status: str
    number: int


def counts(tx: Connection, guid: str, jobs: Sequence[int]) -> list[SubjobCount]:
    """Numbers of subjobs by job and status."""
    return rows_of(SubjobCount, tx.execute(_COUNTS, {"guid": guid, "jobs": list(jobs)}))


_OF_JOB = text("""
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
    return rows_of(KnownSubjob, tx.execute(_OF_JOB, values))
