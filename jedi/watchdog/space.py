"""The room at storage endpoints is measured: brokers choose by it."""

from __future__ import annotations

from pathlib import Path

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.taskbuffer.sites import sites
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """An endpoint that can't be reached, or is not a directory of this machine, keeps its last
    figures."""
    counts, measured = Counts(), {}
    with world.engine.begin() as tx:
        roots, noted = dict(sites.ROOTS.rows(tx)), set(sites.WITH_SPACE.rows(tx))
    for endpoint, root in roots.items():
        if endpoint in noted and not Path(root).is_dir():
            counts["elsewhere"] += 1
            continue
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


DOG = Dog("space", "watchdog.space_period_s", "free space of storage endpoints is measured", run)
