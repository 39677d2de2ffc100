"""jedi_jobs: every status change of a job goes through here, with its log and its statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.kills import KILLS
from jedi.taskbuffer.db.engine import prepared, wake
from jedi.taskbuffer.db.sql_lists import JOB_FINAL, listed
from jedi.taskbuffer.db.statement import answers, changes, returns

NOTE = """
l AS (
  INSERT INTO jedi_jobs_statuslog
    (pandaid, jeditaskid, fromstatus, status, agent, reason_code, reason)
  SELECT pandaid, jeditaskid, source, status, :agent, code, reason FROM u WHERE source <> status
), d AS (
  INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
  SELECT site, workqueue_id, gshare, resource_type, s.status, sum(s.n), sum(s.n * cores)
  FROM u, LATERAL (VALUES (u.source, -1), (u.status, 1)) s(status, n)
  WHERE u.source <> u.status
  GROUP BY 1, 2, 3, 4, 5 HAVING sum(s.n) <> 0
)
"""
"""Tail of every statement that moves jobs. It reads a CTE `u` with pandaid, jeditaskid, source,
status, site, workqueue_id, gshare, resource_type, cores, code, reason and the bind :agent."""


class JobMove(NamedTuple):
    """A job's next status. With `lock_seq` the move is void if the job was dispatched again.

    An unsuccessful end keeps the reason as the job's error, with its source: pilot, payload, jedi
    or user.
    """

    panda_id: int
    target: str
    code: str
    reason: str
    lock_seq: int | None = None
    error_source: str | None = None


class MovedJob(NamedTuple):
    """A move that took place."""

    panda_id: int
    jedi_task_id: int
    source: str
    target: str
    kind: str
    code: str


_prepared = prepared(
    "Each batch of moves, often of one job: planning takes longer than a job's part of the "
    "execution. Bound: the jobs of the batch, by key."
)
LOCK_JOBS = returns(tuple[int, str])("""
-- Lock jobs to the transaction's end; their present statuses.
SELECT pandaid, status FROM jedi_jobs WHERE pandaid = ANY(CAST(:ids AS bigint[]))
ORDER BY pandaid FOR NO KEY UPDATE
""")
_LOCK_ONLY = answers(_prepared)(f"SELECT to_json(count(*)) FROM ({LOCK_JOBS.sql}) locked")
_GONE = """
gone AS (
  DELETE FROM jedi_job_ready r USING old
  WHERE r.pandaid = old.id AND old.source = 'activated'
), """
_CAME = """
came AS (
  INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s,
                              disk_mb)
  SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb
  FROM u WHERE status = 'activated' AND source <> 'activated' AND hold_kind IS NULL
), """


_KILLS = listed(KILLS)


def _moving(gone: str = "", came: str = "") -> str:
    """The statement that moves jobs, with its parts for the queue of activated jobs."""
    return f"""
WITH m AS (
  SELECT *, target IN ({JOB_FINAL}) AS ended,
    target IN ({JOB_FINAL}) AND target <> 'finished' AS bad
  FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[]), CAST(:kinds AS bigint[]))
    AS j(id, seq, kind)
  JOIN unnest(CAST(:targets AS text[]), CAST(:codes AS text[]), CAST(:reasons AS text[]),
    CAST(:blames AS text[])) WITH ORDINALITY AS k(target, code, reason, error_source, kind)
    USING (kind)
), old AS (
  SELECT m.*, j.tid, j.status AS source
  FROM m, LATERAL (SELECT *, ctid AS tid FROM jedi_jobs WHERE pandaid = m.id OFFSET 0) j
  WHERE (m.seq IS NULL OR j.lock_seq = m.seq) AND j.status = ANY(:sources)
    -- what a person holds is not stored meanwhile
    AND (m.target NOT IN ('transferring', 'merging', 'finished')
         OR coalesce(j.hold_kind, 'failed_recoverable') = 'failed_recoverable')
), {gone}u AS (
  UPDATE jedi_jobs j SET status = m.target, statechangetime = jedi_now(),
    endtime = CASE WHEN m.ended THEN coalesce(j.endtime, jedi_now()) ELSE j.endtime END,
    postprocessed_at = CASE WHEN m.ended THEN jedi_now() END,
    error_source = CASE WHEN m.bad THEN m.error_source ELSE j.error_source END,
    error_code = CASE WHEN m.bad THEN m.code ELSE j.error_code END,
    error_diag = CASE WHEN m.bad THEN m.reason ELSE j.error_diag END,
    kill_code = CASE WHEN m.target = 'finished' THEN NULL WHEN j.kill_code IS NULL AND m.bad
                     AND m.code IN ({_KILLS}) THEN m.code ELSE j.kill_code END,
    -- a hold is a flag beside a status: it ends with it, if it is not one before any pilot's
    hold_kind = CASE WHEN m.target IN ('activated', 'throttled') THEN j.hold_kind END,
    hold_reason = CASE WHEN m.target IN ('activated', 'throttled') THEN j.hold_reason END,
    hold_since = CASE WHEN m.target IN ('activated', 'throttled') THEN j.hold_since END,
    hold_deadline = NULL
  FROM old m WHERE j.ctid = m.tid  -- another statement has locked them
  RETURNING j.pandaid, j.jeditaskid, m.source, j.status, j.site, j.workqueue_id, j.gshare,
            j.resource_type, j.cores, j.priority, j.memory_mb, j.walltime_s, j.disk_mb,
            j.hold_kind, j.kind, m.code, m.reason
), {came}{NOTE}
SELECT json_agg(json_build_array(pandaid, jeditaskid, source, status, kind, code) ORDER BY pandaid)
FROM u
"""


_MOVE = answers(_prepared)(_moving(_GONE, _CAME))
_MOVE_ON = answers(_prepared)(_moving())
"""The same for jobs that neither leave the queue of activated jobs nor come into it. Both return
the fields of MovedJob."""


def move_jobs(
    tx: Connection,
    moves: Sequence[JobMove],
    agent: str,
    sources: Iterable[str],
    *,
    locked: bool = False,
) -> list[MovedJob]:
    """Set statuses of jobs whose present one is in `sources`; log, statistics and the queue of
    activated jobs follow in the same statement. Others are left alone: compare the result.
    `locked`: an earlier statement has locked them.

    Terminal statuses are the business of `jobs_end.end_jobs`, which calls this and settles files.
    """
    if not moves:
        return []
    # A statement of its own: one that begins before it has to wait for the job does not see what
    # the other one put into the queue.
    if not locked:
        _LOCK_ONLY.value(tx, ids=[m.panda_id for m in moves])
    alike = [(m.target, m.code, m.reason, m.error_source) for m in moves]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(alike), 1)}
    targets, codes, reasons, blames = map(list, zip(*kinds, strict=True))
    values: dict[str, Any] = {
        "ids": [m.panda_id for m in moves],
        "seqs": [m.lock_seq for m in moves],
        "kinds": [kinds[kind] for kind in alike],
        "targets": targets,
        "codes": codes,
        "reasons": reasons,
        "blames": blames,
        "sources": list(sources),
        "agent": agent,
    }
    queued = "activated" in {*values["sources"], *targets}
    statement = _MOVE if queued else _MOVE_ON
    moved = [MovedJob._make(row) for row in statement.value(tx, **values) or ()]
    wake(tx, *sorted({f"job:{m.target}" for m in moved if m.target in states.JOB_LIVE}))
    return moved


_APPEND_DELTAS = changes("""
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(
  site text, workqueue int, gshare text, resource_type text, status text, jobs int, cores int)
""")


def append_deltas(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Add new jobs to the statistics: dicts of site, workqueue, gshare, resource_type, status,
    jobs, cores, already grouped."""
    if rows:
        _APPEND_DELTAS.run(tx, rows=json.dumps([*rows]))


ASK_TO_KILL = changes("""
-- Mark jobs that a pilot has: its next heartbeat is answered with kill.
UPDATE jedi_jobs SET kill_code = :code WHERE pandaid = ANY(ARRAY(
SELECT pandaid FROM jedi_jobs WHERE pandaid = ANY(CAST(:ids AS bigint[]))
  AND status IN ('sent', 'starting', 'running') AND kill_code IS NULL
ORDER BY pandaid FOR NO KEY UPDATE))
""")
