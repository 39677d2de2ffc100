"""Jobs of whoever has too many running ones are kept from pilots, so that slots are left to others;
when fewer run they go on."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from jedi.agent.base import World
from jedi.contentsfeeder.feed import PRODUCTION_LABELS
from jedi.taskbuffer import capping
from jedi.taskbuffer.jobs import JobMove, move_jobs
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Source: seed, "Throttled jobs and tasks"; who counts: brokerage.md §4.1."""
    caps = int(world.knobs["caps.user_jobs"]), int(world.knobs["caps.group_jobs"])

    def step(tx: Connection, limit: int) -> Counts:
        moves = [_move(job) for job in capping.capped(tx, PRODUCTION_LABELS, *caps, limit)]
        moved = move_jobs(tx, moves, "WatchDog", ["activated", "throttled"])
        return Counts(job.target for job in moved)

    return in_batches(world, step)


def _move(job: Row[Any]) -> JobMove:
    if job.status == "activated":
        reason = f"{job.owner} has {job.running} running jobs, and may have {job.cap}."
        return JobMove(job.pandaid, "throttled", "user_cap", reason, job.lock_seq)
    reason = f"{job.owner} has {job.running} running jobs."
    return JobMove(job.pandaid, "activated", "user_cap_over", reason, job.lock_seq)


DOG = Dog("caps", "watchdog.caps_period_s", "who has enough running jobs gets no more", run)
