"""Adding up ROOT files by uproot: histograms and profiles are added, trees follow each other.

Source: docs/reference/ganga.md#mergers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from jedi_client.gpi.report import MergeFailed

_SUMS = frozenset(
    {
        "fEntries",
        "fTsumw",
        "fTsumw2",
        "fTsumwx",
        "fTsumwx2",
        "fTsumwy",
        "fTsumwy2",
        "fTsumwxy",
        "fTsumwz",
        "fTsumwz2",
        "fTsumwxz",
        "fTsumwyz",
    }
)
"""Members of histograms that are sums over entries."""
_ARRAYS = ("fSumw2", "fBinEntries", "fBinSumw2")
_HISTOGRAMS = ("TH1", "TH2", "TH3", "TProfile")
_STEP = "50 MB"


def add_up(files: Sequence[Path], to: Path) -> None:
    """Write one ROOT file with the objects of all. MergeFailed: objects do not fit together."""
    sums: dict[str, Any] = {}
    trees: dict[str, Any] = {}
    with uproot.recreate(to) as target:
        for path in files:
            try:
                with uproot.open(path) as source:
                    for name, class_name in _objects(source):
                        if class_name.startswith(_HISTOGRAMS):
                            _add(sums, name, source[name])
                        elif class_name == "TTree":
                            _append(target, trees, name, source[name])
                        elif class_name == "ROOT::RNTuple":
                            _append_tuple(target, trees, name, source[name])
                        else:
                            raise _Unfit(f"{name} is a {class_name}, which has no sum")
            except Exception as error:  # uproot has many
                said = str(error).strip().split("\n")[0]
                remedy = "Take CustomMerger with hadd, or leave this object out"
                raise MergeFailed(f"{path}: {said}. {remedy}") from error
        for name, histogram in sums.items():
            target[name] = histogram


class _Unfit(Exception):
    """The reason why an object can't be added."""


def _objects(source: Any) -> Iterator[tuple[str, str]]:
    """Names and classes of the objects of a file, each in its last cycle."""
    for name, class_name in source.classnames(recursive=True, cycle=False).items():
        if not class_name.startswith("TDirectory"):
            yield name, class_name


def _add(sums: dict[str, Any], name: str, histogram: Any) -> None:
    if name not in sums:
        sums[name] = histogram
        return
    total = sums[name]
    same = total.classname == histogram.classname and len(total.axes) == len(histogram.axes)
    if not same or not all(
        np.array_equal(mine.edges(flow=True), other.edges(flow=True))
        for mine, other in zip(total.axes, histogram.axes, strict=True)
    ):
        raise _Unfit(f"histogram {name} has other axes than before")
    _weighted(total, histogram)
    for mine, other in zip(_parts(total), _parts(histogram), strict=True):
        if hasattr(mine, "_data"):
            mine._data = _sum(mine._data, other._data)
        for key, value in mine.members.items():
            if key in _SUMS:
                mine.members[key] = value + other.members[key]
            elif key in _ARRAYS:
                value._data = _sum(value._data, other.members[key]._data)


def _sum(one: Any, other: Any) -> Any:
    """The sum in the byte order of the file, which is written as it lies in memory."""
    return (one + other).astype(one.dtype)


def _weighted(one: Any, other: Any) -> None:
    """Give both the sums of squared weights if one has them: without weights, the contents."""
    for mine, theirs in ((one, other), (other, one)):
        squares = mine.member("fSumw2")
        if not len(squares._data) and len(theirs.member("fSumw2")._data):
            contents = next(part._data for part in _parts(mine) if hasattr(part, "_data"))
            squares._data = np.array(contents, squares._data.dtype)
            squares.members["fN"] = len(contents)


def _parts(model: Any) -> Iterator[Any]:
    """The object and its bases."""
    yield model
    for base in model.bases:
        yield from _parts(base)


def _append(target: Any, trees: dict[str, Any], name: str, tree: Any) -> None:
    """Append the entries of a tree. uproot makes the branches with lengths of arrays by itself."""
    lengths = {branch.count_branch.name for branch in tree.branches if branch.count_branch}
    branches = [branch.name for branch in tree.branches if branch.name not in lengths]
    if name not in trees:
        types = {one: tree[one].array(entry_stop=1).type.content for one in branches}
        trees[name] = (branches, target.mktree(name, types, title=tree.title))
    written = _same(trees, name, branches)
    for chunk in tree.iterate(branches, step_size=_STEP):
        written.extend({one: chunk[one] for one in branches})


def _append_tuple(target: Any, trees: dict[str, Any], name: str, entries: Any) -> None:
    """Append the entries of an RNTuple, the successor of trees."""
    fields = list(entries.keys())
    if name not in trees:
        trees[name] = (fields, target.mkrntuple(name, entries.arrays(entry_stop=0)))
    written = _same(trees, name, fields)
    for chunk in entries.iterate(step_size=_STEP):
        written.extend(chunk)


def _same(trees: dict[str, Any], name: str, branches: list[str]) -> Any:
    """The tree to append to, which has the same branches."""
    known, written = trees[name]
    if known != branches:
        raise _Unfit(f"tree {name} has the branches {branches}, before it had {known}")
    return written
