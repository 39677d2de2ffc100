"""Copies of a job: the first to start, or the first to store, counts; the others are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from jedi.jobdispatcher.outcome import stored
from jedi.model.jobs.attempt import ReportedJob
from jedi.taskbuffer.ends import clones, job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import consumer_ends
from jedi.taskbuffer.events.consumer_ends import LockedSet, SetConsumer
from jedi.taskbuffer.jobs.jobs import JobMove

_STARTED = ("starting", "running")


def settle_copies(
    tx: Connection,
    agent: str,
    sets: Sequence[LockedSet],
    consumers: Sequence[SetConsumer],
    stored_jobs: Mapping[int, ReportedJob],
) -> dict[int, int]:
    """Find the copies that count of job sets, which are locked; those of runonce count from their
    start on. `stored_jobs`: copies whose outputs are stored; the first of each set ends now, and
    does for the job that waits. Return the copies that count, by job set."""
    waiting = {of.jobset_id: of for of in sets if of.clone and of.merge_status == "waiting"}
    found = dict(clones.OWNERS.rows(tx, ids=list(waiting)))
    counting = {one: owner for one, owner in found.items() if owner}
    winners: dict[int, ReportedJob] = {}
    begun: dict[int, int] = {}
    for one in sorted(consumers, key=_start):
        of, job = waiting.get(one.jobset_id), stored_jobs.get(one.panda_id)
        if of is None or one.settled or one.kill_code:
            continue
        first = counting.get(one.jobset_id, one.panda_id) == one.panda_id
        if job and first and one.status == "holding" and job.lock_seq == one.lock_seq:
            winners.setdefault(one.jobset_id, job)
        elif of.clone == "runonce" and one.status in _STARTED:
            begun.setdefault(one.jobset_id, one.panda_id)
    started = [one.panda_id for one in consumers if one.status in _STARTED and not one.settled]
    consumer_ends.NOTE_STARTED.run(tx, ids=list(started))
    begun = {one: begun[one] for one in begun if one not in counting and one not in winners}
    ended = {one: job.panda_id for one, job in winners.items()}
    clones.let_count(tx, {**begun, **ended})
    _end(tx, agent, [waiting[one] for one in winners], winners)
    return {**counting, **begun, **ended}


def _start(one: SetConsumer) -> tuple[bool, datetime | None, int]:
    return one.start_time is None, one.start_time, one.panda_id


def _end(
    tx: Connection, agent: str, sets: Sequence[LockedSet], winners: Mapping[int, ReportedJob]
) -> None:
    """End the copies that count, and the jobs that waited."""
    clones.take_over(tx, {one: job.panda_id for one, job in winners.items()})
    verdicts = [(job, stored(job)) for job in winners.values()]
    job_ends.leave_out(
        tx, [(job.panda_id, job.lock_seq, lfn) for job, _ in verdicts for lfn in job.left_out]
    )
    moves = [
        JobMove(job.panda_id, v.target, v.code, v.reason, job.lock_seq)
        for job, v in verdicts
        if v.target == "transferring"
    ]
    ends = [
        JobEnd(job.panda_id, v.target, v.code, v.reason, job.lock_seq)
        for job, v in verdicts
        if v.target == "finished"
    ]
    consumer_ends.note_settled(tx, [job.panda_id for job in winners.values()])
    job_ends.await_transfer(tx, moves, agent)
    job_ends.end_jobs(tx, ends, agent, ["holding"])
    waited = [
        JobEnd(
            of.merge_panda_id,
            "closed",
            "jc_unlock",
            f"Its copy, job {winners[of.jobset_id].panda_id}, makes the outputs.",
            None,
            "jedi",
        )
        for of in sets
    ]
    job_ends.end_jobs(tx, waited, agent, ["waiting"])
    consumer_ends.note_substates(tx, {end.panda_id: "jc_unlock" for end in waited})
    consumer_ends.NOTE_ENDED.run(tx, ids=[end.panda_id for end in waited])
