"""Merge jobs that no pilot takes are closed: other sites get others for the files."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.jobs import job_ends, merging
from jedi.taskbuffer.jobs.job_ends import JobEnd
from jedi.taskbuffer.jobs.merging import StuckMerge
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Sites give merge jobs back that no pilot takes in time, or at once if they get no pilots.
    Source: docs/reference/merging.md#sites-of-merge-jobs."""
    timeout_s = float(world.knobs.watchdog.merging_timeout_s)

    def step(tx: Connection, limit: int) -> Counts:
        ends = [_end(job, timeout_s) for job in merging.stuck(tx, timeout_s, limit)]
        return Counts(closed=len(job_ends.end_jobs(tx, ends, "WatchDog")))

    return in_batches(world, step)


def _end(job: StuckMerge, timeout_s: float) -> JobEnd:
    code, reason = (
        "merge_stuck",
        f"No pilot took the merge job at {job.site} for {timeout_s:.0f} s.",
    )
    if job.closed:
        code, reason = (
            "given_back",
            f"{job.site} is {job.closed}: it gave its merge job back.",
        )
    return JobEnd(job.panda_id, "closed", code, reason, job.lock_seq, "jedi")


DOG = Dog(
    "merging", "watchdog.merging_period_s", "merge jobs that no pilot takes go elsewhere", run
)
