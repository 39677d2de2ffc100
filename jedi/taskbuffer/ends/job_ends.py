"""Ends of jobs: the one way to a terminal status, and its effects on files and datasets.

Locks are always taken in one order: jobs by pandaid, datasets by datasetid, then contents. The
lock on a dataset keeps apart all who end jobs with files in it, so no two wait for each other.

Files and datasets are found by their own numbers alone: with their task's beside it, a plan made
while tables were empty read all files of the task for each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import starmap
from typing import Any

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.faults import NOBODYS_FAULT
from jedi.model.jobs.attempt import JobFile, ReportedJob
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import (
    channel,
    prepared,
    trivial,
    waking,
)
from jedi.taskbuffer.db.planning import IN_ORDER
from jedi.taskbuffer.db.sql_lists import (
    CONSUMER_KINDS,
    INPUT_TYPES,
    MASTER_TYPES,
    OUTPUT_TYPES,
    PRE_MERGE_TYPES,
    listed,
)
from jedi.taskbuffer.db.statement import answers, changes, returns
from jedi.taskbuffer.ends import merge_retries
from jedi.taskbuffer.events import consumer_ends
from jedi.taskbuffer.jobs import bad_inputs, merging, retry_rules
from jedi.taskbuffer.jobs.jobs import JobMove, MovedJob, move_jobs
from jedi.taskbuffer.jobs.order_files import STAGING, staging
from jedi.taskbuffer.users import outbox


class JobEnd(JobMove):
    """A job's end: `target` is finished, failed, cancelled or closed."""

    __slots__ = ()


_NOBODYS_FAULT = listed(sorted(NOBODYS_FAULT))
_SKIPPED = "'ready', 'pending', 'lost', 'missing', 'broken'"
"""Bad files of no job, which are skipped from now on, or were before."""

_WHY = (
    "Each batch of ends, often of one job: planning takes longer than a job's part of the "
    "execution. Bound: the jobs of the batch and their files, "
)
_SETTLE = answers(prepared(_WHY + "by key."))(f"""
WITH e AS (
  SELECT c.ctid AS tid, c.datasetid, s.innocent, s.free, s.unmerged,
    s.unmerged AND c.status = 'pending' AS unmade,
    CAST(j.status = 'failed' AND NOT s.innocent AND NOT s.free AS int) AS fault,
    f.type IN ({INPUT_TYPES}) AS input, f.fsize, f.checksum, f.guid,
    CASE WHEN j.status = 'finished' THEN 'finished'
         WHEN f.type NOT IN ({INPUT_TYPES}) THEN 'failed'
         WHEN f.problem IS NOT NULL THEN f.problem
         -- a killed merge is not tried again
         WHEN c.type IN ({PRE_MERGE_TYPES}) AND j.status = 'cancelled' THEN 'failed'
         WHEN f.type <> 'random_seed' AND NOT s.innocent AND NOT s.free AND (
           c.attemptnr >= c.maxattempt
           OR c.failedattempt + CAST(j.status = 'failed' AS int) >= c.maxfailure) THEN 'failed'
         WHEN c.type IN ({MASTER_TYPES}) AND EXISTS (SELECT FROM jedi_units u  -- a killed unit
           WHERE u.jeditaskid = c.jeditaskid AND u.unit_nr = c.boundaryid
             AND u.killed_at IS NOT NULL) THEN 'failed'
         ELSE 'ready' END AS target,
    coalesce(c.endevent - c.startevent + 1, c.nevents) AS events
  FROM jedi_jobs j,
    -- job by job: with the numbers of all beside its own, each was looked for among them all
    LATERAL (SELECT fileid, type, problem, fsize, checksum, guid
      FROM jedi_job_files WHERE pandaid = j.pandaid OFFSET 0) f,
    -- file by file: a merge join read all files of all tasks
    LATERAL (SELECT ctid, * FROM jedi_dataset_contents WHERE fileid = f.fileid OFFSET 0) c,
    -- the attempt failed on account of other files
    LATERAL (SELECT j.status <> 'finished' AND f.type IN ({INPUT_TYPES}) AND f.problem IS NULL
      AND EXISTS (SELECT FROM jedi_job_files o
        WHERE o.pandaid = j.pandaid AND o.problem IS NOT NULL AND EXISTS (
          SELECT FROM jedi_dataset_contents b WHERE b.fileid = o.fileid  -- no job gets it again
            AND (b.pandaid = j.pandaid OR b.status IN ({_SKIPPED})) OFFSET 0)
        OFFSET 0)  -- not all such files
      AS innocent,
      j.status <> 'finished' AND f.type IN ({INPUT_TYPES})
        AND (j.error_code IN ({_NOBODYS_FAULT})) IS TRUE
        AND c.freeinrow < CAST(:most_free AS bigint) AS free,
      c.type IN ({PRE_MERGE_TYPES}) AND f.type NOT IN ({INPUT_TYPES}) AS unmerged) s
  WHERE j.pandaid = ANY(CAST(:ids AS bigint[]))
    AND CASE WHEN s.unmerged THEN c.status IN ('pending', 'ready')
             ELSE c.pandaid = j.pandaid
               AND c.status IN ('defined', 'running', 'prepared', 'merging') END
), c AS (
  UPDATE jedi_dataset_contents c SET status = e.target,
    proc_status = CASE WHEN e.target IN ('missing', 'broken') THEN 'failed' ELSE e.target END,
    maxattempt = c.maxattempt + CAST(e.innocent OR e.free AS int),
    freeattempt = c.freeattempt + CAST(e.innocent OR e.free AS int),
    freeinrow = CASE WHEN e.free THEN c.freeinrow + 1 WHEN e.innocent THEN c.freeinrow ELSE 0 END,
    failedattempt = CASE WHEN e.input THEN c.failedattempt + e.fault ELSE c.failedattempt END,
    fsize = CASE WHEN e.input THEN c.fsize ELSE e.fsize END,
    checksum = CASE WHEN e.input THEN c.checksum ELSE e.checksum END,
    guid = CASE WHEN e.input THEN c.guid ELSE e.guid END
  FROM e WHERE c.ctid = e.tid
  RETURNING e.datasetid, e.target, e.unmerged, e.unmade, e.input, e.events
), g AS (
  SELECT datasetid, count(*) FILTER (WHERE target = 'ready') AS released,
    count(*) FILTER (WHERE target = 'finished') AS finished,
    count(*) FILTER (WHERE target = 'failed') AS failed,
    count(*) FILTER (WHERE target IN ('missing', 'broken')) AS missing,
    count(*) FILTER (WHERE unmerged) AS unmerged, count(*) FILTER (WHERE unmade) AS unmade,
    sum(events) FILTER (WHERE target = 'finished' AND input) AS events
  FROM c GROUP BY datasetid
), d AS (
  UPDATE jedi_datasets d SET nfilesused = d.nfilesused - g.released - g.missing + g.unmerged,
    nfilestobeused = d.nfilestobeused + g.unmade,
    nfilesmissing = d.nfilesmissing + g.missing,
    nfilesfinished = d.nfilesfinished + g.finished, nfilesfailed = d.nfilesfailed + g.failed,
    neventsused = CASE WHEN g.events IS NULL THEN d.neventsused
                       ELSE coalesce(d.neventsused, 0) + g.events END
  FROM g, LATERAL (SELECT ctid AS tid FROM jedi_datasets WHERE datasetid = g.datasetid OFFSET 0) l
  WHERE d.ctid = l.tid  -- another statement has locked them
)
SELECT json_build_array({waking("sum(released) > 0", "files:ready")},
  {waking("sum(finished + failed + missing) > 0", "files:done")},
  EXISTS (SELECT FROM jedi_events WHERE pandaid = ANY(CAST(:ids AS bigint[]))
    AND job_processid = 0),
  {outbox.ASKED}, (SELECT bool_or(innocent OR target IN ('missing', 'broken')) FROM e),
  (SELECT count(*) FROM e) > (SELECT count(*) FROM c))
FROM g
""")
"""Rows of contents are found a second time by their place: another statement that changes one at
this moment moves it. Such a row is left for the same statement once more (`rest`)."""


_CODE = states.EVENT_CODES
_END_EVENTS = changes(f"""
UPDATE jedi_events e SET
  status = CASE WHEN e.status = {_CODE["done"]} THEN  -- its job was merging
                  CASE j.status WHEN 'finished' THEN {_CODE["merged"]}
                    WHEN 'failed' THEN {_CODE["corrupted"]} ELSE {_CODE["discarded"]} END
                WHEN j.status = 'finished' THEN {_CODE["done"]}
                WHEN j.status <> 'failed' THEN {_CODE["cancelled"]}
                WHEN c.status = 'failed' THEN {_CODE["fatal"]} ELSE {_CODE["failed"]} END,
  processed_upto_eventid = CASE WHEN j.status = 'finished' THEN e.def_max_eventid END
FROM jedi_jobs j, jedi_dataset_contents c
WHERE e.pandaid = ANY(CAST(:ids AS bigint[])) AND e.job_processid = 0
  AND j.pandaid = ANY(CAST(:ids AS bigint[]))
  AND j.pandaid = e.pandaid AND c.fileid = e.fileid
""")


def lock(tx: Connection, panda_ids: Sequence[int]) -> dict[int, str]:
    """Lock jobs and those that end with them, in one order; their present statuses. A caller that
    moves some of them after others does this first."""
    return merging.lock(tx, panda_ids).statuses


def end_jobs(
    tx: Connection,
    ends: Sequence[JobEnd],
    agent: str,
    sources: Iterable[str] = states.JOB_LIVE,
) -> list[MovedJob]:
    """End jobs whose status is in `sources` and settle their files, in a constant number of
    statements.

    Inputs of a finished job are finished; others come back (`ready`) while they may be tried again,
    else they failed; only the end `failed` counts as a failure of theirs. An end that is nobody's
    fault (core/faults.py) does not count against their attempts, up to `attempts.most_free` in a
    row. Inputs that are to blame for it are missing or broken, in all rows that no job has, and for
    the others it was no attempt. Random seeds always come back. Ranges of events and outputs are
    finished or failed with their job, the log of a failed job too, whether or not it can be read.
    When jobs fail, retry rules are obeyed. Other jobs are left alone: compare the result. With a
    merge job end those whose files it had, unless the merge is tried again; such a job does not end
    before. The merge job of a job set of events may have an heir, which takes over its files; a
    consumer that is killed in merging loses its pieces.
    """
    ids = [end.panda_id for end in ends]
    if not ids:
        return []
    _, makers, bound = merging.lock(tx, ids, datasets=True)
    free = [end for end in ends if end.panda_id not in bound]
    ended = move_jobs(tx, free, agent, sources, locked=True)
    if ended:
        through = {job.panda_id for job in ended}
        tied = {maker: merger for maker, merger in makers.items() if merger in through}
        merge_retries.take_over(tx, ended, agent)
        consumer_ends.reopen(tx, ended)
        if failed := [job.panda_id for job in ended if job.target == "failed"]:
            retry_rules.obey(tx, failed)
        _settle(tx, ended)
        _settle(tx, move_jobs(tx, merging.outcomes(tx, tied), agent, ["merging"]))
    return ended


def end_lost(
    tx: Connection, ends: Sequence[JobEnd], consumers: Collection[int], agent: str
) -> list[MovedJob]:
    """End jobs, of which these are consumers whose pilots are gone: they are `holding`, and the
    EventService looks at what they have processed."""
    lost = [
        JobMove(end.panda_id, "holding", end.code, end.reason, end.lock_seq)
        for end in ends
        if end.panda_id in consumers
    ]
    if lost:
        lock(tx, [end.panda_id for end in ends])
    ended = end_jobs(tx, [end for end in ends if end.panda_id not in consumers], agent)
    return ended + consumer_ends.lose(tx, lost, agent)


def _settle(tx: Connection, ended: Sequence[MovedJob]) -> None:
    """Files, datasets and events of jobs that have ended; their datasets are locked."""
    if panda_ids := [job.panda_id for job in ended]:
        ids, most_free = {"ids": panda_ids}, 0
        if any(job.code in NOBODYS_FAULT for job in ended):
            most_free = knobs.load(tx)["attempts.most_free"]
        values = {**ids, "channel": channel(), "most_free": most_free}
        rest, bad = True, False
        while rest:
            *_, ranges, asked, some, rest = _SETTLE.value(tx, **values)
            bad |= bool(some)
        if bad:
            bad_inputs.skip(tx, panda_ids)
        if ranges:
            _END_EVENTS.run(tx, **ids)
        if asked:
            outbox.notify_of_jobs(tx, panda_ids)


_PREPARE = changes(f"""
UPDATE jedi_dataset_contents c SET status = 'prepared', proc_status = 'transferring',
  fsize = f.fsize, checksum = f.checksum, guid = f.guid
FROM jedi_job_files f
WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({OUTPUT_TYPES})
  AND c.fileid = f.fileid AND c.status IN ('defined', 'running', 'merging')
""")


def await_transfer(tx: Connection, moves: Sequence[JobMove], agent: str) -> list[MovedJob]:
    """holding → transferring: outputs are published at the site, not yet at their destination."""
    moved = move_jobs(tx, moves, agent, ("holding",))
    if moved:
        _PREPARE.run(tx, ids=[job.panda_id for job in moved])
    return moved


_LEAVE_OUT = changes("""
UPDATE jedi_dataset_contents c SET status = 'nooutput', proc_status = 'finished'
FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[]), CAST(:lfns AS text[])) o(id, seq, lfn)
  JOIN jedi_jobs j ON j.pandaid = o.id AND j.lock_seq = o.seq AND j.status = 'holding'
    AND coalesce(j.hold_kind, 'failed_recoverable') = 'failed_recoverable'
  JOIN jedi_job_files f ON f.pandaid = o.id AND f.lfn = o.lfn
WHERE c.fileid = f.fileid AND c.status IN ('defined', 'running', 'merging')
""")


def leave_out(tx: Connection, files: Sequence[tuple[int, int, str]]) -> None:
    """Outputs (job, its lock_seq, LFN) that jobs about to end with success did not make, and need
    not. The caller has locked the jobs."""
    if files:
        ids, seqs, lfns = map(list, zip(*files, strict=True))
        _LEAVE_OUT.run(tx, ids=ids, seqs=seqs, lfns=lfns)


def _asked(jobs: str) -> str:
    """SQL: the Adder's knowledge of certain jobs `j` whose pilots are through, in one value for
    `_known()`: the jobs; their outputs, and inputs that were not found; each dataset, site and
    task that merges once."""
    return f"""
WITH j AS (
  SELECT pandaid, lock_seq, pilot_result, kill_code, error_code, error_diag, site, hold_next,
    CASE WHEN kind IN ('normal', 'scout') THEN jeditaskid END AS task
  FROM jedi_jobs j WHERE j.pilot_result IS NOT NULL AND {jobs}
), f AS (
  SELECT f.* FROM j, LATERAL (
    SELECT pandaid, fileid, datasetid, type, lfn, endpoint, source_name, fsize, checksum, guid
    FROM jedi_job_files f WHERE f.pandaid = j.pandaid AND (f.type IN ({OUTPUT_TYPES})
      OR f.problem = 'missing' AND j.error_code = 'stagein_missing') OFFSET 0) f
)
SELECT json_build_array(
  (SELECT json_agg(json_build_array(pandaid, lock_seq, pilot_result, kill_code, error_code,
     error_diag, site, hold_next, task) ORDER BY pandaid) FROM j),
  (SELECT json_agg(json_build_array(pandaid, datasetid, type, lfn, endpoint, source_name, fsize,
     checksum, guid) ORDER BY fileid) FROM f),
  (SELECT json_agg(json_build_array(datasetid, datasetname,
     ('an' = ANY(string_to_array(attributes, ','))) IS TRUE))
   FROM jedi_datasets WHERE datasetid = ANY(ARRAY(SELECT datasetid FROM f))),
  (SELECT json_agg(json_build_array(site, {STAGING.format(site="s.site")}))
   FROM (SELECT DISTINCT site FROM j) s),
  (SELECT json_agg(jeditaskid) FROM jedi_tasks
   WHERE jeditaskid = ANY(ARRAY(SELECT task FROM j)) AND rules @> '{{"merge_output": true}}'))
"""


_UNSUCCESSFUL = "j.status IN ('failed', 'cancelled', 'closed')"
_NOBODY_ELSES = """NOT EXISTS (  -- others made the same
      SELECT FROM jedi_job_files f JOIN jedi_datasets d USING (jeditaskid, datasetid)
      JOIN jedi_dataset_contents c ON c.lfn = f.lfn AND c.type = 'output' AND c.status = 'finished'
      JOIN jedi_datasets o ON o.jeditaskid = c.jeditaskid AND o.datasetid = c.datasetid
      WHERE f.pandaid = j.pandaid AND f.type = 'output' AND o.datasetname = d.datasetname)"""
_LEFT = answers()(
    _asked(f"j.pandaid = ANY(CAST(:ids AS bigint[])) AND {_UNSUCCESSFUL} AND {_NOBODY_ELSES}")
)
_MAY_LIE = answers()(
    _asked(f"""j.pilot_result = 'finished' AND {_UNSUCCESSFUL} AND j.pandaid > :after
    AND EXISTS (SELECT FROM jedi_job_files f
      WHERE f.pandaid = j.pandaid AND f.type = 'output' AND f.fsize IS NOT NULL)
    AND {_NOBODY_ELSES}
  ORDER BY j.pandaid LIMIT :limit""")
)
_AMONG = answers()(
    _asked("""j.pandaid = ANY(CAST(:ids AS bigint[])) AND j.status = 'holding'
    AND j.postprocessed_at IS NULL""")
)
_REPORTED = answers(prepared(_WHY + "in the order of the index of reported jobs.", IN_ORDER))(
    _asked(f"""j.postprocessed_at IS NULL AND j.status = 'holding'
    AND j.pandaid >= :first AND j.kind NOT IN ({CONSUMER_KINDS})
    AND (j.hold_kind IS NULL
         OR (j.hold_kind = 'failed_recoverable' AND j.hold_deadline <= jedi_now()))
  ORDER BY j.pandaid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED""")
)
ANY_REPORTED = returns(bool)(f"""
-- True if the end of a job was reported, held or not.
SELECT EXISTS (SELECT FROM jedi_jobs WHERE pilot_result IS NOT NULL AND postprocessed_at IS NULL
  AND status = 'holding' AND kind NOT IN ({CONSUMER_KINDS}))
""")


# What a lost claim costs is worth no wait for the disk.
_CLAIMING = answers(trivial)("SELECT to_json(set_config('synchronous_commit', 'off', true))")


def reported(tx: Connection, limit: int, first: int = 0) -> list[ReportedJob]:
    """Jobs whose end was reported and not yet looked at, from number `first` on, longest known
    first. The transaction is for nothing else: its commit does not wait for the disk.

    There is no lease: two Adders may get the same job, and the first one that applies ends it.
    """
    _CLAIMING.value(tx)
    return _known(_REPORTED.value(tx, limit=limit, first=first))


def reported_among(tx: Connection, panda_ids: Sequence[int]) -> list[ReportedJob]:
    """Return those of these jobs whose end was reported and not yet looked at."""
    return _known(_AMONG.value(tx, ids=list(panda_ids)))


def left_behind(tx: Connection, panda_ids: Sequence[int]) -> list[ReportedJob]:
    """The jobs that ended without success after their pilots had ended their work, and whose
    outputs nobody else has made."""
    return _known(_LEFT.value(tx, ids=list(panda_ids)))


def may_lie(tx: Connection, after: int, limit: int) -> list[ReportedJob]:
    """Jobs beyond number `after`, in their order, that ended without success when their pilots had
    laid outputs down: these may have been published."""
    return _known(_MAY_LIE.value(tx, after=after, limit=limit))


def _known(columns: Sequence[Sequence[Any] | None]) -> list[ReportedJob]:
    """The jobs behind `_asked()`; event ranges of one input are one file here."""
    jobs, found, datasets, sites, merging = (part or () for part in columns)
    names = {dataset: (name, optional) for dataset, name, optional in datasets}
    made: dict[int, list[JobFile]] = defaultdict(list)
    missing: dict[int, dict[JobFile, None]] = defaultdict(dict)
    for panda_id, dataset, kind, lfn, *rest in found:
        name, optional = names.get(dataset, ("", False))
        file = JobFile._make((kind, lfn, name, *rest, optional and kind == "output"))
        if kind in states.OUTPUT_TYPES:
            made[panda_id].append(file)
        else:
            missing[panda_id][file] = None
    endpoints, merges = dict(sites), {*merging}

    def known(*job: Any) -> ReportedJob:
        panda_id, *end, site, hold_next, task = job
        files = made[panda_id]
        return ReportedJob._make(
            (
                panda_id,
                *end,
                staging(endpoints[site], files),
                hold_next,
                task in merges,
                (*files,),
                (*missing[panda_id],) if panda_id in missing else (),
            )
        )

    return [*starmap(known, jobs)]


_ACQUIT = changes("""
UPDATE jedi_job_files f SET problem = NULL
FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[])) a(id, lfn)
WHERE f.pandaid = a.id AND f.lfn = a.lfn AND f.problem = 'missing'
""")


def acquit(tx: Connection, files: Sequence[tuple[int, str]]) -> None:
    """Inputs (job, LFN) that a pilot did not find are where they should be after all."""
    if files:
        ids, lfns = map(list, zip(*files, strict=True))
        _ACQUIT.run(tx, ids=ids, lfns=lfns)


_HOLD = changes("""
UPDATE jedi_jobs SET hold_kind = 'failed_recoverable', hold_reason = :reason,
  hold_since = coalesce(hold_since, jedi_now()),
  hold_deadline = jedi_now() + make_interval(secs => :wait_s)
WHERE pandaid = :id AND lock_seq = :seq AND status = 'holding'
  AND coalesce(hold_kind, 'failed_recoverable') = 'failed_recoverable'  -- no person holds it
""")


def hold(tx: Connection, panda_id: int, lock_seq: int, reason: str, wait_s: float) -> None:
    """Let the results of a job wait, with the reason; the next status change ends the hold."""
    _HOLD.run(tx, id=panda_id, seq=lock_seq, reason=reason, wait_s=wait_s)
    outbox.notify_of_jobs(tx, [panda_id])


STATUSES = returns(tuple[int, str])("""
-- The present status of jobs.
SELECT pandaid, status FROM jedi_jobs WHERE pandaid = ANY(CAST(:ids AS bigint[]))
""")
