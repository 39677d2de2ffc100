"""Copies of one-time inputs go when they were used, or have stayed for too long. Copies of
many-time inputs stay, whichever task they were brought for."""

from __future__ import annotations

from collections.abc import Sequence

from jedi.agent.base import World
from jedi.core import clock
from jedi.ddm.interface import TemporaryCopy
from jedi.taskbuffer.inputs import staging
from jedi.watchdog.dog import Counts, Dog, later


def run(world: World) -> Counts:
    """Remove unneeded copies; files that a job may be using stay. Copies of datasets that a task
    reads as many-time input stay for good: its jobs need no transfer of their own. Source:
    docs/reference/inputs.md#one-time-and-many-time-input."""
    size = int(world.knobs.watchdog.batch)
    counts, copies = _kept(world, world.ddm.copies())
    for at in range(0, len(copies), size):
        with later(world, "not removed"):
            dropped, problems = world.ddm.drop_copies(_over(world, copies[at : at + size]))
            counts["copies"] += dropped
            for error in problems:
                world.log.warning("not removed", error=str(error))
    return counts


def _kept(world: World, copies: Sequence[TemporaryCopy]) -> tuple[Counts, Sequence[TemporaryCopy]]:
    """Keep copies of many-time inputs; how many, and the other copies."""
    counts = Counts()
    with world.engine.begin() as tx:
        many = set(staging.MANY_TIME.rows(tx, names=list({copy.dataset for copy in copies})))
    if many:
        with later(world, "not kept"):
            counts["kept"] += world.ddm.keep_copies([c for c in copies if c.dataset in many])
    return counts, [copy for copy in copies if copy.dataset not in many]


def _over(world: World, copies: Sequence[TemporaryCopy]) -> list[TemporaryCopy]:
    """Return the copies that no job needs, and the expired copies that no job uses."""
    with world.engine.begin() as tx:
        needed = staging.needed(tx, [(copy.dataset, copy.lfn) for copy in copies])
    now = clock.now()
    return [
        copy
        for copy in copies
        if (in_use := needed.get((copy.dataset, copy.lfn))) is None
        or (copy.until <= now and not in_use)
    ]


DOG = Dog("copies", "watchdog.copies_period_s", "unneeded copies are removed", run)
