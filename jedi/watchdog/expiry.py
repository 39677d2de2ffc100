"""Removal of temporary outputs of tasks when their lifetime is over."""

from __future__ import annotations

from collections.abc import Sequence

from jedi.agent.base import World
from jedi.core.errors import JediError, NotFound
from jedi.taskbuffer.housekeeping import expiry
from jedi.watchdog.dog import Counts, Dog

DAY_S = 86_400.0


def run(world: World) -> Counts:
    """Only files that the task has made are removed. A task that goes on makes its datasets anew.
    Source: docs/reference/inputs.md#expiry."""
    limit = int(world.knobs.watchdog.batch)
    transient_s = DAY_S * float(world.knobs.lifetime.transient_days)
    failed_logs_s = DAY_S * float(world.knobs.lifetime.failed_logs_days)
    logs_s = DAY_S * float(world.knobs.lifetime.logs_days)
    counts, stuck = Counts(), set[int]()
    while True:
        with world.engine.begin() as tx:
            found = expiry.EXPIRED.rows(
                tx,
                transient_s=transient_s,
                failed_logs_s=failed_logs_s,
                logs_s=logs_s,
                limit=limit,
                stuck=stuck,
            )
        gone = [row.dataset_id for row in found if remove(world, row.dataset_name, row.lfns)]
        with world.engine.begin() as tx:
            expiry.NOTE_GONE.run(tx, ids=gone)
        counts["expired"] += len(gone)
        stuck |= {row.dataset_id for row in found}.difference(gone)
        if len(found) < limit:
            return counts


def remove(world: World, name: str, lfns: Sequence[str]) -> bool:
    """Remove files, and their dataset (or a container) if there are no others in it; whether that
    was possible. A file that can't be removed now delays no others."""
    ddm = world.ddm
    try:
        if lfns:
            ddm.remove_files(name, lfns)
        if not any(replica.n_files for replica in ddm.replicas(name)):
            ddm.delete(name)
    except NotFound:
        return True
    except (JediError, OSError) as error:
        world.log.warning("not removed", dataset=name, error=str(error))
        return False
    return True


DOG = Dog("expiry", "watchdog.expiry_period_s", "temporary outputs are removed", run)
