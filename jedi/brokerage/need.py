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


def atom(chunks: Sequence[Chunk], n_files: int, n_events: int | None = None) -> Load:
    """The largest job of `n_files` master files, or of so many as `n_events` may lie in: bytes and
    events are each the largest there are.

    Source: brokerage.md §5, "Atom".
    """
    loads = [_atom(c, n_files, n_events) for c in chunks]
    return Load(max(load.bytes for load in loads), max(load.events for load in loads))


def _atom(chunk: Chunk, n_files: int, n_events: int | None) -> Load:
    events = chunk.master.counted_events
    if n_events is None:
        most = _most(events, n_files)
    else:
        most = min(float(n_events), float(events.sum()))
        n_files = -(-n_events // int(events.max()))
    return Load(_most(chunk.master.sizes, n_files) + _beside(chunk, n_files, most), most)


def _most(values: Ints, n: int) -> float:
    """The largest sum of n values in a row, blocks beginning at the first."""
    return float(np.add.reduceat(values, np.arange(0, len(values), n)).max())


def _beside(chunk: Chunk, n_files: int, n_events: float) -> float:
    """Bytes of what follows so many master files and events: all, or an average part."""
    n_files = min(n_files, len(chunk.master))
    return float(sum(s.usual(n_files, n_events) * s.usual_size for s in chunk.secondaries))
