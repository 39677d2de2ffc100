"""Pilots and jobs: acquire, report, heartbeat, live output. One statement serves many jobs.

An attempt is (pandaid, lock_seq). A report for another attempt, or for a job of another site, gets
the answer `stale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic_core import to_json
from sqlalchemy import Connection, text

from jedi.core import states
from jedi.spec.jobs.attempt import HeldJob, JobFile
from jedi.spec.jobs.wire import Attempt, Beat, LogEntry, Measures, Report, Resources
from jedi.spec.splitting.split_rules import SCOUTING
from jedi.taskbuffer.db.engine import channel, plain, short, value, waking
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, OUTPUT_TYPES
from jedi.taskbuffer.jobs import one_job
from jedi.taskbuffer.jobs.first_waiting import First, FirstWaiting
from jedi.taskbuffer.jobs.jobs import NOTE

AGENT = "JobDispatcher"
UNBOUNDED = 2**31 - 1
BEGINS = ("starting", "running")

Message = TypeVar("Message", bound=Attempt)
SiteMessages = tuple[str, Sequence[Message]]
"""The messages of a pilot, after its site."""

BeatAnswer = tuple[str, str | None]
"""kill, hold or none, and the reason of a kill."""

JOB_FILES = """
(SELECT json_agg(json_build_array(f.type, f.lfn, d.datasetname, f.endpoint, f.source_name,
   f.fsize, f.checksum, f.guid,
   (f.type = 'output' AND 'an' = ANY(string_to_array(d.attributes, ','))) IS TRUE)
   ORDER BY f.fileid)
 FROM jedi_job_files f LEFT JOIN LATERAL (SELECT datasetname, attributes FROM jedi_datasets d
   WHERE d.datasetid = f.datasetid OFFSET 0) d ON true
 WHERE f.pandaid = j.pandaid AND {condition})
"""
"""The files of a job `j` that meet a condition on `f`, as JSON for `job_files()`. Without OFFSET 0
PostgreSQL joined them with all datasets, for one job."""

STAGING = """
(SELECT json_agg(e.ddm_endpoint ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint)
 FROM jedi_site_endpoints e WHERE e.site = {site} AND e.roles LIKE '%write%')
"""
"""The endpoints of a site that pilots may write to, as JSON for `staging()`."""


def job_files(found: Sequence[Sequence[Any]] | None) -> tuple[JobFile, ...]:
    """The files behind JOB_FILES, each once: event ranges of one file are one file here."""
    return tuple(dict.fromkeys(map(JobFile._make, found or ())))


def staging(endpoints: Sequence[str] | None, files: Sequence[JobFile]) -> str:
    """The endpoint at which the pilot of a job stages its outputs, of those behind STAGING: their
    destination if it can."""
    wanted = {file.endpoint for file in files if file.type in states.OUTPUT_TYPES}
    return next((e for e in endpoints or () if e in wanted), (endpoints or [""])[0])


def _noted(sites: str, started: str = "false") -> str:
    """A CTE that stamps `sites` with the time of a pilot's message, and of a payload that
    `started` there. It does so twice a minute at most and never waits: all pilots of a site would
    queue for that one row."""
    return f"""
noted AS (
  UPDATE jedi_sites SET lastpilot = jedi_now(),
    laststart = CASE WHEN {started} THEN jedi_now() ELSE laststart END
  WHERE site IN (
    SELECT site FROM jedi_sites WHERE site {sites}
      AND least(coalesce(lastpilot, '-infinity'),
        CASE WHEN {started} THEN coalesce(laststart, '-infinity') END)
        < jedi_now() - interval '30 s'
    FOR NO KEY UPDATE SKIP LOCKED)
)"""


# ------------------------------------------------------------------------------------- acquire

# A scout whose time decides how many events the ranges of later jobs have.
_MEASURES = (
    f"CASE WHEN k.rules ->> 'use_scout' = '{SCOUTING}' "
    "AND k.rules ->> 'target_events_per_job' IS NOT NULL AND coalesce(k.rules ->> "
    "'n_events_per_job', k.rules ->> 'n_files_per_job', k.rules ->> 'n_gb_per_job') IS NULL "
    "THEN greatest(s.maxtime, 0) END"
)
# What is looked up for a few jobs is not joined: plans for all must not come of it.
_HELD = f"""
SELECT json_agg(json_build_array(j.pandaid, j.lock_seq, j.jeditaskid, j.attemptnr, j.site, j.cores,
  j.memory_mb, j.walltime_s, greatest(s.maxwdir, 0), p.jobparameters, p.texts,
  (SELECT sandbox_sha256 FROM jedi_taskparams t WHERE t.jeditaskid = j.jeditaskid),
  k.measured_jobs > 0, k.rules -> 'max_walltime_h', {_MEASURES}, {STAGING.format(site=":site")},
  {JOB_FILES.format(condition="true")})
  ORDER BY j.priority DESC, j.pandaid)
FROM {{jobs}} j JOIN jedi_job_params p USING (pandaid) JOIN jedi_sites s USING (site),
  LATERAL (SELECT measured_jobs, rules FROM jedi_tasks t WHERE t.jeditaskid = j.jeditaskid
           OFFSET 0) k
{{where}}
"""
"""Jobs `j` as a pilot gets them, the fields of HeldJob in their order, in one value: dear is each
column, not its length."""

# From a share's first job, not from the share's beginning, go those of its priority, then the lower
# ones, share after share until there are enough: beside an old snapshot an index keeps the entry of
# each job that ever waited. Rows are found by ctid, since a plan that looks for ids may walk the
# ordering index once more. Jobs are locked with their rows in the queue, and nothing waits: whoever
# moves a job locks it before its row there.
_ACQUIRE = f"""
WITH gone AS (
  DELETE FROM jedi_job_ready WHERE ctid = ANY(ARRAY(
    SELECT x.tid FROM unnest(CAST(:shares AS text[]), CAST(:priorities AS int[]),
      CAST(:firsts AS bigint[])) s(gshare, priority, pandaid),
      LATERAL (VALUES (s.priority, s.priority, s.pandaid),
        (s.priority - 1, -2147483648, 0)) p(top, least, first), LATERAL (
      SELECT r.ctid AS tid FROM jedi_job_ready r JOIN jedi_jobs j USING (pandaid)
      WHERE r.site = :site AND r.gshare = s.gshare AND r.priority BETWEEN p.least AND p.top
        AND r.pandaid >= p.first AND j.status = 'activated'
        AND r.cores BETWEEN :min_cores AND :cores AND r.walltime_s <= :walltime_s
        AND r.memory_mb BETWEEN :min_memory_mb AND :memory_mb AND r.disk_mb <= :disk_mb
      ORDER BY r.priority DESC, r.pandaid LIMIT :n
      FOR UPDATE OF r SKIP LOCKED FOR NO KEY UPDATE OF j SKIP LOCKED) x
    WHERE NOT EXISTS (
      SELECT FROM jedi_acquire_requests WHERE request_id = :request AND site = :site)
    LIMIT :n))
  RETURNING pandaid
), u AS (
  UPDATE jedi_jobs j SET status = 'sent', statechangetime = jedi_now(), lock_seq = j.lock_seq + 1,
    heartbeat_at = jedi_now(), pilot_id = :pilot
  FROM gone WHERE j.pandaid = gone.pandaid
  RETURNING j.pandaid, lock_seq, jeditaskid, attemptnr, site, cores, memory_mb, walltime_s,
    priority, workqueue_id, gshare, resource_type, status, 'activated' AS source,
    'acquired' AS code, 'Handed to ' || :pilot AS reason
), {NOTE}, answered AS (
  INSERT INTO jedi_acquire_requests (request_id, site, pandaids)
  SELECT :request, :site, array_agg(pandaid) FROM u HAVING count(*) > 0
)
{_HELD.format(jobs="u", where="")}"""
_TAKE = plain(short(_ACQUIRE))
_REPEAT = plain(
    f"WITH {_noted('= :site')}"
    + _HELD.format(
        jobs="jedi_jobs",
        where=f"""
WHERE j.pandaid = ANY(ARRAY(SELECT unnest(pandaids) FROM jedi_acquire_requests
                            WHERE request_id = :request AND site = :site))
  AND j.status IN ({JOB_AT_SITE}) AND j.pilot_id = :pilot
""",
    )
)


def acquire(
    tx: Connection,
    site: str,
    n: int,
    resources: Resources,
    request_id: str,
    pilot_id: str,
    first_waiting: FirstWaiting | None = None,
) -> list[HeldJob]:
    """Hand up to `n` activated jobs of a site that fit into a slot to a pilot, activated → sent.

    Shares come by what they use of their allocation, urgent work before all, shares alike by their
    first jobs; within a share jobs of higher priority come first, then older ones. `first_waiting`
    holds while it leads to a job, though there may be more jobs. A repeated request gets the jobs
    of the first one that the pilot still holds. IntegrityError: the same request was being answered
    at this moment (repeat it), or is another site's.
    """
    first_waiting = first_waiting or FirstWaiting()
    values = {"site": site, "request": request_id, "pilot": pilot_id}
    slot = {
        name: size or (0 if name.startswith("min_") else UNBOUNDED)
        for name, size in resources.model_dump().items()
    }
    given = {**values, **slot, "n": n, "agent": AGENT}

    def take(first: First | None) -> Any:
        return first and value(tx, _TAKE, {**given, **first})

    known = first_waiting.remembered(site)
    jobs = take(known)
    if not jobs and (first := first_waiting.read(tx, site)) != known:
        jobs = take(first)
    jobs = jobs or value(tx, _REPEAT, values) or ()
    return [_held(*job) for job in jobs]


def _held(*job: Any) -> HeldJob:
    """A job of _HELD."""
    *fields, endpoints, found = job
    files = job_files(found)
    return HeldJob._make((*fields, staging(endpoints, files), files))


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
    coalesce(s.error_diag, 'The pilot says: ' || s.status) AS reason, s.outputs
), {NOTE}, {", ".join(effects)}, starts AS (
  SELECT site FROM old WHERE at_site AND source IN ('sent', 'starting')
    AND (target = 'running' OR started_at IS NOT NULL)
), {_noted(_SITES, "site IN (SELECT site FROM starts)")}
SELECT json_build_array((SELECT json_agg(json_build_array(site, pandaid, lock_seq, held,
    at_site AND ended, CASE WHEN NOT at_site THEN first WHEN ended THEN status ELSE target END))
  FROM old WHERE at_site OR first IS NOT NULL),
  {waking("EXISTS (SELECT FROM old WHERE at_site AND ended)", "job:holding")})
"""


_ACCEPT = plain(short(_accepting(_MADE, _BEGUN)))
_ACCEPT_STARTS = plain(short(_accepting(_BEGUN)))
_ACCEPT_ENDS = plain(short(_accepting(_MADE)))


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
    rows = value(tx, statement, given)[0] or ()
    ended = {(site, job, seq): held for site, job, seq, held, ends, _ in rows if ends}
    if ended:
        _note_spoilt(tx, [r for site, reports in calls for r in reports
                          if (site, r.pandaid, r.lock_seq) in ended])  # fmt: skip
    if through := [panda_id for (_, panda_id, _), held in ended.items() if held]:
        one_job.release(tx, through, AGENT, "Its payload had ended before its pilot held it.")
    tails = [(site, [LogEntry(pandaid=r.pandaid, lock_seq=r.lock_seq, stderr_tail=r.stderr_tail)
                     for r in reports if r.stderr_tail]) for site, reports in calls]  # fmt: skip
    if any(entries for _, entries in tails):
        _store(tx, tails)
    stands = {(site, panda_id, lock_seq): end for site, panda_id, lock_seq, *_, end in rows}
    return [[stands.get((site, report.pandaid, report.lock_seq)) for report in reports]
            for site, reports in calls]  # fmt: skip


_SPOILT = text(f"""
UPDATE jedi_job_files f SET problem = b.problem
FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[]), CAST(:problems AS text[]))
  AS b(id, lfn, problem)
WHERE f.pandaid = b.id AND f.lfn = b.lfn AND f.type NOT IN ({OUTPUT_TYPES})
""")


_SPOILT_PIECES = text("""
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
        ids, lfns, problems = map(list, zip(*found, strict=True))
        given = {"ids": ids, "lfns": lfns, "problems": problems}
        tx.execute(_SPOILT, given)
        tx.execute(_SPOILT_PIECES, given)


# ----------------------------------------------------------------- heartbeats and live output

_BEAT = plain(f"""
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
        for site, panda_id, lock_seq, why, held in value(tx, _BEAT, {"calls": _json(calls)}) or ()
    }
    unknown: BeatAnswer = ("kill", "This attempt is not known.")
    return [[answers.get((site, b.pandaid, b.lock_seq), unknown) for b in beats]
            for site, beats in calls]  # fmt: skip


_TAILS = text(f"""
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
    kept = _store(tx, [(site, entries)])
    return [entry.pandaid in kept for entry in entries]


def _store(tx: Connection, calls: Sequence[SiteMessages[LogEntry]]) -> set[int]:
    return set(tx.scalars(_TAILS, {"calls": _json(calls)}))


_SANDBOX = text("SELECT data FROM jedi_sandboxes WHERE sha256 = :sha256")


def sandbox(tx: Connection, sha256: str) -> bytes | None:
    """The archive with this sha256."""
    found: bytes | None = tx.scalar(_SANDBOX, {"sha256": sha256})
    return found


def _json(calls: Sequence[SiteMessages[Attempt]]) -> str:
    said = [{"site": site, "messages": messages} for site, messages in calls]
    return to_json(said, exclude_none=True, inf_nan_mode="null").decode()
