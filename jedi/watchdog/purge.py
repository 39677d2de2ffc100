"""What jobs have made goes when it is not to be kept any longer."""

from __future__ import annotations

from collections import defaultdict

from jedi.agent.base import World
from jedi.taskbuffer import purging
from jedi.watchdog.dog import Counts, Dog
from jedi.watchdog.expiry import DAY_S, remove


def run(world: World) -> Counts:
    """Files go first, what was made for them goes when it is empty. Whoever dies in between leaves
    the jobs to be purged again."""
    limit = int(world.knobs["watchdog.batch"])
    age_s = DAY_S * float(world.knobs["lifetime.job_outputs_days"])
    counts = Counts()
    while True:
        with world.engine.begin() as tx:
            found = purging.due(tx, age_s, limit)
        files: dict[str, list[str]] = defaultdict(list)
        for row in found:
            if row.datasetname:
                files[row.datasetname] += row.lfns
        for name, lfns in files.items():
            remove(world.ddm, name, lfns)
        for name in {row.containername for row in found if row.containername}:
            remove(world.ddm, name, [])
        jobs = sorted({row.pandaid for row in found})
        with world.engine.begin() as tx:
            purging.note_purged(tx, jobs, "purge")
        counts += Counts(purged=len(jobs), files=sum(map(len, files.values())))
        if len(jobs) < limit:
            return counts


DOG = Dog("purge", "watchdog.purge_period_s", "outputs that are not to be kept are removed", run)
