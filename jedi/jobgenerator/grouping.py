"""Ready files in the order of their use, and the part that makes jobs of one kind.

Source: docs/reference/splitting.md#order-of-files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jedi.jobgenerator.whole_ids import are_whole, of_equal_memory
from jedi.model.datasets.chunk import Chunk, Files, Secondary
from jedi.model.splitting.split_rules import SplitRules


def in_order(chunks: Sequence[Chunk], rules: SplitRules) -> list[Chunk]:
    """With boundary ids or lumi blocks together, where the task wants that: files that came later,
    or come back, stand behind the ones they belong to. Secondary files may be used again where the
    task says so."""
    ordered = []
    for chunk in chunks:
        master = _sorted(chunk.master, rules)
        if are_whole(rules):
            master = replace(master, ram_counts=of_equal_memory(master))
        beside = tuple(_beside(one, master, rules) for one in chunk.secondaries)
        ordered.append(replace(chunk, master=master, secondaries=beside))
    return ordered


def _beside(one: Secondary, master: Files, rules: SplitRules) -> Secondary:
    """The files of a secondary stream. If boundary ids pair files, only files with the master's
    ids."""
    files, by_boundary = _sorted(one.files, rules), _shares_ids(one, rules)
    if by_boundary:
        files = files.take(np.flatnonzero(np.isin(files.boundaries, master.boundaries)))
    reusable = one.reusable or bool(rules.reuse_sec_on_demand)
    undivided = by_boundary and are_whole(rules)
    return replace(
        one, files=files, by_boundary=by_boundary, undivided=undivided, reusable=reusable
    )


def _shares_ids(one: Secondary, rules: SplitRules) -> bool:
    """Return True if secondary files have boundary ids, which they follow."""
    grouped = rules.group_boundary_id is not None and not one.fixed
    return grouped and bool(one.files.boundaries.any())


def _sorted(files: Files, rules: SplitRules) -> Files:
    if rules.group_boundary_id:
        column = files.boundaries
    elif rules.respect_lb or rules.order_by_lb:
        column = files.lumi_blocks
    else:
        return files
    if (column[1:] >= column[:-1]).all():
        return files
    return files.take(np.argsort(column, kind="stable"))


def of_one_memory(chunks: Sequence[Chunk]) -> tuple[list[Chunk], int]:
    """Only files that need as much memory as the first, and how much that is; 0: the task's figure.
    The others have their turn when these are in jobs."""
    ram = int(chunks[0].master.ram_counts[0])
    alike = []
    for chunk in chunks:
        rows = np.flatnonzero(chunk.master.ram_counts == ram)
        if len(rows) == len(chunk.master):
            alike.append(chunk)
        elif len(rows):
            alike.append(replace(chunk, master=chunk.master.take(rows)))
    return alike, ram
