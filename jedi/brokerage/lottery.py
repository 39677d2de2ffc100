"""From sites that passed to sites that get jobs: candidates, and a lottery among them."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import accumulate

import numpy as np

from jedi.model.arrays import Bools, Numbers


def candidates(
    names: Sequence[str],
    passed: Bools,
    weights: Numbers,
    used: Collection[str],
    most: int,
    taken: Collection[str] = (),
) -> list[int]:
    """Positions of up to `most` sites: first the ones that the task has used, then those of weight
    0, which get a batch of jobs before others do, then by weight. Sites that are `taken` come
    before all and count towards `most`, even those that did not pass."""
    found = [int(i) for i in np.flatnonzero(passed)]
    order = {i: (names[i] not in used, weights[i] > 0, -weights[i], names[i]) for i in found}
    best = sorted(found, key=order.__getitem__)
    here = [i for i in best if names[i] in taken]
    others = [i for i in best if names[i] not in taken]
    return (here + others[: max(0, most - len(taken))])[:most]


class Lottery:
    """Draws sites in proportion to their weights; a site that got jobs weighs less afterwards.
    Sites of weight 0 are drawn once each, before all others.

    `queued` are the jobs that wait at each site. The same seed draws the same sites.
    Source: docs/reference/brokerage.md#choice.
    """

    def __init__(self, weights: Sequence[float], queued: Sequence[float], seed: int) -> None:
        self._weights = list(weights)
        self._queued = list(queued)
        self._random = random.Random(seed)
        self._first = [site for site, weight in enumerate(self._weights) if weight == 0]

    @property
    def over(self) -> bool:
        """No site is left to draw: all of them had their one turn."""
        return not self._first and not any(self._weights)

    def draw(self) -> int:
        """The position of a site; the lottery must not be over."""
        if self._first:
            return self._first.pop(self._random.randrange(len(self._first)))
        sums = list(accumulate(self._weights))
        ball = self._random.random() * sums[-1]
        return next((i for i, top in enumerate(sums) if ball < top), len(sums) - 1)

    def got(self, site: int, jobs: int) -> None:
        """A site got jobs."""
        before = self._queued[site]
        self._queued[site] += jobs
        self._weights[site] *= (before + 1) / (self._queued[site] + 1)
