"""Merge jobs that no pilot takes are closed: the files are free for another one."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.jobs import job_ends, merging
from jedi.taskbuffer.jobs.job_ends import JobEnd
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """After as many tries as a merge has, the jobs that wait for it are closed and their inputs go
    elsewhere. Source: docs/reference/merging.md#attempts-of-a-merge."""
    timeout_s = float(world.knobs.watchdog.merging_timeout_s)
    reason = f"No pilot took the merge job for {timeout_s:.0f} s."

    def step(tx: Connection, limit: int) -> Counts:
        stuck = merging.stuck(tx, timeout_s, limit)
        ends = [
            JobEnd(job.panda_id, "closed", "merge_stuck", reason, job.lock_seq, "jedi")
            for job in stuck
        ]
        return Counts(closed=len(job_ends.end_jobs(tx, ends, "WatchDog")))

    return in_batches(world, step)


DOG = Dog("merging", "watchdog.merging_period_s", "merge jobs that no pilot takes are closed", run)
