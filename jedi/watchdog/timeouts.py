"""Stalled jobs are closed, lost ones fail; see taskbuffer/jobs/timeouts.py."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.core.knobs.knob import words
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import timeouts
from jedi.taskbuffer.jobs.timeouts import OverdueJob, Timeout
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Inputs of closed and failed jobs are tried again. A lost consumer of events is `holding`: the
    EventService looks at its ranges."""
    given = _given(world.knobs)

    def step(tx: Connection, limit: int) -> Counts:
        found = timeouts.overdue(tx, world.knobs, given, limit)
        all_ends = {job.panda_id: _end(rule, job) for rule, job in found}
        lost = {job.panda_id for rule, job in found if _is_loss(rule, job)}
        ended = job_ends.end_lost(tx, [*all_ends.values()], lost, "WatchDog")
        return Counts(all_ends[job.panda_id].code for job in ended)

    return in_batches(world, step)


def _given(knobs: Knobs) -> dict[str, Any]:
    return {
        "urgent_from": knobs.timeout.urgent_from,
        "idle_s": knobs.timeout.idle_s,
        "t2_ratio": knobs.timeout.t2_ratio,
        "t1_spared": words(knobs.timeout.t1_spared),
        "production": list(PRODUCTION_LABELS),
    }


def _is_loss(rule: Timeout, job: OverdueJob) -> bool:
    """A pilot has, or had, a consumer of events, and it counts as failed."""
    at_site = set(rule.statuses) <= set(states.JOB_AT_SITE)
    return at_site and rule.target == "failed" and job.kind in states.CONSUMER_KINDS


def _end(rule: Timeout, job: OverdueJob) -> JobEnd:
    reason = f"{rule.sentence.format_map(job._asdict())} for {timeouts.in_words(job.age_s)}."
    source = "pilot" if "{pilot_id}" in rule.sentence else "jedi"
    return JobEnd(job.panda_id, rule.target, rule.code, reason, job.lock_seq, source)


DOG = Dog("timeouts", "watchdog.timeouts_period_s", "stalled jobs time out", run)
