"""Division of cores among work queues, and the order in which they are served.

Source: JEDI document, "Shares"; docs/reference/throttler-and-shares.md#shares. Partitions may stand
in partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jedi.model.arrays import Bools, Numbers
from jedi.model.scheduling.queue_file import PARTITION


@dataclass(frozen=True, slots=True)
class ShareNode:
    """A work queue or partition. `share` None: outside the shares; `usage` and `demand` (running,
    and possible) in cores, `active`: it has tasks, a partition has its sub-queues'.
    """

    queue_id: int
    partition: int | None
    share: int | None
    stretchable: bool
    active: bool
    usage: float = 0.0
    demand: float = 0.0


@dataclass(frozen=True, slots=True)
class Allotment:
    """The cores of a queue: entitled to by its share alone, allocated, in use; in cores. `ratio` is
    usage by allocation, None for a queue that is outside the shares; queues of lower `place` are
    served first, partitions as a whole in the order of `turn`."""

    queue_id: int
    active: bool
    entitlement: float | None
    allocation: float | None
    usage: float
    demand: float
    ratio: float | None
    place: int
    turn: int


def distribute(
    total: float,
    share: Numbers,
    active: Bools,
    stretchable: Bools,
    demand: Numbers | None = None,
) -> tuple[Numbers, Numbers]:
    """Entitlements and allocations of the queues that stand side by side.

    Queues without tasks lend their cores: to the stretchable ones by their shares, then to the
    others, so that nothing idles while there is demand. With `demand` nobody gets more than that
    (water-filling); without it demand is endless.
    """
    entitled = total * share / share.sum() if share.sum() > 0 else np.zeros(len(share))
    wanted = np.where(active, np.inf if demand is None else demand, 0.0)
    given = np.minimum(entitled, wanted)
    while (left := total - given.sum()) > 1e-9 * total:
        open_ = given < wanted
        takers = open_ & stretchable if (open_ & stretchable & (share > 0)).any() else open_
        if not takers.any():
            break
        part = np.where(takers, share, 0.0)
        if part.sum() == 0:  # only queues without a share are left
            part = takers.astype(float)
        given = np.minimum(given + left * part / part.sum(), np.where(takers, wanted, given))
    return entitled, given


def allot(nodes: Sequence[ShareNode], total: float, *, by_demand: bool) -> list[Allotment]:
    """The shares of all queues, in the order of `nodes`: total cores to the queues outside of
    partitions, and the cores of a partition to those in it."""
    return _Tree(nodes, by_demand).allot(total)


class _Tree:
    """Work queues under their partitions. Queues whose partition is unknown count as outside."""

    def __init__(self, nodes: Sequence[ShareNode], by_demand: bool) -> None:
        self.nodes = nodes
        self.by_demand = by_demand
        at = {node.queue_id: i for i, node in enumerate(nodes)}
        self.inside: dict[int | None, list[int]] = {}
        for i, node in enumerate(nodes):
            above = None if node.partition in (None, PARTITION) else at.get(node.partition)
            self.inside.setdefault(above, []).append(i)
        size = len(nodes)
        self.active = np.array([node.active for node in nodes], bool)
        self.usage = np.array([node.usage for node in nodes], float)
        self.demand = np.array([node.demand for node in nodes], float)
        self.entitled, self.given = np.full(size, np.nan), np.full(size, np.nan)
        self.path: list[tuple[float, ...]] = [()] * size
        for i in self.inside.get(None, ()):
            self._sum_up(i)

    def _sum_up(self, i: int) -> None:
        """A partition is the sum of its sub-queues."""
        if below := self.inside.get(i):
            for one in below:
                self._sum_up(one)
            self.active[i] = self.active[below].any()
            self.usage[i], self.demand[i] = self.usage[below].sum(), self.demand[below].sum()

    def allot(self, total: float) -> list[Allotment]:
        self._divide(None, total, ())
        places = _dense(self.path)
        turns = _dense([path[:1] for path in self.path])
        return [
            Allotment(
                queue_id=node.queue_id,
                active=bool(self.active[i]),
                entitlement=_known(self.entitled[i]),
                allocation=_known(self.given[i]),
                usage=float(self.usage[i]),
                demand=float(self.demand[i]),
                ratio=None if np.isnan(self.given[i]) else self.path[i][-1],
                place=places[i],
                turn=turns[i],
            )
            for i, node in enumerate(self.nodes)
        ]

    def _divide(self, above: int | None, total: float, path: tuple[float, ...]) -> None:
        """Divide among the queues inside a partition, and go down. Their own usage is compared with
        their cores."""
        here = self.inside.get(above, [])
        shared = [i for i in here if self.nodes[i].share is not None]
        if shared:
            self.entitled[shared], self.given[shared] = distribute(
                total,
                np.array([self.nodes[i].share for i in shared], float),
                self.active[shared],
                np.array([self.nodes[i].stretchable for i in shared], bool),
                self.demand[shared] if self.by_demand else None,
            )
        for i in here:
            self.path[i] = (*path, self._ratio(i))
            inner = total if np.isnan(self.given[i]) else float(self.given[i])
            self._divide(i, inner, self.path[i])

    def _ratio(self, i: int) -> float:
        """Usage by allocation; queues outside the shares come with the ones that have nothing
        yet."""
        if np.isnan(self.given[i]):
            return 0.0
        if self.given[i] <= 0:
            return float("inf")
        return float(self.usage[i] / self.given[i])


def _dense(keys: Sequence[tuple[float, ...]]) -> list[int]:
    """Positions in order; equals share one."""
    order = {key: place for place, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
