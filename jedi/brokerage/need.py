"""What a task asks of a site: the smallest job that must fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jedi.spec.chunk import Chunk, Ints
from jedi.spec.demand import Demand, Load


@dataclass(frozen=True, slots=True)
class Need:
    """`atom` is the largest of the smallest possible jobs; `sites` the only ones allowed (empty:
    all)."""

    demand: Demand
    atom: Load
    sites: tuple[str, ...] = ()


def atom(chunks: Sequence[Chunk], n_files: int) -> Load:
    """The largest job of `n_files` master files: bytes and events are each the largest there are.

    Source: brokerage.md §5, "Atom".
    """
    return Load(
        bytes=max(_most(c.master.sizes, n_files) + _beside(c, n_files) for c in chunks),
        events=max(_most(c.master.counted_events, n_files) for c in chunks),
    )


def _most(values: Ints, n: int) -> float:
    """The largest sum of n values in a row, blocks beginning at the first."""
    return float(np.add.reduceat(values, np.arange(0, len(values), n)).max())


def _beside(chunk: Chunk, n_files: int) -> float:
    """Bytes of what follows so many master files: all, or an average part."""
    sizes = 0.0
    for one in chunk.secondaries:
        if len(one.files):
            all_of_it = float(one.files.sizes.sum())
            files = min(n_files, len(chunk.master)) * one.ratio
            sizes += all_of_it if one.whole else files * all_of_it / len(one.files)
    return sizes
