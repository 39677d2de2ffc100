"""Ends of consumers: the job sets that are due, their facts, and ranges that are given back.

Locks are taken in one order: jobs by pandaid, job sets, datasets, then the ranges of those jobs;
each kind at once, for whoever ends jobs locks their datasets at once. Handing out
and reporting lock the job of a consumer before its ranges, too; so none gets a range of an ended
one. Source: docs/reference/event-service.md#the-end-of-a-consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events import placeholders
from jedi.taskbuffer.jobs.jobs import LOCK_JOBS, JobMove, MovedJob, move_jobs

_CODE = states.EVENT_CODES
_READY, _SENT, _RUNNING, _FINISHED = (
    _CODE[name] for name in ("ready", "sent", "running", "finished")
)
_DONE, _FAILED, _CORRUPTED, _MERGED = (
    _CODE[name] for name in ("done", "failed", "corrupted", "merged")
)

# ------------------------------------------------------------------------------- what is due

FREE = """
(j.hold_kind IS NULL OR j.hold_kind = 'failed_recoverable' AND j.hold_deadline <= jedi_now())
"""
REPORTED = f"""
j.pilot_result IS NOT NULL AND j.postprocessed_at IS NULL AND j.status = 'holding' AND {FREE}
"""
"""SQL: the pilot of a consumer `j` is through, and nobody holds its end."""
_JUMBOS = """
FROM jedi_consumers c
WHERE c.jeditaskid = s.jeditaskid AND c.jobsetid IS NULL AND c.settled_at IS NULL
"""
IN_WORK = f"""EXISTS (SELECT FROM jedi_events e WHERE e.jobsetid = s.jobsetid
  AND (e.status IN ({_READY}, {_SENT}, {_RUNNING})
    OR e.status = {_FAILED} AND e.pandaid IN (SELECT c.pandaid {_JUMBOS})))"""
"""SQL: a job set `s` has ranges that consumers, or jumbo jobs of its task, may process, or do."""
# jedi_jobs.to_book and next_look_at have the due ones alone: neither the living jobs nor the
# waiting sets are read. Looked up one by one, so that no plan for all comes of it.
DUE = returns(int)(f"""
-- Job sets with a consumer that ended, a copy that started, a merge job that ended, or whose time
-- has come, but for those of `not_yet`: the state of the rows decides, not a message that may be
-- lost.
SELECT DISTINCT jobsetid FROM (
  SELECT s.jobsetid FROM jedi_jobs j, LATERAL (
    SELECT jobsetid FROM jedi_consumers c WHERE c.pandaid = j.pandaid
    UNION ALL SELECT jobsetid FROM jedi_jobsets m WHERE m.merge_pandaid = j.pandaid OFFSET 0) s
  WHERE j.to_book AND (j.status <> 'holding' OR {REPORTED})
  UNION ALL
  SELECT jobsetid FROM jedi_jobsets WHERE next_look_at <= jedi_now()
) d WHERE jobsetid IS NOT NULL AND jobsetid <> ALL(CAST(:not_yet AS bigint[]))
ORDER BY jobsetid LIMIT :limit
""")
ANY_OPEN = returns(bool)("""
-- True if a job set, or a consumer of one, has not ended.
SELECT EXISTS (SELECT FROM jedi_jobsets WHERE ended_at IS NULL)
  OR EXISTS (SELECT FROM jedi_consumers WHERE settled_at IS NULL)
""")


_ENDED = returns(tuple[int, int])(f"""
SELECT j.pandaid, c.jobsetid
FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid = ANY(CAST(:ids AS bigint[])) AND c.settled_at IS NULL AND {REPORTED}
ORDER BY j.pandaid
""")


def reported(tx: Connection, jobset_ids: Sequence[int]) -> dict[int, int]:
    """The consumers of job sets whose pilots are through, and whom nobody holds, each with its job
    set."""
    return dict(_ENDED.rows(tx, ids=list(jobset_ids)))


# ------------------------------------------------------------------------------- locks, facts

_JOBS_OF = returns(int)("""
SELECT merge_pandaid FROM jedi_jobsets WHERE jobsetid = ANY(CAST(:ids AS bigint[]))
UNION SELECT pandaid FROM jedi_consumers c LEFT JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid = ANY(CAST(:ids AS bigint[]))
  AND (c.settled_at IS NULL OR j.postprocessed_at IS NULL)
""")
_LOCK_DATASETS = changes("""
SELECT FROM jedi_datasets WHERE datasetid IN (
  SELECT datasetid FROM jedi_job_files WHERE pandaid = ANY(CAST(:locked AS bigint[])))
ORDER BY datasetid FOR NO KEY UPDATE
""")


class LockedSet(NamedTuple):
    """A job set under lock, with its present merge job and its task's rules. partial: the task does
    without ranges that have no attempt left. spares_attempts: a range that came back without a
    result keeps its attempts. keeps_events: ranges of killed consumers count."""

    jobset_id: int
    jedi_task_id: int
    merge_panda_id: int
    merge_status: str
    merge_code: str
    merge_diag: str
    mode: str
    clone: str | None
    attempts_left: int
    ended: bool
    partial: bool
    spares_attempts: bool
    keeps_events: bool


_LOCK = returns(LockedSet)("""
SELECT s.jobsetid, s.jeditaskid, s.merge_pandaid,
  coalesce(m.status, 'closed') AS merge_status, coalesce(m.error_code, '') AS merge_code,
  coalesce(m.error_diag, '') AS merge_diag, s.mode, s.clone,
  s.attempts_left, s.ended_at IS NOT NULL AS ended,
  t.rules @> '{"allow_partial_finish": true}' AS partial,
  t.rules @> '{"dec_att_on_failed_es": true}' AS spares_attempts,
  s.clone IS NULL AND t.rules @> '{"not_discard_events": true}' AS keeps_events
FROM jedi_jobsets s JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid
WHERE s.jobsetid = ANY(CAST(:ids AS bigint[])) AND s.merge_pandaid = ANY(CAST(:locked AS bigint[]))
ORDER BY s.jobsetid FOR NO KEY UPDATE OF s
""")


def jobs_of(tx: Connection, jobset_ids: Sequence[int]) -> list[int]:
    """The living jobs of job sets, and their merge jobs."""
    return sorted(_JOBS_OF.rows(tx, ids=list(jobset_ids)))


def lock_sets(tx: Connection, jobset_ids: Sequence[int]) -> list[LockedSet]:
    """Lock job sets with all their living jobs, and the datasets of these, all at once. A set
    whose merge job was replaced meanwhile is left out: it is due again."""
    ids = {"ids": list(jobset_ids)}
    jobs = jobs_of(tx, jobset_ids)
    LOCK_JOBS.run(tx, ids=jobs)
    sets = _LOCK.rows(tx, **ids, locked=jobs)
    _LOCK_DATASETS.run(tx, locked=jobs)
    return sets


class SetConsumer(NamedTuple):
    """A consumer of a job set that has not ended, or whose end is not booked. `lock_seq` 0: no
    pilot had it. `held`: its end waits, as a person or a lack of storage wants. `judged`: its
    failed ranges were settled before; it was killed in merging. `free_in_row`: consumers before it
    in a row whose ends were nobody's fault."""

    panda_id: int
    jobset_id: int
    settled: bool
    status: str
    pilot_result: str | None
    kill_code: str | None
    error_code: str | None
    error_diag: str | None
    lock_seq: int
    site: str | None
    start_time: datetime | None
    held: bool
    judged: bool
    free_in_row: int


CONSUMERS_OF = returns(SetConsumer)(f"""
-- The consumers of job sets that still matter, in their order.
SELECT c.pandaid, c.jobsetid, c.settled_at IS NOT NULL AS settled,
  coalesce(j.status, 'closed') AS status, j.pilot_result, j.kill_code, j.error_code, j.error_diag,
  coalesce(j.lock_seq, 0) AS lock_seq, j.site, j.starttime,
  ({FREE}) IS NOT TRUE AS held, j.substatus IS NOT NULL AS judged,
  c.freeinrow
FROM jedi_consumers c LEFT JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid = ANY(CAST(:ids AS bigint[]))
  AND (c.settled_at IS NULL OR j.postprocessed_at IS NULL)
ORDER BY c.pandaid
""")


class ConsumerRanges(NamedTuple):
    """Ranges that a consumer got, and those of them that it processed."""

    panda_id: int
    got: int
    made: int


_HELD = returns(ConsumerRanges)(f"""
SELECT e.pandaid, count(*) AS got,
  count(*) FILTER (WHERE e.status IN ({_FINISHED}, {_DONE}, {_MERGED})) AS made
FROM jedi_events e WHERE e.jeditaskid = ANY(CAST(:tasks AS bigint[]))
  AND e.pandaid = ANY(CAST(:ids AS bigint[])) AND e.jobsetid IS NOT NULL
GROUP BY e.pandaid
""")


def ranges_held(
    tx: Connection, task_ids: Iterable[int], panda_ids: Sequence[int]
) -> dict[int, ConsumerRanges]:
    """The ranges of consumers; a consumer without any has no entry."""
    values = {"tasks": sorted({*task_ids}), "ids": list(panda_ids)}
    return {row.panda_id: row for row in _HELD.rows(tx, **values)}


_ALIVE = "pandaid = ANY(CAST(:alive AS bigint[]))"


class SetRanges(NamedTuple):
    """Ranges of a job set: those that may be tried, those that failed for good, and the consumers
    that tried these last; those that wait to be merged; busy: consumers that hold some, or failed
    ones that are tried again later."""

    jobset_id: int
    left: int
    used_up: int
    last_tried_by: list[int] | None
    done: int
    busy: int


# Owner by owner: a count of distinct owners would sort all ranges.
_COUNTS = returns(SetRanges)(f"""
SELECT jobsetid, CAST(sum(n_left) AS bigint) AS left,
  coalesce(CAST(sum(spent) FILTER (WHERE NOT {_ALIVE}) AS bigint), 0) AS used_up,
  array_agg(pandaid) FILTER (WHERE spent > 0 AND NOT {_ALIVE}) AS last_tried_by,
  CAST(sum(n_done) AS bigint) AS done,
  count(*) FILTER (WHERE held > 0 OR n_failed > 0 AND {_ALIVE}) AS busy
FROM (
  SELECT jobsetid, pandaid,
    count(*) FILTER (WHERE status = {_READY} AND attemptnr > 0) AS n_left,
    count(*) FILTER (WHERE status IN ({_FAILED}, {_CORRUPTED}) AND attemptnr <= 1) AS spent,
    count(*) FILTER (WHERE status = {_DONE}) AS n_done,
    count(*) FILTER (WHERE status IN ({_SENT}, {_RUNNING}, {_FINISHED})) AS held,
    count(*) FILTER (WHERE status = {_FAILED}) AS n_failed
  FROM jedi_events WHERE jobsetid = ANY(CAST(:ids AS bigint[])) GROUP BY jobsetid, pandaid) owner
GROUP BY jobsetid
""")


def ranges_of_sets(
    tx: Connection, jobset_ids: Sequence[int], alive: Sequence[int]
) -> dict[int, SetRanges]:
    """The ranges of job sets, counted; `alive`: consumers whose ranges have not come back."""
    rows = _COUNTS.rows(tx, ids=list(jobset_ids), alive=list(alive))
    return {row.jobset_id: row for row in rows}


# ------------------------------------------------------------------------------- ranges move

_OF = "unnest(CAST(:tasks AS bigint[]), CAST(:ids AS bigint[]), CAST(:flags AS bool[]))"
_COPIED = (
    "jeditaskid, datasetid, fileid, pandaid, job_processid, def_min_eventid, def_max_eventid, "
    "event_offset, jobsetid, status, attemptnr"
)
_COPY = (
    "e.jeditaskid, e.datasetid, e.fileid, e.jobsetid, e.job_processid, e.def_min_eventid, "
    f"e.def_max_eventid, e.event_offset, e.jobsetid, {_READY}"
)
_BACK = f"e.status <> {_FINISHED} AND e.attemptnr > c.cost"
_GIVE_BACK = changes(f"""
UPDATE jedi_events e SET
  status = CASE WHEN e.status = {_FINISHED} THEN {_DONE} WHEN {_BACK} THEN {_READY}
                ELSE {_FAILED} END,
  pandaid = CASE WHEN {_BACK} THEN e.jobsetid ELSE e.pandaid END,
  attemptnr = CASE WHEN {_BACK} THEN e.attemptnr - c.cost ELSE e.attemptnr END,
  is_jumbo = CASE WHEN {_BACK} THEN NULL ELSE e.is_jumbo END
FROM (SELECT task, id, CASE WHEN spares THEN 0 ELSE 1 END AS cost FROM {_OF} o(task, id, spares)) c
WHERE e.jeditaskid = c.task AND e.pandaid = c.id
  AND (e.status IN ({_SENT}, {_RUNNING}) OR e.status = {_FINISHED} AND e.is_jumbo IS NULL)
  AND e.jobsetid IS NOT NULL
""")
_GIVE_UP = changes(f"""
UPDATE jedi_events e SET status = {_CODE["fatal"]}
FROM {_OF} c(task, id, partial)
WHERE c.partial AND e.jeditaskid = c.task AND e.pandaid = c.id
  AND e.status = {_FAILED} AND e.attemptnr <= 1 AND e.jobsetid IS NOT NULL
""")
_TRY_AGAIN = changes(f"""
INSERT INTO jedi_events ({_COPIED})
SELECT {_COPY}, e.attemptnr - 1
FROM {_OF} c(task, id, tried), LATERAL (
    SELECT * FROM jedi_events WHERE jeditaskid = c.task AND pandaid = c.id OFFSET 0) e
  JOIN jedi_jobsets s USING (jobsetid)
WHERE e.status = {_FAILED} AND e.attemptnr > 1 AND s.ended_at IS NULL
""")
_DISCARD = changes(f"""
WITH o AS (
  SELECT e.ctid AS tid, c.again FROM {_OF} c(task, id, again)
    JOIN jedi_events e ON e.jeditaskid = c.task AND e.pandaid = c.id
  WHERE e.status IN ({_SENT}, {_RUNNING}, {_FINISHED}, {_DONE}) AND e.jobsetid IS NOT NULL
  FOR UPDATE OF e
), e AS (
  UPDATE jedi_events e SET status = CASE WHEN e.status IN ({_FINISHED}, {_DONE})
    THEN {_CODE["discarded"]} ELSE {_CODE["cancelled"]} END
  FROM o WHERE e.ctid = o.tid RETURNING e.*, o.again
)
INSERT INTO jedi_events ({_COPIED}) SELECT {_COPY}, e.attemptnr FROM e WHERE e.again
""")


class RangeOwner(NamedTuple):
    """A consumer whose ranges move, and a flag that says how."""

    jedi_task_id: int
    panda_id: int
    flag: bool


def give_back(tx: Connection, owners: Sequence[RangeOwner]) -> None:
    """Settle the ranges of consumers that have ended. Finished ones are done, but for those of
    jumbo jobs, which are done when their job set's next consumer ends. Those without a result go
    back to their job set with one attempt less (flag: with all), or fail with the last
    one."""
    if owners:
        _GIVE_BACK.run(tx, **_arrays(owners))


def retry_failed(tx: Connection, owners: Sequence[RangeOwner]) -> None:
    """Settle the ranges that failed with consumers that have ended: each gets a new row, ready,
    with one attempt less. One without attempts is fatal if the task does without it (flag)."""
    if owners:
        _TRY_AGAIN.run(tx, **_arrays(owners))
        _GIVE_UP.run(tx, **_arrays(owners))


def discard(tx: Connection, owners: Sequence[RangeOwner]) -> None:
    """Settle the ranges of killed consumers: those that they processed are discarded, others
    cancelled. Flag: each gets a new row, ready for others, with as many attempts."""
    if owners:
        _DISCARD.run(tx, **_arrays(owners))


def _arrays(owners: Sequence[RangeOwner]) -> dict[str, list[int] | list[bool]]:
    tasks, ids, flags = map(list, zip(*owners, strict=True))
    return {"tasks": tasks, "ids": ids, "flags": flags}


# ------------------------------------------------------------------------------- jobs move

_SUBSTATES = changes("""
UPDATE jedi_jobs j SET substatus = s.word
FROM unnest(CAST(:ids AS bigint[]), CAST(:words AS text[])) s(id, word)
WHERE j.pandaid = s.id
""")
# A copy that counts has the part of the merge job: its own end is still to come.
_SETTLED = changes("""
WITH c AS (
  UPDATE jedi_consumers SET settled_at = jedi_now()
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND settled_at IS NULL RETURNING pandaid
)
UPDATE jedi_jobs j SET booked = 'ended' FROM c
WHERE j.pandaid = c.pandaid AND NOT EXISTS (SELECT FROM jedi_jobsets s
  WHERE s.merge_pandaid = c.pandaid AND s.ended_at IS NULL)
""")
NOTE_ENDED = changes("""
-- The effects of the ends of these merge jobs are booked.
UPDATE jedi_jobs SET booked = 'ended' WHERE pandaid = ANY(CAST(:ids AS bigint[]))
""")
NOTE_STARTED = changes("""
-- Their job sets know that these copies have started.
UPDATE jedi_jobs SET booked = 'started'
WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND booked IS NULL
""")
_REOPEN = changes("""
WITH c AS (
  UPDATE jedi_consumers c SET settled_at = NULL
  FROM jedi_jobsets s JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid
  WHERE c.pandaid = ANY(CAST(:ids AS bigint[])) AND s.jobsetid = c.jobsetid AND m.status = 'waiting'
  RETURNING c.pandaid
)
UPDATE jedi_jobs j SET booked = NULL FROM c WHERE j.pandaid = c.pandaid
""")
_LOSE = changes(f"""
UPDATE jedi_jobs j SET pilot_result = 'lost', error_code = l.code, error_diag = l.reason
FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[]), CAST(:codes AS text[]),
  CAST(:reasons AS text[])) l(id, seq, code, reason)
WHERE j.pandaid = l.id AND j.lock_seq = l.seq AND j.status IN ({JOB_AT_SITE})
""")


def note_substates(tx: Connection, words: Mapping[int, str | None]) -> None:
    """Set the sub-statuses of jobs, which the caller has locked."""
    if words:
        _SUBSTATES.run(tx, ids=list(words), words=list(words.values()))


def note_settled(tx: Connection, panda_ids: Iterable[int]) -> None:
    """The effects of these consumers' ends on ranges are booked."""
    ids = list(panda_ids)
    _SETTLED.run(tx, ids=ids)
    placeholders.over(tx, ids)


def reopen(tx: Connection, ended: Sequence[MovedJob]) -> None:
    """Consumers that were killed while their pieces waited to be merged: the EventService is to
    discard what they processed."""
    ids = [job.panda_id for job in ended if (job.source, job.target) == ("merging", "cancelled")]
    if ids:
        _REOPEN.run(tx, ids=ids)


def lose(tx: Connection, moves: Sequence[JobMove], agent: str) -> list[MovedJob]:
    """Consumers whose pilots fell silent: their end is `holding`, result lost. The EventService
    looks at what they have processed."""
    if not moves:
        return []
    LOCK_JOBS.run(tx, ids=[move.panda_id for move in moves])
    _LOSE.run(
        tx,
        ids=[m.panda_id for m in moves],
        seqs=[m.lock_seq for m in moves],
        codes=[m.code for m in moves],
        reasons=[m.reason for m in moves],
    )
    moved = move_jobs(tx, moves, agent, states.JOB_AT_SITE)
    wake(tx, "job:holding")
    return moved
