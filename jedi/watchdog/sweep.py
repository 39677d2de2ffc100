"""What attempts left behind is removed: staged files, answers to pilots."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer import dogs, sites
from jedi.watchdog.dog import Counts, Dog, in_batches

_REQUESTS_KEPT_S = 86_400.0  # a pilot repeats a request for an hour at most


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

    def forget(tx: Connection, limit: int) -> Counts:
        return Counts(request=dogs.forget_requests(tx, _REQUESTS_KEPT_S, limit))

    return counts + in_batches(world, forget)


DOG = Dog("sweep", "watchdog.sweep_period_s", "what attempts left behind is removed", run)
