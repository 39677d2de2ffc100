"""Division of the next jobs among the shares that wait for them, job by job.

Of the shares that another job does not bring a whole job beyond their allocation, the one that
falls a whole job behind first without it gets the job. So no queue, and no partition of queues, is
ever more than one job off its allocation. Source: JEDI document, "Fairshare"; the quota method of
M. L. Balinski and H. P. Young (1975); docs/reference/throttler-and-shares.md#order-of-service.
"""

from __future__ import annotations

from collections.abc import Sequence

from jedi.model.scheduling.shares import ShareNode, allot

_EXACT = 1e-9


class _Level:
    """A queue or partition: the part of all cores that it is allocated, and the cores it uses."""

    __slots__ = ("used", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.used = 0.0


_Path = tuple[_Level, ...]
"""A queue, and the partitions that it is in."""


class Dealing:
    """Work queues in use. Unknown ones and those outside the shares come first."""

    def __init__(self, nodes: Sequence[ShareNode] = ()) -> None:
        allocations = {one.queue_id: one.allocation for one in allot(nodes, 1, by_demand=False)}
        levels = {one: _Level(part) for one, part in allocations.items() if part is not None}
        above = {node.queue_id: node.partition for node in nodes}
        self._total = 0.0
        self._paths: dict[int | None, _Path] = {}
        for queue, level in levels.items():
            path, inside = [level], above[queue]
            while inside in levels:
                path.append(levels[inside])
                inside = above[inside]
            self._paths[queue] = tuple(path)
        for node in nodes:
            self.charge(node.queue_id, node.usage)

    def charge(self, queue: int | None, cores: float) -> None:
        """Add to the use of a queue and of its partitions."""
        if path := self._paths.get(queue):
            self._total += cores
            for level in path:
                level.used += cores

    def deal(self, queues: Sequence[int | None], n: int, size: float) -> list[tuple[int, int]]:
        """Charge `n` jobs of `size` cores to `queues`, as if each had so many; of equals the
        earlier ones come first. Returns the positions of all queues in their order, each with its
        jobs."""
        paths = [self._paths.get(queue, ()) for queue in queues]
        upto = self._total + n * size
        counts = [0] * len(paths)
        if n > 1 and all(paths):
            counts = self._whole(paths, n, size)
            for queue, count in zip(queues, counts, strict=True):
                self.charge(queue, count * size)
        order = sorted(range(len(paths)), key=lambda i: _turn(paths[i], upto, size))
        first, left = order[0], n - sum(counts)
        while left:
            given = 1 if paths[first] else left
            counts[first] += given
            self.charge(queues[first], given * size)
            if left := left - given:
                first = min(order, key=lambda i: _turn(paths[i], upto, size))
        return [(i, counts[i]) for i in order]

    def _whole(self, paths: Sequence[_Path], n: int, size: float) -> list[int]:
        """The whole jobs of each queue if `n` jobs fill up the ones that use least of their
        allocations: the rest of a division, which is dealt job by job."""
        used, weight = n * size, 0.0
        for one in sorted((path[0] for path in paths if path[0].weight), key=_ratio):
            if weight and used / weight <= _ratio(one):
                break
            used, weight = used + one.used, weight + one.weight
        level = used / weight if weight else 0.0
        return [
            max(0, int((level * path[0].weight - path[0].used) / size + _EXACT)) for path in paths
        ]


def _ratio(level: _Level) -> float:
    return level.used / level.weight


def _turn(path: _Path, total: float, size: float) -> tuple[bool, list[float], float]:
    """The order of queues that wait for a job when all use `total` cores with it: of queues that
    fall behind at the same time the furthest one comes first."""
    ahead, due = False, []
    for level in path:
        ahead |= level.used > level.weight * total - _EXACT
        due.append(round((level.used + size) / (level.weight or _EXACT), 6))
    due.sort()
    return ahead, due, path[0].used - path[0].weight * total if path else 0.0
