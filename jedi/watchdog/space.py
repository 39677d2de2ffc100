"""The room at storage endpoints is measured: brokers choose by it."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.taskbuffer.sites import sites
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """An endpoint that can't be reached keeps what was measured before."""
    counts, measured = Counts(), {}
    with world.engine.begin() as tx:
        endpoints = list(sites.roots(tx))
    for endpoint in endpoints:
        try:
            space = world.ddm.space(endpoint)
        except (JediError, OSError) as error:
            counts["unreachable"] += 1
            world.log.warning("endpoint out of reach", endpoint=endpoint, error=str(error))
            continue
        measured[endpoint] = (space.free_gb, space.total_gb)
        counts["measured"] += 1
    with world.engine.begin() as tx:
        sites.note_space(tx, measured)
    return counts


DOG = Dog("space", "watchdog.space_period_s", "the room at storage endpoints is measured", run)
