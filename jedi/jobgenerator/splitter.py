"""Cuts a row of files into jobs. All limits are of one kind: the weights of a job's files must
not add up to more than a cap. A single file that breaks a cap alone is a job of its own. Some
files begin a job whatever fits.

Where a job ends depends only on where it begins, so `cuts` finds the end for every possible
beginning at once, in numpy, and whoever hands out jobs walks from end to end. Thus sites with
other caps can take turns, and the result does not depend on how many files are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.spec.chunk import Ints

Weights = Mapping[str, NDArray[Any]]
Caps = Mapping[str, float]
NOWHERE = np.empty(0, np.int64)


class Splitter:
    """Files with their weights, by name of the limit; no weight is negative. `breaks`: the
    positions, in order, of files that begin a job."""

    def __init__(self, weights: Weights, breaks: Ints = NOWHERE) -> None:
        self._weights = weights
        self._breaks = breaks
        self._cuts: dict[tuple[tuple[str, float], ...], Ints] = {}

    def cuts(self, caps: Caps) -> Ints:
        """For a job that begins with file i, the file that the next one begins with."""
        key = tuple(sorted(caps.items()))
        if key not in self._cuts:
            limits = [(self._weights[name], cap) for name, cap in key]
            self._cuts[key] = _cuts(limits, self._breaks)
        return self._cuts[key]


def _cuts(limits: Sequence[tuple[NDArray[Any], float]], breaks: Ints) -> Ints:
    """Would one more file exceed a cap? The first that would, over all limits."""
    size = len(limits[0][0])
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
