"""Jobs whose pilot fell silent fail: an attempt of their inputs, and a failure."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from jedi.agent.base import World
from jedi.taskbuffer import dogs, jobs_end
from jedi.taskbuffer.jobs_end import JobEnd
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source of the limits: contracts §13."""
    heartbeat_s = float(world.knobs["watchdog.heartbeat_timeout_s"])
    sent_s = float(world.knobs["watchdog.sent_timeout_s"])

    def step(tx: Connection, limit: int) -> Counts:
        silent = dogs.silent_jobs(tx, heartbeat_s, sent_s, limit)
        ends = {job.pandaid: _end(job) for job in silent}
        ended = jobs_end.end_jobs(tx, [*ends.values()], "WatchDog")
        return Counts(ends[job.panda_id].code for job in ended)

    return in_batches(world, step)


def _end(job: Row[Any]) -> JobEnd:
    if job.status == "sent":
        code, event = "sent_timeout", "did not start the job that it was given"
    else:
        code, event = "lost_heartbeat", f"was not heard of for {job.silent_s:.0f} s"
    reason = f"Pilot {job.pilot_id} {event}."
    return JobEnd(job.pandaid, "failed", code, reason, job.lock_seq, "pilot")


DOG = Dog("heartbeat", "watchdog.heartbeat_period_s", "jobs whose pilot fell silent fail", run)
