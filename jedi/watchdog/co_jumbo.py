"""Consumers of tasks with jumbo jobs that no pilot has are closed when all events of their job sets
are processed: the merge follows."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.core import states
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import jumbo_jobs
from jedi.watchdog.dog import Counts, Dog

_REASON = "All events of its job set are processed."


def run(world: World) -> Counts:
    """Source: JEDI document, "Jumbo jobs and co-jumbo jobs": a cron hourly checks co-jumbo jobs in
    waiting/assigned/activated state; docs/reference/event-service.md#jumbo-jobs."""
    with world.engine.begin() as tx:
        ends = [
            JobEnd(one, "closed", "es_unused", _REASON, None, "jedi")
            for one in jumbo_jobs.NEEDLESS.rows(tx)
        ]
        return Counts(closed=len(job_ends.end_jobs(tx, ends, "WatchDog", states.JOB_QUEUED)))


DOG = Dog(
    "co_jumbo",
    "watchdog.co_jumbo_period_s",
    "consumers end whose events are processed, in tasks with jumbo jobs",
    run,
)
