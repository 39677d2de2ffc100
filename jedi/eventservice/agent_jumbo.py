"""Ends of jumbo jobs, in one transaction: their ranges come back, those with a result stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.faults import NOBODYS_FAULT
from jedi.eventservice.jumbo_jobs import judge_jumbo
from jedi.eventservice.outcome import ConsumerFacts
from jedi.model.jobs.attempt import ReportedJob
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import consumer_ends, jumbo_jobs
from jedi.taskbuffer.events.consumer_ends import ConsumerRanges, RangeOwner
from jedi.taskbuffer.events.jumbo_jobs import EndedJumbo


def settle_jumbos(
    tx: Connection,
    agent: str,
    panda_ids: Sequence[int],
    looked_at: Mapping[int, ReportedJob],
    unstored: Collection[int],
) -> None:
    """End jumbo jobs. `looked_at` are those whose pilots are through; those of them in `unstored`
    have no stored log."""
    if not panda_ids:
        return
    job_ends.lock(tx, panda_ids)
    ended = [one for one in jumbo_jobs.lock_ended(tx, panda_ids) if _has_ended(one, looked_at)]
    ids = [one.panda_id for one in ended]
    held = consumer_ends.ranges_held(tx, (one.jedi_task_id for one in ended), ids)
    consumer_ends.give_back(
        tx,
        [
            RangeOwner(
                one.jedi_task_id,
                one.panda_id,
                one.spares_attempts
                or (
                    one.panda_id in held
                    and held[one.panda_id].made > 0
                    and one.error_code in NOBODYS_FAULT
                ),
            )
            for one in ended
        ],
    )
    consumer_ends.retry_failed(
        tx, [RangeOwner(one.jedi_task_id, one.panda_id, one.partial) for one in ended]
    )
    verdicts = [(one, judge_jumbo(_facts(one, held.get(one.panda_id)))) for one in ended]
    logs = (
        (one.panda_id, one.lock_seq, f.lfn)
        for one in ended
        if one.panda_id in unstored
        for f in looked_at[one.panda_id].files
        if f.type == "log"
    )
    job_ends.leave_out(tx, [*logs])
    ends = [
        JobEnd(
            one.panda_id,
            v.target,
            v.code,
            v.reason,
            one.lock_seq,
            "user" if v.target == "cancelled" else "jedi",
        )
        for one, v in verdicts
        if v.target
    ]
    job_ends.end_jobs(tx, ends, agent, ["holding"])
    words = {one.panda_id: v.substatus for one, v in verdicts if v.substatus}
    consumer_ends.note_substates(tx, words)
    consumer_ends.note_settled(tx, ids)


def _has_ended(one: EndedJumbo, looked_at: Mapping[int, ReportedJob]) -> bool:
    if one.status in states.JOB.final:
        return True
    job = None if one.held else looked_at.get(one.panda_id)
    return one.status == "holding" and job is not None and job.lock_seq == one.lock_seq


def _facts(one: EndedJumbo, ranges: ConsumerRanges | None) -> ConsumerFacts:
    return ConsumerFacts(
        status=one.status,
        result=one.pilot_result,
        kill_code=one.kill_code,
        error_code=one.error_code,
        error_diag=one.error_diag,
        dispatched=one.lock_seq > 0,
        got=ranges.got if ranges else 0,
        made=ranges.made if ranges else 0,
    )
