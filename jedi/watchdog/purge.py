"""What jobs have made goes when it is not to be kept any longer."""

from __future__ import annotations

from collections import defaultdict

from jedi.agent.base import World
from jedi.taskbuffer.housekeeping import purging
from jedi.watchdog.dog import Counts, Dog
from jedi.watchdog.expiry import DAY_S, remove


def run(world: World) -> Counts:
    """Files go first, what was made for them goes when it is empty. Whoever dies in between leaves
    the jobs to be purged again. Tasks that have a dataset which can't be removed wait for the next
    run: there may be more jobs of theirs than fit into a batch."""
    limit = int(world.knobs.watchdog.batch)
    age_s = DAY_S * float(world.knobs.lifetime.job_outputs_days)
    counts, stuck = Counts(), set[int]()
    while True:
        with world.engine.begin() as tx:
            found = purging.claim(tx, age_s, limit, stuck)
        files: dict[str, list[str]] = defaultdict(list)
        for row in found:
            if row.datasetname:
                files[row.datasetname] += row.lfns
        stays = {name for name, lfns in files.items() if not remove(world, name, lfns)}
        stuck |= {row.jeditaskid for row in found if row.datasetname in stays}
        for name in {row.containername for row in found if row.containername}:
            remove(world, name, [])
        jobs = {row.pandaid for row in found}
        gone = sorted(jobs - {row.pandaid for row in found if row.datasetname in stays})
        with world.engine.begin() as tx:
            purging.note_purged(tx, gone, "purge")
        removed = sum(len(lfns) for name, lfns in files.items() if name not in stays)
        counts += Counts(purged=len(gone), files=removed)
        if len(jobs) < limit:
            return counts


DOG = Dog("purge", "watchdog.purge_period_s", "outputs that are not to be kept are removed", run)
