"""Cuts a row of files into jobs. All limits are of one kind: the weights of a job's files must not
add up to more than a cap. A single file that breaks a cap alone is a job of its own. Some files
begin a job whatever fits. Where files belong together, the unit takes the place of the file: it
breaks caps alone, and nothing divides it.

Where a job ends depends only on where it begins, so `cuts` finds the end for every possible
beginning at once, in numpy, and the generator walks from end to end. Thus sites with other caps can
take turns, and the result does not depend on how many files are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.model.arrays import Ints

Weights = Mapping[str, NDArray[Any]]
Caps = Mapping[str, float]
NOWHERE = np.empty(0, np.int64)


class CapCutter:
    """Files with their weights, by name of the limit; no weight is negative. `breaks`: the
    positions, in order, of files that begin a job; `units`: of files that begin a unit, if each
    file is not one."""

    def __init__(self, weights: Weights, breaks: Ints = NOWHERE, units: Ints | None = None) -> None:
        self._weights = weights
        self._breaks = breaks
        self._units = units
        self._cuts: dict[tuple[tuple[str, float], ...], Ints] = {}

    def cuts(self, caps: Caps) -> Ints:
        """For a job that begins with file i, the file that the next one begins with."""
        key = tuple(sorted(caps.items()))
        if key not in self._cuts:
            ends = self._ends(caps)
            if self._units is not None:
                ends = _whole(ends, self._units)
            self._cuts[key] = ends
        return self._cuts[key]

    def _ends(self, caps: Caps) -> Ints:
        limits = [(self._weights[name], cap) for name, cap in sorted(caps.items())]
        return _cuts(limits, self._breaks, len(next(iter(self._weights.values()))))


def _whole(ends: Ints, units: Ints) -> Ints:
    """The ends, moved back to where a unit ends; where no unit is whole by then, one is taken."""
    borders = np.append(units, len(ends))
    whole = borders[np.searchsorted(borders, ends, side="right") - 1]
    begins = np.arange(len(ends))
    one = borders[np.searchsorted(borders, begins, side="right")]
    return np.where(whole > begins, whole, one)


def _cuts(limits: Sequence[tuple[NDArray[Any], float]], breaks: Ints, size: int) -> Ints:
    """Would one more file exceed a cap? The first that would, over all limits."""
    ends = np.full(size, size, np.int64)
    for weights, cap in limits:
        if np.isfinite(cap):
            sums = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])
            reach = np.searchsorted(sums, sums[:-1] + cap, side="right") - 1
            np.minimum(ends, reach, out=ends)
    if len(breaks):
        following = np.searchsorted(breaks, np.arange(size), side="right")
        np.minimum(ends, np.append(breaks, size)[following], out=ends)
    return np.maximum(ends, np.arange(1, size + 1))


def walk(cuts: Ints, start: int, most: int) -> list[int]:
    """The ends of up to `most` jobs in a row, the first of which begins with file `start`."""
    ends: list[int] = []
    next_after, size = cuts.item, len(cuts)
    while start < size and len(ends) < most:
        start = next_after(start)
        ends.append(start)
    return ends
