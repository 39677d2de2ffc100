"""Shares of work queues are computed: tasks of the queue that uses least of its own come first."""

from __future__ import annotations

import math
from dataclasses import asdict

from jedi.agent.base import World
from jedi.model.scheduling.shares import ShareNode, allot
from jedi.taskbuffer.scheduling import shares
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Divide the running cores by shares; the order of shares exists even if nothing runs."""
    by_demand = world.knobs.shares.demand_cap == "on"
    with world.engine.begin() as tx:
        nodes = [
            ShareNode(
                row.queue_id,
                row.partitionid,
                row.queue_share,
                bool(row.stretchable),
                row.active,
                row.usage,
                row.demand,
            )
            for row in shares.READ.rows(tx, files=by_demand)
        ]
        total = max(1.0, sum(node.usage for node in nodes))
        found = [asdict(one) for one in allot(nodes, total, by_demand=by_demand)]
        for one in found:
            if one["ratio"] is not None and math.isinf(one["ratio"]):
                one["ratio"] = None
        shares.put(tx, found)
    return Counts()


DOG = Dog(
    "shares",
    "watchdog.shares_period_s",
    "shares of work queues are computed",
    run,
    shares.ANY_DUE.value,
)
