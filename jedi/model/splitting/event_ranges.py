"""Cuts the events of files into ranges, which a task that is split by events has instead of files.

Source: JEDI document, "Event-level splitting"; docs/reference/event-ranges.md#ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jedi.model.arrays import Ints


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges of events, in order: the position of the file, its first and last event that belong
    to the range (counted from 0), and how many events lie before the range in all files."""

    files: Ints
    starts: Ints
    ends: Ints
    before: Ints

    def __len__(self) -> int:
        return len(self.files)


def across(events: Ints, size: int, begun: int = 0, groups: Ints | None = None) -> Ranges:
    """Cut where every `size` events are full, in a file or between two: the ranges of a job lie in
    a row and add up to `size`. `begun`: events that the first job has already. `groups`: the count
    begins anew where the files' group is another; `begun` is of the first group."""
    if groups is not None and len(groups):
        return _by_groups(events, size, begun, groups)
    stops = np.cumsum(events)
    total = int(stops[-1]) if len(stops) else 0
    full = np.arange(size - begun % size, total, size)
    return _between(np.unique(np.concatenate([(stops - events)[events > 0], full])), events)


def _by_groups(events: Ints, size: int, begun: int, groups: Ints) -> Ranges:
    begins = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    parts = []
    for first, last in pairwise(begins):
        one = across(events[first:last], size, 0 if first else begun)
        before = int(events[:first].sum())
        parts.append((one.files + first, one.starts, one.ends, one.before + before))
    return Ranges(*map(np.concatenate, zip(*parts, strict=True)))


def evenly(events: Ints, aim: int) -> Ranges:
    """Cut each file into ranges of equal size (but for the last), as few as have at most `aim`
    events."""
    parts = -(-events // aim)
    sizes = -(-events // np.maximum(parts, 1))
    files = np.repeat(np.arange(len(events)), parts)
    number = np.arange(len(files)) - np.repeat(np.cumsum(parts) - parts, parts)
    borders = (np.cumsum(events) - events)[files] + number * sizes[files]
    return _between(borders, events)


def _between(borders: Ints, events: Ints) -> Ranges:
    """The ranges that begin at these places in the row of all events."""
    stops = np.cumsum(events)
    files = np.searchsorted(stops, borders, side="right")
    offset = (stops - events)[files]
    ends = np.append(borders[1:], stops[-1:])
    return Ranges(files, borders - offset, ends[: len(borders)] - 1 - offset, borders)
