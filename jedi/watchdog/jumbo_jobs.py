"""Tasks with jumbo jobs get the missing ones; jumbo jobs without work are closed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.eventservice.jumbo_jobs import JumboNeed, JumboPlace, next_jumbos, refusal, size_at
from jedi.eventservice.jumbo_places import JumboRanking, ranked
from jedi.model.jobs.events import NewConsumer
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import jumbo, jumbo_jobs
from jedi.taskbuffer.events.jumbo import JumboSite
from jedi.taskbuffer.events.jumbo_jobs import JumboLack, SetSite
from jedi.taskbuffer.jobs import capping, orders
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Source: JEDI document, "Jumbo jobs and co-jumbo jobs";
    docs/reference/event-service.md#jumbo-jobs."""
    tries = int(world.knobs.eventservice.jumbo_tries)
    with world.engine.begin() as tx:
        sites = jumbo.JUMBO_SITES.rows(tx)
        most = max((one.min_events for one in sites), default=0)
        found = jumbo_jobs.lock_lacking(tx, most)
        joins = jumbo_jobs.mergeable(tx, [t.jobset_id for t in found], [s.site for s in sites])
        ranking = _rankings(tx, world.knobs, [one.jedi_task_id for one in found], sites)
        wanted = [
            one
            for task in found
            if task.idle < tries
            for one in _next(task, sites, joins, ranking[task.jedi_task_id])
        ]
        if new := jumbo_jobs.add_jumbos(tx, wanted, "WatchDog"):
            capping.keep_back(tx, world.knobs, [one.jedi_task_id for one in found], "WatchDog")
    with world.engine.begin() as tx:
        ends = [
            JobEnd(one, "closed", "es_unused", "No events are left for it.", None, "jedi")
            for one in jumbo_jobs.IDLE.rows(tx)
        ]
        ended = job_ends.end_jobs(tx, ends, "WatchDog", states.JOB_QUEUED)
    return Counts(added=len(new), closed=len(ended))


def _rankings(
    tx: Connection, knobs: Knobs, task_ids: Sequence[int], sites: Sequence[JumboSite]
) -> dict[int, JumboRanking]:
    """The sites as the broker of each task ranks them."""
    if not task_ids:
        return {}
    names, rows = {one.site for one in sites}, orders.read_tasks(tx, task_ids)
    snapshot = snapshots.load(tx, {row.nucleus for row in rows if row.nucleus})
    left = jumbo_jobs.NOT_TAKEN.rows(tx, ids=task_ids)
    return {row.jedi_task_id: ranked(row, names, left, snapshot, knobs) for row in rows}


def _next(
    task: JumboLack,
    sites: Sequence[JumboSite],
    joins: Collection[SetSite],
    ranking: JumboRanking,
) -> list[NewConsumer]:
    """The jumbo jobs that a task lacks, each as large as a slot of its site."""
    need = JumboNeed(task.release, task.events, task.cores, task.memory_mb)
    places = {one.site: JumboPlace(*one, (task.jobset_id, one.site) in joins) for one in sites}
    fitting = [name for name in ranking.order if refusal(places[name], need) is None]
    return [
        NewConsumer(task.jobset_id, site, kind="jumbo", **size_at(places[site], need)._asdict())
        for site in next_jumbos(fitting, task.living, task.most, task.per_site)
    ]


DOG = Dog(
    "jumbo_jobs", "watchdog.jumbo_jobs_period_s", "tasks get the jumbo jobs that they lack", run
)
