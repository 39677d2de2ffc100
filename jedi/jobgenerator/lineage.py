"""Predecessors of jobs: origins and unit numbers.

A submitter keeps the id of the first attempt; a unit keeps its number while it consists of the same
inputs (docs/reference/identifiers-and-names.md#job-ids).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jedi.core import kills
from jedi.jobgenerator.plan import Cut
from jedi.model.arrays import Ints
from jedi.model.jobs.generation import HerdUnit, Predecessor, Retry


@dataclass(frozen=True, slots=True)
class Lineage:
    """Origin and unit of each job, and whom it takes over from."""

    origins: list[int]
    units: list[int]
    retries: list[Retry]


def trace(
    cuts: Sequence[Cut],
    panda_ids: Sequence[int],
    known: Mapping[int, Predecessor],
    last_unit: int,
    kind: str = "normal",
) -> Lineage:
    """Jobs of a kind in the order of the cuts. New units count up from `last_unit`."""
    origins, units = list(panda_ids), [0] * len(panda_ids)
    retries: list[Retry] = []
    for job, previous in _earlier(cuts):
        before = [int(old) for old in np.unique(previous) if int(old) in known]
        if not before:
            continue
        origins[job] = min(known[old].origin for old in before)
        retries += [
            Retry(old, panda_ids[job], origins[job], _relation(known[old], kind)) for old in before
        ]
        one = known[before[0]]
        same = (previous == before[0]).all() and len(previous) == one.n_inputs
        if same and _relation(one, kind) != "merge":
            units[job] = one.unit
    for job, unit in enumerate(units):
        if not unit:
            last_unit += 1
            units[job] = last_unit
    return Lineage(origins, units, retries)


def of_herd(found: Lineage, panda_ids: Sequence[int], units: Sequence[HerdUnit]) -> Lineage:
    """The lineage of jobs of a herd, whose units have their numbers and origins since the split."""
    origins = dict(zip(panda_ids, (one.origin for one in units), strict=True))
    retries = [replace(one, origin=origins[one.new]) for one in found.retries]
    return Lineage([*origins.values()], [one.unit_nr for one in units], retries)


def _relation(before: Predecessor, kind: str) -> str:
    if kind == "merge" != before.kind:
        return "merge"
    killed = kills.kill(before.kill_code)
    return killed.relation if killed else "retry"


def _earlier(cuts: Sequence[Cut]) -> list[tuple[int, Ints]]:
    """Jobs with a file that was used before: position and the earlier job of each of its files."""
    pairs = []
    first = 0
    for cut in cuts:
        previous = cut.chunk.master.previous[: cut.stops[-1]]
        again = np.flatnonzero(np.maximum.reduceat(previous, cut.starts))
        pairs += [(first + int(k), previous[cut.starts[k] : cut.stops[k]]) for k in again]
        first += len(cut)
    return pairs
