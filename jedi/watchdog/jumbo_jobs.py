"""Tasks with jumbo jobs get those that they lack; jumbo jobs without work are closed."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.brokerage.filters.software import offers
from jedi.core import states
from jedi.eventservice.jumbo_jobs import next_jumbos
from jedi.taskbuffer.events import jumbo, jumbo_jobs
from jedi.taskbuffer.jobs import job_ends
from jedi.taskbuffer.jobs.job_ends import JobEnd
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Source: JEDI document, "Jumbo jobs and co-jumbo jobs";
    docs/reference/event-service.md#jumbo-jobs."""
    tries = int(world.knobs.eventservice.jumbo_tries)
    with world.engine.begin() as tx:
        sites = jumbo.jumbo_sites(tx)
        lacking = jumbo_jobs.lock_lacking(tx)
        joins = jumbo_jobs.mergeable(tx, [t.jobset_id for t in lacking], [s.site for s in sites])
        wanted = []
        for task in lacking:
            fitting = [s.site for s in sites if offers(s.releases, s.software, task.release)
                       and (task.jobset_id, s.site) in joins]  # fmt: skip
            if task.idle < tries:
                found = next_jumbos(fitting, task.living, task.most, task.per_site)
                wanted += [(task.jobset_id, site) for site in found]
        new = jumbo_jobs.add_jumbos(tx, wanted, "WatchDog")
    with world.engine.begin() as tx:
        ends = [JobEnd(one, "closed", "es_unused", "No events are left for it.", None, "jedi")
                for one in jumbo_jobs.idle(tx)]  # fmt: skip
        ended = job_ends.end_jobs(tx, ends, "WatchDog", states.JOB_QUEUED)
    return Counts(added=len(new), closed=len(ended))


DOG = Dog("jumbo_jobs", "watchdog.jumbo_jobs_period_s", "tasks get the jumbo jobs that they lack",
          run)  # fmt: skip
