"""Average disk I/O of running jobs at each site: brokers spare busy disks."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.taskbuffer.scheduling import statistics
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Source: docs/reference/brokerage.md#disk-io-and-io-limits-of-sites."""
    with world.engine.begin() as tx:
        return Counts(sites=statistics.NOTE_DISK_IO.run(tx))


DOG = Dog("diskio", "watchdog.diskio_period_s", "the disk I/O of running jobs is averaged", run)
