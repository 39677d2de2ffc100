"""Ends of job sets: their merge jobs start near the pieces, are tried again, and end the set.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.core import states
from jedi.spec.jobs.event_texts import PIECES
from jedi.taskbuffer.db.rows import rows_of
from jedi.taskbuffer.db.sql_lists import OUTPUT_TYPES
from jedi.taskbuffer.jobs.jobs import JobMove, MovedJob, move_jobs

_CODE = states.EVENT_CODES
_DONE = _CODE["done"]

# --------------------------------------------------------------------------- where to merge

_NEAR = text(f"""
WITH s AS (
  SELECT s.jobsetid, s.merge_pandaid, j.site, j.nucleus
  FROM jedi_jobsets s JOIN jedi_jobs j ON j.pandaid = s.merge_pandaid
  WHERE s.jobsetid = ANY(CAST(:ids AS bigint[]))
), p AS (  -- 1: pieces; 2: the destination of the outputs
  SELECT e.jobsetid, 1 AS rank, coalesce(z.endpoint, e.endpoint) AS endpoint, count(*) AS n
  FROM jedi_events e LEFT JOIN jedi_event_zips z USING (ziprow_id)
  WHERE e.jobsetid = ANY(CAST(:ids AS bigint[])) AND e.status = {_DONE}
  GROUP BY e.jobsetid, coalesce(z.endpoint, e.endpoint)
  UNION ALL
  SELECT s.jobsetid, 2, f.endpoint, 1 FROM s JOIN jedi_job_files f ON f.pandaid = s.merge_pandaid
  WHERE f.type IN ({OUTPUT_TYPES})
), found AS (
  SELECT p.jobsetid, p.rank, x.site, p.n
  FROM p JOIN jedi_site_endpoints x ON x.ddm_endpoint = p.endpoint AND x.roles LIKE '%read%'
  UNION ALL SELECT jobsetid, 3, nucleus, 1 FROM s
  UNION ALL SELECT jobsetid, 4, site, 1 FROM s
  UNION ALL SELECT c.jobsetid, 5, j.site, 1
  FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
  WHERE c.jobsetid = ANY(CAST(:ids AS bigint[]))
)
SELECT jobsetid AS jobset_id, rank, site, CAST(sum(n) AS bigint) AS pieces
FROM found JOIN jedi_sites q USING (site) WHERE q.status = 'online'
GROUP BY jobsetid, rank, site ORDER BY jobsetid, rank, site
""")


class NearSite(NamedTuple):
    """An online site for the merge job of a job set. rank: 1 it reads so many pieces, 2 it reads
    the destination of outputs, 3 it is the nucleus, 4 the job set was brokered there, 5 one of its
    consumers was there."""

    jobset_id: int
    rank: int
    site: str
    pieces: int


def near_sites(tx: Connection, jobset_ids: Sequence[int]) -> list[NearSite]:
    """The sites where merge jobs of job sets may run."""
    return rows_of(NearSite, tx.execute(_NEAR, {"ids": list(jobset_ids)}))


# --------------------------------------------------------------------------- the merge job

_PLACE = text("""
WITH old AS (
  SELECT j.*, w.site AS to_site
  FROM unnest(CAST(:ids AS bigint[]), CAST(:sites AS text[])) w(id, site)
    JOIN jedi_jobs j ON j.pandaid = w.id WHERE j.status = 'waiting'
), u AS (
  UPDATE jedi_jobs j SET site = old.to_site, gshare = :gshare, priority = :priority,
    memory_mb = :memory_mb
  FROM old WHERE j.pandaid = old.pandaid
  RETURNING j.pandaid, j.site, j.workqueue_id, j.gshare, j.resource_type, j.cores,
    old.site AS old_site, old.gshare AS old_gshare
)
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT s.site, u.workqueue_id, s.gshare, u.resource_type, 'waiting', sum(s.n), sum(s.n * u.cores)
FROM u, LATERAL (VALUES (u.old_site, u.old_gshare, -1), (u.site, u.gshare, 1)) s(site, gshare, n)
GROUP BY s.site, u.workqueue_id, s.gshare, u.resource_type HAVING sum(s.n) <> 0
""")
_PIECES = text(f"""
UPDATE jedi_job_params p SET texts = coalesce(p.texts, '{{}}') || jsonb_build_object(
  CAST(:name AS text), CAST(coalesce(f.pieces, '[]') AS text))
FROM jedi_jobsets s LEFT JOIN (
  SELECT jobsetid, jsonb_agg(jsonb_build_object('endpoint', endpoint, 'lfn', lfn, 'fsize', fsize,
    'adler32', checksum, 'path_convention', convention, 'members', members)
    ORDER BY first_file, first_event) AS pieces
  FROM (
    SELECT e.jobsetid, coalesce(z.endpoint, e.endpoint) AS endpoint, z.fsize, z.checksum,
      coalesce(z.lfn, min(concat_ws('-', e.jeditaskid, e.pandaid, e.fileid, e.job_processid,
        e.attemptnr))) AS lfn,
      coalesce(z.path_convention, e.path_convention) AS convention, min(e.fileid) AS first_file,
      min(e.job_processid) AS first_event,
      jsonb_agg(concat_ws('-', e.jeditaskid, e.pandaid, e.fileid, e.job_processid, e.attemptnr)
        ORDER BY e.fileid, e.job_processid) AS members
    FROM jedi_events e LEFT JOIN jedi_event_zips z USING (ziprow_id)
    WHERE e.jobsetid = ANY(CAST(:ids AS bigint[])) AND e.status = {_DONE}
    -- without a zip file each range is a piece of its own
    GROUP BY e.jobsetid, z.ziprow_id, coalesce(z.endpoint, e.endpoint), z.lfn, z.fsize, z.checksum,
      coalesce(z.path_convention, e.path_convention),
      CASE WHEN z.ziprow_id IS NULL THEN e.fileid END,
      CASE WHEN z.ziprow_id IS NULL THEN e.job_processid END) one
  GROUP BY jobsetid) f USING (jobsetid)
WHERE s.jobsetid = ANY(CAST(:ids AS bigint[])) AND p.pandaid = s.merge_pandaid
""")


class MergeStart(NamedTuple):
    """A merge job that starts: its job set, itself, its site, and the reason."""

    jobset_id: int
    panda_id: int
    site: str
    reason: str


def start_merges(
    tx: Connection, starts: Sequence[MergeStart], agent: str, gshare: str, priority: int,
    memory_mb: int,
) -> list[MovedJob]:  # fmt: skip
    """waiting → activated: merge jobs, which the caller has locked, get their pieces, a site, a
    share, a priority and a memory of their own."""
    if not starts:
        return []
    tx.execute(
        _PLACE,
        {"ids": [one.panda_id for one in starts], "sites": [one.site for one in starts],
         "gshare": gshare, "priority": priority, "memory_mb": memory_mb},
    )  # fmt: skip
    tx.execute(_PIECES, {"ids": [one.jobset_id for one in starts], "name": PIECES})
    moves = [JobMove(one.panda_id, "activated", "es_merge", one.reason) for one in starts]
    return move_jobs(tx, moves, agent, ["waiting"])


# --------------------------------------------------------------------------- the end of a set

_CLOSE = text(f"""
WITH s AS (
  UPDATE jedi_jobsets s SET ended_at = jedi_now()
  FROM unnest(CAST(:ids AS bigint[]), CAST(:merged AS bool[])) o(id, merged)
  WHERE s.jobsetid = o.id AND s.ended_at IS NULL RETURNING s.jobsetid, o.merged
)
UPDATE jedi_events e SET status = CASE WHEN e.status = {_DONE} AND s.merged THEN {_CODE["merged"]}
  WHEN e.status IN ({_DONE}, {_CODE["finished"]}) THEN {_CODE["discarded"]}
  ELSE {_CODE["cancelled"]} END
FROM s WHERE e.jobsetid = s.jobsetid AND e.status IN ({_CODE["ready"]}, {_CODE["sent"]},
  {_CODE["running"]}, {_CODE["finished"]}, {_DONE})
""")


def close_sets(tx: Connection, sets: Mapping[int, bool]) -> None:
    """End job sets, True: their pieces are merged. Ranges that are done are merged then, else
    discarded; those that nobody processed are cancelled."""
    if sets:
        tx.execute(_CLOSE, {"ids": list(sets), "merged": list(sets.values())})


_GIVE_ATTEMPTS = text("""
UPDATE jedi_jobsets s SET attempts_left = s.attempts_left + g.n
FROM unnest(CAST(:ids AS bigint[]), CAST(:ns AS int[])) g(id, n) WHERE s.jobsetid = g.id
""")


def give_attempts(tx: Connection, attempts: Mapping[int, int]) -> None:
    """Let so many more consumers follow in job sets, which the caller has locked."""
    given = {one: n for one, n in attempts.items() if n}
    if given:
        tx.execute(_GIVE_ATTEMPTS, {"ids": list(given), "ns": list(given.values())})
