"""Ends of job sets: their merge jobs start near the pieces, are tried again, and end the set.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.event_texts import PIECES
from jedi.taskbuffer.db.sql_lists import INPUT_TYPES, OUTPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events.kept_ranges import KEEPS, SUCCEEDED
from jedi.taskbuffer.jobs.jobs import JobMove, MovedJob, move_jobs
from jedi.taskbuffer.sites.sites import READ_PLACE, WRITE_PLACE

_CODE = states.EVENT_CODES
_DONE = _CODE["done"]
_PROCESSED = f"{_CODE['finished']}, {_DONE}"

# --------------------------------------------------------------------------- where to merge


def _pieces(statuses: str) -> str:
    """A CTE `p` with the numbers of ranges of job sets that have pieces, by endpoint. Zip by zip
    first: memory does not grow with the ranges."""
    return f"""
p AS MATERIALIZED (
  SELECT e.jobsetid, coalesce(z.endpoint, e.endpoint) AS endpoint, sum(e.n) AS n
  FROM (SELECT jobsetid, ziprow_id, endpoint, count(*) AS n FROM jedi_events
        WHERE jobsetid = ANY(CAST(:ids AS bigint[])) AND status IN ({statuses})
        GROUP BY jobsetid, ziprow_id, endpoint) e LEFT JOIN jedi_event_zips z USING (ziprow_id)
  GROUP BY e.jobsetid, coalesce(z.endpoint, e.endpoint)
)"""


class NearSite(NamedTuple):
    """An online site for a job of a job set. rank: 1 so many of its pieces are there, 2 it reads
    the destination of outputs, 3 it is the nucleus, 4 the job set was brokered there, 5 one of its
    consumers was there, 6 it reads pieces from afar, 7 it is a queue of jumbo jobs alone. failed:
    the merge job before failed there."""

    jobset_id: int
    rank: int
    site: str
    pieces: int
    failed: bool


MERGE_SITES = returns(NearSite)(f"""
-- The sites where merge jobs of job sets may run: each reads all pieces, and has storage of its
-- own, to which the Mover brings inputs.
WITH s AS (
  SELECT s.jobsetid, s.merge_pandaid, j.site, j.nucleus, (
    SELECT o.site FROM jedi_job_retry_history h JOIN jedi_jobs o ON o.pandaid = h.oldpandaid
    WHERE h.jeditaskid = s.jeditaskid AND h.newpandaid = s.merge_pandaid
      AND h.relationtype = 'es_merge') AS lost_at
  FROM jedi_jobsets s JOIN jedi_jobs j ON j.pandaid = s.merge_pandaid
  WHERE s.jobsetid = ANY(CAST(:ids AS bigint[]))
), {_pieces(str(_DONE))}, found AS (
  -- 1, 6: pieces at, or far from, the site; 2: the destination of the outputs
  SELECT p.jobsetid, CASE WHEN x.is_local THEN 1 ELSE 6 END AS rank, x.site, p.n
  FROM p JOIN jedi_site_endpoints x ON x.ddm_endpoint = p.endpoint AND x.roles LIKE '%read%'
  UNION ALL
  SELECT s.jobsetid, 2, x.site, 0 FROM s JOIN jedi_job_files f ON f.pandaid = s.merge_pandaid
    JOIN jedi_site_endpoints x ON x.ddm_endpoint = f.endpoint AND x.roles LIKE '%read%'
  WHERE f.type IN ({OUTPUT_TYPES})
  UNION ALL SELECT jobsetid, 3, nucleus, 0 FROM s
  UNION ALL SELECT jobsetid, 4, site, 0 FROM s
  UNION ALL SELECT c.jobsetid, 5, j.site, 0
  FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
  WHERE c.jobsetid = ANY(CAST(:ids AS bigint[]))
)
SELECT f.jobsetid,
  CASE WHEN q.catchall ->> 'useJumboJobs' = 'only' THEN 7 ELSE rank END AS rank, f.site,
  CAST(sum(n) AS bigint) AS pieces, (f.site = s.lost_at) IS TRUE AS failed
FROM found f JOIN s USING (jobsetid) JOIN jedi_sites q ON q.site = f.site
WHERE q.status = 'online' AND {WRITE_PLACE.format(site="q.site")} IS NOT NULL
  AND NOT EXISTS (SELECT FROM p WHERE p.jobsetid = f.jobsetid AND NOT EXISTS (
    SELECT FROM jedi_site_endpoints x
    WHERE x.site = f.site AND x.ddm_endpoint = p.endpoint AND x.roles LIKE '%read%'))
GROUP BY 1, 2, 3, 5 ORDER BY 1, 2, 3
""")


class ConsumerSite(NamedTuple):
    """An online site for consumers of a job set: its place in the order of the broker's choice,
    the number of consumers that failed or processed nothing there, and where it usually writes
    (empty: nowhere)."""

    jobset_id: int
    site: str
    place: int
    failures: int
    endpoint: str


BROKERED_SITES = returns(ConsumerSite)(f"""
-- The sites where next consumers of job sets may run: those that the broker found, and those where
-- consumers were.
SELECT f.jobsetid, f.site, CAST(min(f.place) AS int) AS place,
  CAST(sum(f.failed) AS int) AS failures,
  coalesce({WRITE_PLACE.format(site="f.site")}, '') AS endpoint
FROM (
  SELECT s.jobsetid, o.site, o.place, 0 AS failed
  FROM jedi_jobsets s, jsonb_array_elements_text(s.sites) WITH ORDINALITY o(site, place)
  WHERE s.jobsetid = ANY(CAST(:ids AS bigint[]))
  UNION ALL
  SELECT c.jobsetid, j.site, c.number + 1000, CAST(c.settled_at IS NOT NULL AND
    (j.status = 'failed' OR j.substatus IN ('es_inaction', 'es_noevent')) AS int)
  FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
  WHERE c.jobsetid = ANY(CAST(:ids AS bigint[]))) f JOIN jedi_sites q USING (site)
WHERE q.status = 'online' GROUP BY f.jobsetid, f.site ORDER BY f.jobsetid, place
""")


class HeldPieces(NamedTuple):
    """An endpoint with pieces of a job set: their number, with that of jobs that may leave some
    there."""

    jobset_id: int
    endpoint: str
    pieces: int


# Living consumers, and jumbo jobs of the task, may leave pieces where their sites write.
HELD = returns(HeldPieces)(f"""
-- The endpoints where job sets have pieces, and where their living jobs may leave some.
WITH {_pieces(_PROCESSED)}, live AS (
  SELECT c.jobsetid, j.site FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
  WHERE c.jobsetid = ANY(CAST(:ids AS bigint[])) AND c.settled_at IS NULL
  UNION ALL
  SELECT s.jobsetid, j.site FROM jedi_jobsets s JOIN jedi_consumers c
      ON c.jeditaskid = s.jeditaskid AND c.jobsetid IS NULL AND c.pandaid > s.jobsetid
    JOIN jedi_jobs j USING (pandaid)
  WHERE s.jobsetid = ANY(CAST(:ids AS bigint[])) AND c.settled_at IS NULL
)
SELECT jobsetid, endpoint, CAST(sum(n) AS bigint) AS pieces FROM (
  SELECT * FROM p
  UNION ALL
  SELECT jobsetid, {WRITE_PLACE.format(site="live.site")}, 1 FROM live) h
WHERE endpoint IS NOT NULL GROUP BY jobsetid, endpoint ORDER BY jobsetid, endpoint
""")


class ReaderSite(NamedTuple):
    """An online site with a storage, and endpoints that it reads."""

    site: str
    endpoints: list[str]


_READERS = returns(ReaderSite)("""
SELECT q.site, array_agg(DISTINCT e.ddm_endpoint) AS endpoints
FROM jedi_site_endpoints e JOIN jedi_sites q USING (site)
WHERE q.status = 'online' AND e.roles LIKE '%read%'
  AND e.ddm_endpoint = ANY(CAST(:endpoints AS text[]))
  AND EXISTS (SELECT FROM jedi_site_endpoints w WHERE w.site = q.site AND w.roles LIKE '%write%')
GROUP BY q.site
""")


def readers(tx: Connection, endpoints: Iterable[str]) -> list[list[str]]:
    """For each online site with a storage: those of the endpoints that it reads, if any."""
    wanted = {"endpoints": sorted({*endpoints} - {""})}
    return [one.endpoints for one in _READERS.rows(tx, **wanted)]


# --------------------------------------------------------------------------- the merge job

_PLACE = changes("""
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
_READ_INPUTS = changes(f"""
UPDATE jedi_job_files f SET endpoint = {READ_PLACE.format(site="w.site", endpoint="f.endpoint")}
FROM unnest(CAST(:ids AS bigint[]), CAST(:sites AS text[])) w(id, site)
WHERE f.pandaid = w.id AND f.type IN ({INPUT_TYPES}) AND f.endpoint IS NOT NULL
""")
_HAS_PIECES = changes("""
UPDATE jedi_job_params
SET texts = coalesce(texts, '{}') || jsonb_build_object(CAST(:name AS text), '')
WHERE pandaid = ANY(CAST(:ids AS bigint[]))
""")


class MergeStart(NamedTuple):
    """A merge job that starts: its job set, itself, its site, and the reason."""

    jobset_id: int
    panda_id: int
    site: str
    reason: str


def start_merges(
    tx: Connection,
    starts: Sequence[MergeStart],
    agent: str,
    gshare: str,
    priority: int,
    memory_mb: int,
) -> list[MovedJob]:
    """waiting → assigned: merge jobs, which the caller has locked, get a site, a share, a
    priority and a memory of their own. The Mover sees to their inputs."""
    if not starts:
        return []
    where = {"ids": [one.panda_id for one in starts], "sites": [one.site for one in starts]}
    own = {"gshare": gshare, "priority": priority, "memory_mb": memory_mb}
    _PLACE.run(tx, **where, **own)
    _READ_INPUTS.run(tx, **where)
    _HAS_PIECES.run(tx, ids=where["ids"], name=PIECES)
    moves = [JobMove(one.panda_id, "assigned", "es_merge", one.reason) for one in starts]
    return move_jobs(tx, moves, agent, ["waiting"])


# --------------------------------------------------------------------------- the end of a set

_CLOSE = changes(f"""
WITH o AS (
  SELECT s.jobsetid, o.merged, NOT o.merged AND {KEEPS} AND NOT {SUCCEEDED} AS kept
  FROM unnest(CAST(:ids AS bigint[]), CAST(:merged AS bool[])) o(id, merged)
    JOIN jedi_jobsets s ON s.jobsetid = o.id JOIN jedi_tasks t USING (jeditaskid)
), s AS (
  UPDATE jedi_jobsets s SET ended_at = jedi_now(), next_look_at = NULL
  FROM o WHERE s.jobsetid = o.jobsetid AND s.ended_at IS NULL
  RETURNING s.jobsetid, s.merge_pandaid, o.merged, o.kept
), b AS (
  UPDATE jedi_jobs j SET booked = 'ended' FROM s WHERE j.pandaid = s.merge_pandaid
)
UPDATE jedi_events e SET status = CASE
  WHEN e.status = {_DONE} AND s.merged THEN {_CODE["merged"]}
  WHEN e.status IN ({_DONE}, {_CODE["finished"]}) AND s.kept THEN {_DONE}
  WHEN e.status IN ({_DONE}, {_CODE["finished"]}) THEN {_CODE["discarded"]}
  ELSE {_CODE["cancelled"]} END
FROM s WHERE e.jobsetid = s.jobsetid AND e.status IN ({_CODE["ready"]}, {_CODE["sent"]},
  {_CODE["running"]}, {_CODE["finished"]}, {_DONE})
""")


def close_sets(tx: Connection, sets: Mapping[int, bool]) -> None:
    """End job sets, True: their pieces are merged. Ranges that are done are merged then, else kept
    for the next set where the task wants it, else discarded; those that nobody processed are
    cancelled."""
    if sets:
        _CLOSE.run(tx, ids=list(sets), merged=list(sets.values()))


# At once after a change, which may lead to the next one; after a pause where nothing changed. A
# reason stands until the merge starts.
_LOOK_AGAIN = changes("""
UPDATE jedi_jobsets s SET next_look_at = n.at, wait_code = n.code, wait_reason = n.reason
FROM (
  SELECT o.id,
    CASE WHEN m.status = 'waiting' THEN coalesce(o.code, t.wait_code) END AS code,
    CASE WHEN m.status = 'waiting' THEN coalesce(o.reason, t.wait_reason) END AS reason,
    CASE WHEN m.status = 'waiting' AND NOT EXISTS (
      SELECT FROM jedi_consumers c WHERE c.jobsetid = t.jobsetid AND c.settled_at IS NULL)
    THEN jedi_now() + make_interval(secs => CASE WHEN o.changed THEN 0 ELSE :wait_s END) END AS at
  FROM unnest(CAST(:ids AS bigint[]), CAST(:changed AS bool[]), CAST(:codes AS text[]),
    CAST(:reasons AS text[])) o(id, changed, code, reason)
    JOIN jedi_jobsets t ON t.jobsetid = o.id JOIN jedi_jobs m ON m.pandaid = t.merge_pandaid) n
WHERE s.jobsetid = n.id AND s.ended_at IS NULL
  AND (s.next_look_at, s.wait_code, s.wait_reason) IS DISTINCT FROM (n.at, n.code, n.reason)
""")


class SetLook(NamedTuple):
    """A job set that was looked at: something `changed` or not, and the reason why its merge has to
    wait, if it has."""

    jobset_id: int
    changed: bool
    code: str | None = None
    reason: str | None = None


def look_again(tx: Connection, looks: Sequence[SetLook], wait_s: float) -> None:
    """Note when to look at job sets again that wait and that no consumer serves; others are due by
    their jobs alone. The caller has locked them."""
    if looks:
        ids, changed, codes, reasons = map(list, zip(*looks, strict=True))
        _LOOK_AGAIN.run(tx, ids=ids, changed=changed, codes=codes, reasons=reasons, wait_s=wait_s)


_GIVE_ATTEMPTS = changes("""
UPDATE jedi_jobsets s SET attempts_left = s.attempts_left + g.n
FROM unnest(CAST(:ids AS bigint[]), CAST(:ns AS int[])) g(id, n) WHERE s.jobsetid = g.id
""")


def give_attempts(tx: Connection, attempts: Mapping[int, int]) -> None:
    """Let so many more consumers follow in job sets, which the caller has locked."""
    given = {one: n for one, n in attempts.items() if n}
    if given:
        _GIVE_ATTEMPTS.run(tx, ids=list(given), ns=list(given.values()))
