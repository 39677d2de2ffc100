"""Removal of outputs of jobs at the end of their retention."""

from __future__ import annotations

from collections import defaultdict

from jedi.agent.base import World
from jedi.taskbuffer.jobs import purging
from jedi.watchdog.dog import Counts, Dog
from jedi.watchdog.expiry import DAY_S, remove


def run(world: World) -> Counts:
    """Remove files first, then their empty containers. After a crash in between the next run purges
    the jobs again. Tasks with a dataset that can't be removed wait for the next run: they may have
    more jobs than fit into a batch."""
    limit = int(world.knobs.watchdog.batch)
    age_s = DAY_S * float(world.knobs.lifetime.job_outputs_days)
    counts, stuck = Counts(), set[int]()
    while True:
        with world.engine.begin() as tx:
            found = purging.claim(tx, age_s, limit, stuck)
        files: dict[str, list[str]] = defaultdict(list)
        for row in found:
            if row.dataset_name:
                files[row.dataset_name] += row.lfns
        stays = {name for name, lfns in files.items() if not remove(world, name, lfns)}
        stuck |= {row.jedi_task_id for row in found if row.dataset_name in stays}
        for name in {row.container_name for row in found if row.container_name}:
            remove(world, name, [])
        jobs = {row.panda_id for row in found}
        gone = sorted(jobs - {row.panda_id for row in found if row.dataset_name in stays})
        with world.engine.begin() as tx:
            purging.note_purged(tx, gone, "purge")
        removed = sum(len(lfns) for name, lfns in files.items() if name not in stays)
        counts += Counts(purged=len(gone), files=removed)
        if len(jobs) < limit:
            return counts


DOG = Dog("purge", "watchdog.purge_period_s", "outputs are removed after their retention", run)
