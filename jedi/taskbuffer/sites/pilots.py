"""jedi_pilots: the pilots that submitters of this machine have sent, and the jobs they hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.host.processes import Process
from jedi.model.jobs.wire import Delegation
from jedi.taskbuffer.db.statement import changes, returns


class ServedSite(NamedTuple):
    """A locked site; `submitter` is its engine, `n_slots` 0: no more pilots."""

    site: str
    capability: str | None
    core_count: int
    max_rss: int
    max_wdir: int
    max_time: int
    submitter: str
    queue: str | None
    batch: Any
    n_slots: int


SERVE = returns(ServedSite)("""
-- Lock the sites that a submitter looks after, to the transaction's end, and note that they are.
-- Sites under another lock are left out. A site's pilots as read after this hold until the
-- commit, so two submitters never fill the same slots.
WITH l AS (
  SELECT site, capability, corecount, greatest(maxrss, 0) AS maxrss,
    greatest(maxwdir, 0) AS maxwdir, greatest(maxtime, 0) AS maxtime, submitter, queue, batch,
    lastpilot,
    CASE WHEN submitter <> 'none' AND status NOT IN ('offline', 'paused') THEN greatest(nslots, 0)
         ELSE 0 END AS nslots
  FROM jedi_sites s
  WHERE submitter <> 'none' OR EXISTS (
    SELECT FROM jedi_pilots p WHERE p.site = s.site AND p.endtime IS NULL AND p.host = :host)
  ORDER BY site LIMIT :limit FOR NO KEY UPDATE OF s SKIP LOCKED
), seen AS (
  UPDATE jedi_sites s SET lastpilot = jedi_now() FROM l
  WHERE s.site = l.site AND l.nslots > 0
    AND (l.lastpilot IS NULL OR l.lastpilot < jedi_now() - interval '30 s')
)
SELECT site, capability, corecount, maxrss, maxwdir,
  maxtime, submitter, queue, batch, nslots
FROM l ORDER BY site
""")


ANY_TO_SERVE = returns(bool)("""
-- True if the host has pilots, a job waits for one, or `serve` must note again that a site is
-- looked after.
SELECT EXISTS (SELECT FROM jedi_pilots WHERE endtime IS NULL AND host = :host)
  OR EXISTS (SELECT FROM jedi_job_ready)
  OR EXISTS (SELECT FROM jedi_sites WHERE submitter <> 'none' AND nslots > 0
    AND status NOT IN ('offline', 'paused')
    AND (lastpilot IS NULL OR lastpilot < jedi_now() - interval '30 s'))
""")


class SlotJobs(NamedTuple):
    """The jobs that wait for a slot of a site (counted to `most`), and those that keep pilots of
    the site busy."""

    site: str
    name: str
    waiting: int
    busy: int


_DEMAND = returns(SlotJobs)("""
SELECT s.site, s.name, (
  SELECT count(*) FROM (
    SELECT FROM jedi_job_ready r
    WHERE r.site = s.site AND r.cores BETWEEN s.min_cores AND s.cores
      AND r.memory_mb >= s.min_memory_mb AND (s.memory_mb = 0 OR r.memory_mb <= s.memory_mb)
      AND (s.disk_mb = 0 OR r.disk_mb <= s.disk_mb)
    LIMIT s.most) r
) AS waiting, coalesce(b.jobs, 0) AS busy
FROM jsonb_to_recordset(CAST(:slots AS jsonb)) s(site text, name text, cores int, memory_mb bigint,
    disk_mb bigint, min_cores int, min_memory_mb bigint, most bigint)
  LEFT JOIN (
  SELECT site, CAST(sum(jobs) AS bigint) AS jobs FROM (
    SELECT site, status, jobs FROM job_stats UNION ALL
    SELECT site, status, jobs FROM job_stats_delta) n
  WHERE status = ANY(:statuses) GROUP BY site) b USING (site)
""")


def demand(tx: Connection, slots: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], SlotJobs]:
    """By site and name of a slot: `waiting` jobs that fit into it (counted to `most`), and jobs
    that keep the site's pilots `busy`. Both at one instant: a job that is just taken counts once.

    Slots: site, name, cores, memory_mb and disk_mb (0: no limit), min_cores, min_memory_mb, most.
    """
    values = {"slots": json.dumps(slots), "statuses": list(states.JOB_AT_SITE)}
    return {(row.site, row.name): row for row in _DEMAND.rows(tx, **values)}


class PilotRow(NamedTuple):
    """A pilot, `age_s` seconds old."""

    pilot_id: str
    site: str
    engine: str
    status: str
    resource_type: str
    pid: int | None
    process_start: int | None
    batch_id: str | None
    age_s: float


LIVE_PILOTS = returns(PilotRow)("""
-- The pilots of a host that have not ended.
SELECT pilot_id, site, engine, status, resource_type, pid, process_start, batch_id,
  CAST(extract(epoch FROM jedi_now() - creationtime) AS float8) AS age_s
FROM jedi_pilots WHERE endtime IS NULL AND host = :host ORDER BY pilot_id
""")


_INSERT_PILOTS = changes("""
WITH n AS (SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:hashes AS text[]))
  AS n(pilot_id, token_hash)), t AS (
INSERT INTO jedi_tokens (token_hash, kind, site, expires_at)
SELECT token_hash, 'pilot', :site, jedi_now() + make_interval(secs => :life)
FROM n)
INSERT INTO jedi_pilots
  (pilot_id, site, host, engine, token_hash, status, resource_type)
SELECT pilot_id, :site, :host, :engine, token_hash, 'submitted', :type FROM n
""")


def insert_pilots(
    tx: Connection,
    host: str,
    site: str,
    engine: str,
    tokens: Mapping[str, str],
    lifetime_s: float,
    resource_type: str = "",
) -> None:
    """Note pilots that are going to be started, with the sha256 of their tokens, which expire, and
    the shape of their slots (empty: whole)."""
    if tokens:
        _INSERT_PILOTS.run(
            tx,
            ids=list(tokens),
            hashes=list(tokens.values()),
            site=site,
            host=host,
            engine=engine,
            life=lifetime_s,
            type=resource_type,
        )


RENEW_TOKENS = changes("""
-- Let the tokens of living pilots of a host last, if less than half of their time is left.
UPDATE jedi_tokens t SET expires_at = jedi_now() + make_interval(secs => :life)
FROM jedi_pilots p WHERE p.token_hash = t.token_hash AND p.endtime IS NULL
  AND p.host = :host AND t.revoked_at IS NULL
  AND t.expires_at < jedi_now() + make_interval(secs => :life / 2)
""")


@dataclass(frozen=True, slots=True)
class PilotSighting:
    """New state of a pilot: its process or batch job, and whether it runs."""

    process: Process | None
    batch_id: str | None
    running: bool


_NOTE_FOUND = changes("""
UPDATE jedi_pilots p SET pid = n.pid, process_start = n.start,
  batch_id = n.batch_id, status = CASE WHEN n.running THEN 'running' ELSE p.status END
FROM unnest(CAST(:ids AS text[]), CAST(:pids AS int[]), CAST(:starts AS bigint[]),
  CAST(:batch_ids AS text[]), CAST(:running AS bool[]))
  AS n(pilot_id, pid, start, batch_id, running)
WHERE p.pilot_id = n.pilot_id AND p.status IN ('submitted', 'running')
""")


def note_found(tx: Connection, found: Mapping[str, PilotSighting]) -> None:
    """Note which process or batch job each pilot is."""
    _NOTE_FOUND.run(
        tx,
        ids=list(found),
        pids=[one.process and one.process.pid for one in found.values()],
        starts=[one.process and one.process.start for one in found.values()],
        batch_ids=[one.batch_id for one in found.values()],
        running=[one.running for one in found.values()],
    )


HAVE_ENDED = returns(PilotRow)("""
-- The names whose pilots have ended.
SELECT pilot_id, site, engine, status, resource_type, pid, process_start, batch_id,
  CAST(0 AS float8) AS age_s FROM jedi_pilots
WHERE pilot_id = ANY(CAST(:names AS text[])) AND endtime IS NOT NULL
""")


_JOBS_IN_PILOTS = returns(int)("""
SELECT j.pandaid FROM jedi_jobs j JOIN jedi_pilots p USING (pilot_id)
WHERE p.endtime IS NULL AND p.host = :host AND j.status = ANY(:statuses)
ORDER BY j.pandaid
""")


def jobs_in_pilots(tx: Connection, host: str) -> list[int]:
    """The jobs that living pilots of a host have taken and not yet reported to be through."""
    return _JOBS_IN_PILOTS.rows(tx, host=host, statuses=list(states.JOB_AT_SITE))


_RESULTS_TO_ADD = returns(int)("""
SELECT count(*) FROM jedi_jobs WHERE status = 'holding' AND hold_kind IS NULL
  AND pilot_result IS NOT NULL AND postprocessed_at IS NULL
""")


def results_to_add(tx: Connection) -> int:
    """The number of jobs that wait for the Adder; those it tries again later do not count."""
    return int(_RESULTS_TO_ADD.row(tx) or 0)


_HAVE_WORKED = returns(str)("SELECT DISTINCT pilot_id FROM jedi_jobs WHERE pilot_id = ANY(:ids)")


def have_worked(tx: Connection, pilot_ids: Sequence[str]) -> set[str]:
    """The pilots that had a job at any time."""
    if not pilot_ids:
        return set()
    return set(_HAVE_WORKED.rows(tx, ids=list(pilot_ids)))


class PilotHeldJob(NamedTuple):
    """A job that a pilot has taken."""

    panda_id: int
    pilot_id: str
    lock_seq: int
    kind: str


_LOCK_JOBS = returns(PilotHeldJob)("""
SELECT pandaid, pilot_id, lock_seq, kind FROM jedi_jobs WHERE pilot_id = ANY(:ids)
  AND status = ANY(:statuses) AND postprocessed_at IS NULL
ORDER BY pandaid FOR NO KEY UPDATE
""")


def lock_jobs(tx: Connection, pilot_ids: Sequence[str]) -> list[PilotHeldJob]:
    """Lock the jobs that pilots have taken and not reported to be through."""
    values = {"ids": list(pilot_ids), "statuses": list(states.JOB_AT_SITE)}
    return _LOCK_JOBS.rows(tx, **values)


_NOTE_DELEGATION = changes("""
UPDATE jedi_jobs SET delegation_kind = :kind, delegation_queue = :queue,
  delegation_id = :id WHERE pandaid = ANY(CAST(:ids AS bigint[]))
""")


def note_delegation(tx: Connection, panda_ids: Sequence[int], delegation: Delegation) -> None:
    """Note to whom jobs that a pilot has just taken were handed."""
    _NOTE_DELEGATION.run(tx, ids=list(panda_ids), **delegation.model_dump())


class LostAttempt(NamedTuple):
    """An attempt that ended because its pilot died."""

    pilot_id: str
    panda_id: int
    lock_seq: int


LOST_ATTEMPTS = returns(LostAttempt)("""
-- The attempts that ended with one of `codes` because their pilots died.
SELECT pilot_id, pandaid, lock_seq FROM jedi_jobs
WHERE pilot_id = ANY(:ids) AND error_code = ANY(:codes) ORDER BY pandaid
""")


END_PILOTS = changes("""
-- Note that pilots have gone, `ended` in order or `lost`, and take their tokens back; not `tidy`:
-- they count as live until what they left behind is removed.
WITH p AS (
  UPDATE jedi_pilots SET status = :status, endtime = CASE WHEN :tidy THEN jedi_now() END
  WHERE pilot_id = ANY(:ids) AND endtime IS NULL RETURNING token_hash
)
UPDATE jedi_tokens t SET revoked_at = jedi_now()
FROM p WHERE t.token_hash = p.token_hash AND t.revoked_at IS NULL
""")


_NO_TROUBLE = changes("DELETE FROM jedi_site_metrics WHERE site = :site AND metric = 'submitter'")
_NOTE_TROUBLE = changes("""
INSERT INTO jedi_site_metrics (site, gshare, metric, value)
VALUES (:site, '', 'submitter', CAST(:value AS jsonb))
ON CONFLICT (site, gshare, metric) DO UPDATE SET value = excluded.value, ts = jedi_now()
""")


def note_trouble(tx: Connection, site: str, facts: Mapping[str, Any] | None) -> None:
    """Say why the submitter waits before it sends more pilots to a site; None: it does not."""
    if facts is None:
        _NO_TROUBLE.run(tx, site=site)
    else:
        _NOTE_TROUBLE.run(tx, site=site, value=json.dumps(dict(facts)))


TROUBLE = returns(str)("""
-- The reason why the submitter waits before it sends more pilots to a site; None: it does not.
SELECT value ->> 'reason' FROM jedi_site_metrics
WHERE site = :site AND gshare = '' AND metric = 'submitter'
""")
