"""Pilots and jobs: acquire, report, heartbeat, live output. One statement serves many jobs.

An attempt is (pandaid, lock_seq). A report for another one, or for another site's job, is `stale`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic_core import to_json
from sqlalchemy import Connection

from jedi.model.jobs.attempt import HeldJob
from jedi.model.jobs.wire import (
    AcquireRequest,
    Attempt,
    Beat,
    LogEntry,
    Measures,
    Report,
    Resources,
)
from jedi.taskbuffer.db.engine import channel, prepared, waking
from jedi.taskbuffer.db.planning import IN_ORDER
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, OUTPUT_TYPES
from jedi.taskbuffer.db.statement import Statement, answers, changes, returns
from jedi.taskbuffer.jobs import bad_inputs, one_job
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.jobs.given_jobs import HELD, held_jobs
from jedi.taskbuffer.jobs.jobs import NOTE
from jedi.taskbuffer.scheduling.charges import Heads

AGENT = "JobDispatcher"
BEGINS = ("starting", "running")

_prepared = prepared(
    "Each call of a pilot: planning takes 1 ms, twice the execution. Bound: the jobs of its calls, "
    "by key; jobs asked for, and larger ones before them, in the order of their queue.",
    IN_ORDER,
)

Message = TypeVar("Message", bound=Attempt)
SiteMessages = tuple[str, Sequence[Message]]
"""The messages of a pilot, after its site."""

BeatAnswer = tuple[str, str | None]
"""kill, hold or none, and the reason of a kill."""


def _noted(sites: str, started: str = "false") -> str:
    """A CTE that stamps `sites` with the time of a pilot's message, and of a payload that
    `started` there. It does so twice a minute at most and never waits: all pilots of a site would
    queue for that one row."""
    return f"""
noted AS (
  UPDATE jedi_sites SET lastpilot = jedi_now(),
    laststart = CASE WHEN {started} THEN jedi_now() ELSE laststart END
  WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM jedi_sites WHERE site {sites}
      AND least(coalesce(lastpilot, '-infinity'),
        CASE WHEN {started} THEN coalesce(laststart, '-infinity') END)
        < jedi_now() - interval '30 s'
    FOR NO KEY UPDATE SKIP LOCKED))
)"""


# ------------------------------------------------------------------------------------- acquire

_ASKS = """ROWS FROM (unnest(CAST(:sites AS text[]), CAST(:requests AS text[]),
  CAST(:pilots AS text[]), CAST(:ns AS bigint[]))) WITH ORDINALITY a(site, request, pilot, n, o)"""
_SLOT = {
    "site": "text",
    "shares": "text[]",
    "priorities": "int[]",
    "firsts": "bigint[]",
    "mosts": "bigint[]",
    "buts": "bigint[]",
    **dict.fromkeys(Resources.model_fields, "bigint"),
}
"""The fields of a site's slot and of the first jobs that wait there, as Charges deals them."""

# From a share's first job, not from the share's beginning, go those of its priority, then the lower
# ones, share after share until there are enough: beside an old snapshot an index keeps the entry of
# each job that ever waited. A share that comes again leaves out what it gave before. Jobs are
# locked with their rows in the queue, and nothing waits: whoever moves a job locks it before its
# row there. A site has one slot: who looks for two at once finds the same job for both.
_FOUND = """
  SELECT y.* FROM unnest(g.shares, g.priorities, g.firsts, g.mosts, g.buts)
      s(gshare, priority, pandaid, most, but), LATERAL (
    SELECT z.* FROM (VALUES (s.priority, s.priority, s.pandaid),
        (s.priority - 1, -2147483648, 0)) p(top, least, first), LATERAL (
      SELECT r.ctid AS tid, r.pandaid, r.priority
      FROM jedi_job_ready r JOIN jedi_jobs j USING (pandaid)
      WHERE r.site = g.site AND r.gshare = s.gshare AND r.priority BETWEEN p.least AND p.top
        AND r.pandaid >= p.first AND j.status = 'activated'
        AND r.cores BETWEEN g.min_cores AND g.cores AND r.walltime_s <= g.walltime_s
        AND r.memory_mb BETWEEN g.min_memory_mb AND g.memory_mb AND r.disk_mb <= g.disk_mb
      ORDER BY r.priority DESC, r.pandaid LIMIT s.most + s.but
      FOR UPDATE OF r SKIP LOCKED FOR NO KEY UPDATE OF j SKIP LOCKED) z
    LIMIT s.most OFFSET s.but) y
"""
# OFFSET 0: each is looked up. A plan made while PostgreSQL expected no requests joined all of them.
_NEW = """NOT EXISTS (SELECT FROM jedi_acquire_requests r
  WHERE r.request_id = a.request AND r.site = a.site OFFSET 0)"""
_SEVERAL = f"""a AS MATERIALIZED (
  SELECT *, CAST(sum(n) OVER (PARTITION BY site ORDER BY o) AS bigint) AS upto
  FROM {_ASKS} WHERE {_NEW}
), w AS (
  SELECT site, max(upto) AS n FROM a GROUP BY site
), k AS MATERIALIZED (
  SELECT y.tid, site,
    row_number() OVER (PARTITION BY site ORDER BY y.priority DESC, y.pandaid) AS n
  FROM w JOIN jsonb_to_recordset(CAST(:slots AS jsonb))
    AS g({", ".join(f"{name} {kind}" for name, kind in _SLOT.items())}) USING (site),
    LATERAL ({_FOUND} LIMIT w.n) y
), x AS (
  SELECT a.request, a.pilot, k.tid
  FROM k JOIN a ON a.site = k.site AND k.n > a.upto - a.n AND k.n <= a.upto
)"""


def _bound(sql: str) -> str:
    """The same SQL for one request, whose fields and whose slot are binds."""
    kinds = {f"g.{name}": kind for name, kind in _SLOT.items()}
    kinds |= {"a.site": "text", "a.request": "text", "a.pilot": "text", "w.n": "bigint"}
    return re.sub(r"\b[agw]\.(\w+)", lambda f: f"CAST(:{f[1]} AS {kinds[f[0]]})", sql)


_ONE = _bound(f"""x AS (
  SELECT a.request AS request, a.pilot AS pilot, tid FROM ({_FOUND}) y WHERE {_NEW} LIMIT w.n
)""")


def _taking(found: str) -> Statement[Any]:
    """The statement that hands out the jobs of a CTE `x`. Rows of the queue are found by ctid,
    since a plan that looks for ids may walk the ordering index once more."""
    return answers(_prepared)(f"""WITH {found}, gone AS (
  DELETE FROM jedi_job_ready r USING x WHERE r.ctid = x.tid
  RETURNING r.pandaid, x.request, x.pilot
), u AS (
  UPDATE jedi_jobs j SET status = 'sent', statechangetime = jedi_now(), lock_seq = j.lock_seq + 1,
    heartbeat_at = jedi_now(), pilot_id = g.pilot
  FROM gone g WHERE j.pandaid = g.pandaid
  RETURNING g.request, j.pandaid, lock_seq, jeditaskid, attemptnr, site, cores, memory_mb,
    walltime_s, priority, workqueue_id, gshare, resource_type, status, 'activated' AS source,
    'acquired' AS code, 'Handed to ' || g.pilot AS reason
), {NOTE}, answered AS (
  INSERT INTO jedi_acquire_requests (request_id, site, pandaids)
  SELECT request, site, array_agg(pandaid) FROM u GROUP BY request, site
)
{HELD}""")


_TAKE = _taking(_SEVERAL)
_TAKE_ONE = _taking(_ONE)
"""The same for one request, the most frequent case: without numbers of jobs and joins of slots."""

_REPEAT = answers(_prepared)(f"""
WITH {_noted("= ANY(CAST(:sites AS text[]))")}, u AS MATERIALIZED (
  SELECT a.request, j.* FROM {_ASKS},
    LATERAL (SELECT * FROM jedi_acquire_requests r
      WHERE r.request_id = a.request AND r.site = a.site OFFSET 0) q,
    LATERAL unnest(q.pandaids) i(id),
    LATERAL (SELECT * FROM jedi_jobs WHERE pandaid = i.id OFFSET 0) j
  WHERE j.status IN ({JOB_AT_SITE}) AND j.pilot_id = a.pilot
)
{HELD}""")


def acquire(
    tx: Connection,
    site: str,
    n: int,
    resources: Resources,
    request_id: str,
    pilot_id: str,
    first_waiting: DispatchCache | None = None,
) -> list[HeldJob]:
    """The same as `acquire_all`, for one request."""
    request = AcquireRequest.model_construct(
        request_id=request_id, pilot_id=pilot_id, site=site, n=n, resources=resources
    )
    return acquire_all(tx, [request], first_waiting or DispatchCache())[0]


def acquire_all(
    tx: Connection, requests: Sequence[AcquireRequest], first_waiting: DispatchCache
) -> list[list[HeldJob]]:
    """Hand activated jobs that fit into slots to pilots, activated → sent; for each request its
    jobs. Each has an id of its own, and all of a site have the same slot.

    Shares take turns by their allocations, in a last round any with jobs; urgent work before
    all, shares alike by their first jobs; within a share jobs of higher priority, then older ones.
    `first_waiting` holds while it leads to a job, though there may be more jobs. A repeated request
    gets the jobs of the first one that the pilot still holds. IntegrityError: one of them was being
    answered at this moment (repeat it), or is another site's.
    """
    given: dict[str, list[HeldJob]] = {request.request_id: [] for request in requests}

    def note(found: Sequence[Any]) -> None:
        for request, job in held_jobs(tx, found, first_waiting):
            given[request].append(job)

    def take(asks: Sequence[AcquireRequest], heads: Heads, *, last: bool = False) -> None:
        if not (slots := {one.site: one.resources for one in asks if heads[one.site]}):
            return
        wanted = Counter(site for one in asks for site in [one.site] * one.n)
        spare = last or len(asks) == 1 or max(one.n for one in asks) > 1
        if not last:
            first_waiting.charges.refresh(tx)
        with first_waiting.charges.deals() as deals:
            asked = [
                deals.slot(site, slot, heads[site], wanted[site], spare=spare)
                for site, slot in slots.items()
            ]
            if len(asks) == 1:
                found = _TAKE_ONE.value(tx, **_ask(asks[0]), **asked[0])
            else:
                found = _TAKE.value(tx, **_asks(asks), slots=to_json(asked).decode())
            got = Counter(deals.given(*one[-4:]) for one in found[0] or ())
        for site, slot in slots.items():
            if (some := deals.left(site, heads[site], got)) is not heads[site]:
                heads[site] = some
                first_waiting.note(site, slot, some)
        note(found)

    def without(heads: Heads) -> list[AcquireRequest]:
        return [one for one in requests if not given[one.request_id] and heads.get(one.site, True)]

    known = {one.site: first_waiting.remembered(one.site, one.resources) for one in requests}
    heads = {**known}
    take(requests, heads)
    if left := without({}):
        for site in {ask.site for ask in left}:
            if (found := first_waiting.read(tx, site)) != known[site]:
                heads[site] = found
        take(without(heads), heads)
        take(without(heads), heads, last=True)
        if left := without({}):
            note(_REPEAT.value(tx, **_asks(left)))
    return [given[request.request_id] for request in requests]


def _asks(requests: Sequence[AcquireRequest]) -> dict[str, Any]:
    return {
        "sites": [one.site for one in requests],
        "requests": [one.request_id for one in requests],
        "pilots": [one.pilot_id for one in requests],
        "ns": [one.n for one in requests],
        "agent": AGENT,
    }


def _ask(one: AcquireRequest) -> dict[str, Any]:
    return {"request": one.request_id, "pilot": one.pilot_id, "n": one.n, "agent": AGENT}


# -------------------------------------------------------------------------------------- report

_KINDS = {name: "float8" if name.endswith("_s") else "bigint" for name in Measures.model_fields}
_MEASURED = f"jsonb_to_record(s.measures) AS m({', '.join(f'{n} {k}' for n, k in _KINDS.items())})"
_MEASURES = ", ".join(f"{name} = coalesce(m.{name}, j.{name})" for name in _KINDS)

_SITES = "= ANY(ARRAY(SELECT site FROM s))"
_SAID = """jsonb_to_recordset(CAST(:calls AS jsonb)) AS c(site text, messages jsonb),
    jsonb_to_recordset(c.messages)"""
"""The messages of calls, each with the site of its pilot."""

_LOCKED = """
  LATERAL (SELECT * FROM jedi_jobs WHERE pandaid = s.pandaid AND site = s.site
           FOR NO KEY UPDATE) j
"""
"""The jobs that `s`, which is in their order, speaks of, if they are at its site. Looked up one by
one: a plan for a join that was made while there were no jobs would read all of them."""

_MADE = f"""
made AS (
  UPDATE jedi_job_files f SET fsize = o.size, checksum = o.adler32, guid = o.guid
  FROM u, jsonb_to_recordset(u.outputs) AS o(lfn text, size bigint, adler32 text, guid text)
  WHERE f.pandaid = u.pandaid AND f.lfn = o.lfn
    AND f.type IN ({OUTPUT_TYPES}) AND u.status = 'holding'
)"""
_BEGUN = f"""
begun AS (
  UPDATE jedi_dataset_contents c SET proc_status = 'running',
    status = CASE WHEN u.kind = 'merge' THEN 'merging' ELSE 'running' END
  FROM u JOIN jedi_job_files f USING (pandaid)
  WHERE c.fileid = f.fileid AND f.type IN ({OUTPUT_TYPES})
    AND c.status = 'defined' AND u.status = 'running' AND u.source <> 'running'
)"""


def _accepting(*effects: str) -> str:
    """The statement with those effects that the reports can have: a part that changes no row takes
    40 us. Of several reports on an attempt the furthest counts."""
    return f"""
WITH s AS (
  SELECT DISTINCT ON (pandaid, lock_seq, site) site, s.*,
    status NOT IN ('starting', 'running') AS ended
  FROM {_SAID} AS s(pandaid bigint, lock_seq bigint,
    status text, started_at timestamptz, ended_at timestamptz, exit_code int, error_code text,
    error_diag text, measures jsonb, outputs jsonb, metadata jsonb)
  ORDER BY pandaid, lock_seq, site, ended DESC, status
), old AS (
  SELECT s.*, j.status AS source, j.status IN ({JOB_AT_SITE}) AS at_site,
    j.pilot_result AS first, j.hold_kind IS NOT NULL AS held,
    CASE WHEN s.ended THEN 'holding' WHEN 'running' IN (s.status, j.status) THEN 'running'
         ELSE s.status END AS target
  FROM s JOIN {_LOCKED} USING (pandaid, lock_seq)
), u AS (
  UPDATE jedi_jobs j SET status = s.target,
    statechangetime = CASE WHEN s.target <> s.source THEN jedi_now()
                           ELSE j.statechangetime END,
    heartbeat_at = jedi_now(), starttime = coalesce(s.started_at, j.starttime),
    endtime = s.ended_at, pilot_result = CASE WHEN s.ended THEN s.status END,
    exit_code = s.exit_code, error_code = s.error_code, error_diag = s.error_diag,
    metadata = nullif(s.metadata, '{{}}'), {_MEASURES}
  FROM old s, {_MEASURED} WHERE j.pandaid = s.pandaid AND s.at_site
  RETURNING j.pandaid, jeditaskid, kind, j.status, j.site, workqueue_id, gshare,
    resource_type, cores, s.source, coalesce(s.error_code, 'reported') AS code,
    coalesce(s.error_diag, 'The pilot reports: ' || s.status) AS reason, s.outputs
), {NOTE}, {", ".join(effects)}, starts AS (
  SELECT site FROM old WHERE at_site AND source IN ('sent', 'starting')
    AND (target = 'running' OR started_at IS NOT NULL)
), {_noted(_SITES, "site IN (SELECT site FROM starts)")}
SELECT json_build_array((SELECT json_agg(json_build_array(site, pandaid, lock_seq, held,
    at_site AND ended, CASE WHEN NOT at_site THEN first WHEN ended THEN status ELSE target END))
  FROM old WHERE at_site OR first IS NOT NULL),
  {waking("EXISTS (SELECT FROM old WHERE at_site AND ended)", "job:holding")})
"""


_ACCEPT = answers(_prepared)(_accepting(_MADE, _BEGUN))
_ACCEPT_STARTS = answers(_prepared)(_accepting(_BEGUN))
_ACCEPT_ENDS = answers(_prepared)(_accepting(_MADE))


def accept_reports(tx: Connection, site: str, reports: Sequence[Report]) -> list[str | None]:
    """The same as `accept_all`, for one call."""
    return accept_all(tx, [(site, reports)])[0]


def accept_all(tx: Connection, calls: Sequence[SiteMessages[Report]]) -> list[list[str | None]]:
    """Take down what pilots say of their jobs; for each report, what stands of its attempt: that it
    is starting or running, or how it ended.

    Nothing moves backwards and what comes late changes nothing: an attempt's first end stands,
    whatever is reported later. None: stale, the work of the attempt is not wanted.
    """
    given = {"calls": _json(calls), "agent": AGENT, "channel": channel()}
    said = {report.status in BEGINS for _, reports in calls for report in reports}
    statement = _ACCEPT if len(said) > 1 else _ACCEPT_STARTS if True in said else _ACCEPT_ENDS
    rows = statement.value(tx, **given)[0] or ()
    ended = {(site, job, seq): held for site, job, seq, held, ends, _ in rows if ends}
    if ended:
        _note_spoilt(
            tx,
            [
                r
                for site, reports in calls
                for r in reports
                if (site, r.pandaid, r.lock_seq) in ended
            ],
        )
    if through := [panda_id for (_, panda_id, _), held in ended.items() if held]:
        one_job.release(tx, through, AGENT, "Its payload had ended before its pilot held it.")
    tails = [
        (
            site,
            [
                LogEntry(pandaid=r.pandaid, lock_seq=r.lock_seq, stderr_tail=r.stderr_tail)
                for r in reports
                if r.stderr_tail
            ],
        )
        for site, reports in calls
    ]
    if any(entries for _, entries in tails):
        _TAILS.run(tx, calls=_json(tails))
    stands = {(site, panda_id, lock_seq): end for site, panda_id, lock_seq, *_, end in rows}
    return [
        [stands.get((site, report.pandaid, report.lock_seq)) for report in reports]
        for site, reports in calls
    ]


_SPOILT_PIECES = changes("""
WITH spoilt AS MATERIALIZED (
  SELECT z.ziprow_id, jsonb_build_object(CAST(b.id AS text), b.problem) AS problem
  FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[]), CAST(:problems AS text[]))
      AS b(id, lfn, problem) JOIN jedi_jobsets s ON s.merge_pandaid = b.id
    JOIN jedi_event_zips z ON z.lfn = b.lfn AND z.jeditaskid = s.jeditaskid
  WHERE EXISTS (
    SELECT FROM jedi_events e WHERE e.jobsetid = s.jobsetid
      AND (e.jeditaskid, e.pandaid, e.ziprow_id) = (z.jeditaskid, z.pandaid, z.ziprow_id))
  ORDER BY z.ziprow_id FOR NO KEY UPDATE OF z  -- several sets may have ranges in a zip file
)
UPDATE jedi_event_zips z SET problems = coalesce(z.problems, '{}') || b.problem
FROM spoilt b WHERE z.ziprow_id = b.ziprow_id
""")


def _note_spoilt(tx: Connection, reports: Sequence[Report]) -> None:
    """Note the inputs, and pieces of events, that their jobs could not use, with the reasons."""
    if found := [(r.pandaid, bad.lfn, bad.problem) for r in reports for bad in r.bad_inputs]:
        bad_inputs.note(tx, found)
        _SPOILT_PIECES.run(tx, **bad_inputs.columns(found))


# ----------------------------------------------------------------- heartbeats and live output

_BEAT = answers(_prepared)(f"""
WITH s AS (
  SELECT DISTINCT ON (pandaid, lock_seq, site) site, s.*
  FROM {_SAID} AS s(pandaid bigint, lock_seq bigint, measures jsonb)
), old AS (
  SELECT s.*, j.status, j.kill_code, j.hold_kind, j.pilot_result, j.error_diag
  FROM s JOIN {_LOCKED} USING (pandaid, lock_seq)
), u AS (
  UPDATE jedi_jobs j SET heartbeat_at = jedi_now(), {_MEASURES}
  FROM old s, {_MEASURED} WHERE j.pandaid = s.pandaid AND s.status IN ({JOB_AT_SITE})
), {_noted(_SITES)}
SELECT json_agg(json_build_array(site, pandaid, lock_seq, CASE
  WHEN pilot_result IS NOT NULL THEN NULL
  WHEN status NOT IN ({JOB_AT_SITE}) THEN coalesce(error_diag, 'The job is ' || status || '.')
  ELSE 'The job is to be killed: ' || kill_code || '.' END,
  hold_kind IS NOT NULL AND pilot_result IS NULL))
FROM old, set_config('synchronous_commit', 'off', true)
""")


def beat(tx: Connection, site: str, beats: Sequence[Beat]) -> list[BeatAnswer]:
    """The same as `beat_all`, for one call."""
    return beat_all(tx, [(site, beats)])[0]


def beat_all(tx: Connection, calls: Sequence[SiteMessages[Beat]]) -> list[list[BeatAnswer]]:
    """Note that jobs are alive, with their measurements. Return for each the command to its pilot
    (kill, hold or none) and the reason of a kill. The commit does not wait for the disk: a living
    pilot repeats its heartbeat."""
    answers: dict[tuple[str, int, int], BeatAnswer] = {
        (site, panda_id, lock_seq): ("kill" if why else "hold" if held else "none", why)
        for site, panda_id, lock_seq, why, held in _BEAT.value(tx, calls=_json(calls)) or ()
    }
    unknown: BeatAnswer = ("kill", "This attempt is not known.")
    return [
        [answers.get((site, b.pandaid, b.lock_seq), unknown) for b in beats]
        for site, beats in calls
    ]


_TAILS = returns(int)(f"""
WITH s AS (
  SELECT DISTINCT ON (pandaid, lock_seq, site) site, s.*
  FROM {_SAID} AS s(pandaid bigint, lock_seq bigint, stdout_tail text, stderr_tail text)
)
INSERT INTO jedi_job_tail AS t (pandaid, stdout_tail, stderr_tail)
SELECT pandaid, s.stdout_tail, s.stderr_tail
FROM s JOIN LATERAL (SELECT * FROM jedi_jobs WHERE pandaid = s.pandaid OFFSET 0) j
  USING (pandaid, lock_seq, site)
WHERE j.status IN ({JOB_AT_SITE}, 'holding') ORDER BY pandaid
ON CONFLICT (pandaid) DO UPDATE SET
  stdout_tail = coalesce(excluded.stdout_tail, t.stdout_tail),
  stderr_tail = coalesce(excluded.stderr_tail, t.stderr_tail), modificationtime = jedi_now()
RETURNING pandaid
""")


def store_tails(tx: Connection, site: str, entries: Sequence[LogEntry]) -> list[bool]:
    """Keep what payloads printed last; for each entry, whether its attempt is alive."""
    kept = set(_TAILS.rows(tx, calls=_json([(site, entries)])))
    return [entry.pandaid in kept for entry in entries]


def _json(calls: Sequence[SiteMessages[Attempt]]) -> str:
    said = [{"site": site, "messages": messages} for site, messages in calls]
    return to_json(said, exclude_none=True, inf_nan_mode="null").decode()
