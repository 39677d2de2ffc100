"""Boundary ids that no job divides (`groupBoundaryID` 3 and 4): the files of an id are one unit.

Source: docs/reference/splitting.md#boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Chunk, Files, Secondary
from jedi.model.jobs.demand import GB, InputSize
from jedi.model.splitting.split_rules import WHOLE_IDS, SplitRules
from jedi.splitter.cap_cutter import Weights


def are_whole(rules: SplitRules) -> bool:
    """Return True if the task divides no id."""
    return rules.group_boundary_id in WHOLE_IDS


def units(master: Files) -> Ints:
    """The first file of each id, and each file without an id: the column counts only if it is
    not NULL (JEDI document, BOUNDARYID). The files stand in the order of their ids."""
    ids = master.boundaries
    begins = np.ones(len(ids), bool)
    begins[1:] = (ids[1:] != ids[:-1]) | (ids[1:] == 0)
    return np.flatnonzero(begins)


def of_equal_memory(master: Files) -> Ints:
    """The memory that files need, if files of an id share a job: the largest of them."""
    firsts = units(master)
    most = np.maximum.reduceat(master.ram_counts, firsts)
    return np.repeat(most, np.diff(np.append(firsts, len(master))))


def beside(one: Secondary, master: Files) -> tuple[NDArray[Any], NDArray[Any]]:
    """Number and bytes of the secondary files that follow an id, at the first file of the id; at
    each file that has no id, the usual number and bytes."""
    n, firsts = len(master), units(master)
    ids = master.boundaries[firsts]
    low = np.searchsorted(one.files.boundaries, ids, side="left")
    high = np.searchsorted(one.files.boundaries, ids, side="right")
    sums = np.concatenate([[0.0], np.cumsum(one.files.sizes, dtype=float)])
    usual = one.usual(np.ones(n), master.counted_events.astype(float))
    counts = np.where(master.boundaries > 0, 0.0, usual)
    sizes = counts * one.usual_size
    named = ids > 0
    counts[firsts[named]] = (high - low)[named]
    sizes[firsts[named]] = (sums[high] - sums[low])[named]
    return counts, sizes


def largest(weights: Weights, chunk: Chunk) -> InputSize:
    """The most bytes and the most events of a unit."""
    firsts = units(chunk.master)
    return InputSize(
        *(float(np.add.reduceat(weights[name], firsts).max()) for name in ("read", "events"))
    )


def refuse_too_large(
    weights: Weights, chunk: Chunk, dataset: str, rules: SplitRules, knobs: Knobs
) -> None:
    """JediError if an id does not fit into a job of any site."""
    fixed = sum(one.fixed for one in chunk.secondaries)
    most_files = knobs.jobgen.hard_max_files_per_job
    aim, cap = rules.output_gb_per_job or np.inf, knobs.jobgen.max_output_gb or np.inf
    aimed = rules.files_per_job or rules.events_per_job
    most_gb = np.inf if aimed else min(aim, cap)
    firsts = units(chunk.master)
    files = np.add.reduceat(weights["files"], firsts) + fixed
    output_gb = np.add.reduceat(weights["output"], firsts) / GB
    several = np.diff(np.append(firsts, len(chunk.master))) > 1  # a single file is never divided
    late = (files > most_files) | (output_gb > most_gb) & several
    late &= chunk.master.boundaries[firsts] > 0
    if not late.any():
        return
    one = int(np.flatnonzero(late)[0])
    name = int(chunk.master.boundaries[firsts[one]])
    if files[one] > most_files:
        size, limit = f"{files[one]:.0f} files", f"{most_files} files"
        knob = "knob jobgen.hard_max_files_per_job"
    else:
        size, limit = f"{output_gb[one]:.1f} GB of expected output", f"{most_gb:g} GB"
        knob = "tgtMaxOutputForNG" if aim <= cap else "knob jobgen.max_output_gb"
    raise JediError(
        f"Boundary id {name} of {dataset} has {size}. A job may have {limit} ({knob}), and "
        f"groupBoundaryID {rules.group_boundary_id} divides no id.",
        code="boundary_id_too_large",
    )


def named_largest(chunks: Sequence[Chunk]) -> str:
    """The id with the most bytes, for the sentence about sites that are too small for it."""
    found: list[tuple[float, int, int]] = []
    for chunk in chunks:
        firsts = units(chunk.master)
        sizes = np.add.reduceat(chunk.master.sizes, firsts)
        at = int(sizes.argmax())
        counts = np.diff(np.append(firsts, len(chunk.master)))
        found.append((sizes[at] / GB, int(chunk.master.boundaries[firsts[at]]), int(counts[at])))
    gb, name, n_files = max(found)
    return f"boundary id {name} ({n_files} files, {gb:.1f} GB) is not divided" if name else ""
