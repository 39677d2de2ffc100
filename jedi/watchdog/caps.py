"""Caps on running jobs: pilots get no jobs of a user above the cap until fewer of them run."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.taskbuffer.jobs import capping
from jedi.taskbuffer.jobs.capping import CappedJob
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Source: JEDI document, "Throttled jobs and tasks";
    docs/reference/throttler-and-shares.md#user-caps."""
    caps = int(world.knobs.caps.user_jobs), int(world.knobs.caps.group_jobs)
    size, counts = int(world.knobs.watchdog.batch), Counts()
    with world.engine.begin() as tx:
        found = capping.capped(tx, PRODUCTION_LABELS, *caps)
    for at in range(0, len(found), size):
        with world.engine.begin() as tx:
            moves = [_move(job) for job in capping.lock(tx, found[at : at + size])]
            moved = move_jobs(tx, moves, "WatchDog", ["activated", "throttled"])
            freed = {job.jedi_task_id for job in moved if job.target == "activated"}
            capping.keep_back(tx, world.knobs, [*freed], "WatchDog")  # others came meanwhile
        counts.update(job.target for job in moved)
    return counts


def _move(job: CappedJob) -> JobMove:
    if job.status == "activated":
        reason = f"{job.owner} has {job.running} running jobs, and may have {job.cap}."
        return JobMove(job.panda_id, "throttled", "user_cap", reason, job.lock_seq)
    reason = f"{job.owner} has {job.running} running jobs."
    return JobMove(job.panda_id, "activated", "user_cap_over", reason, job.lock_seq)


DOG = Dog("caps", "watchdog.caps_period_s", "users above their cap get no more jobs", run)
ROOM = Dog(
    "cap_room",
    "watchdog.cap_room_period_s",
    "jobs that a cap keeps from pilots get the room of ended ones",
    run,
    capping.ANY_KEPT.value,
)
