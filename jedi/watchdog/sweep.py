"""What attempts left behind at storage endpoints is removed."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.taskbuffer import dogs, sites
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Staged files are looked at before the jobs: a new attempt gets its number first."""
    counts = Counts()
    with world.engine.begin() as tx:
        endpoints = list(sites.roots(tx))
    for endpoint in endpoints:
        staged = world.ddm.staged(endpoint)
        with world.engine.begin() as tx:
            living = dogs.living(tx, staged)
        for attempt in staged:
            if attempt not in living:
                world.ddm.drop_staging(endpoint, *attempt)
                counts["staging"] += 1
    return counts


DOG = Dog("sweep", "watchdog.sweep_period_s", "what attempts left behind is removed", run)
