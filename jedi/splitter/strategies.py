"""The split strategies by name.

Source: docs/reference/herds.md; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from jedi.core.errors import JediError
from jedi.spec.splitting.units import Manifest, SplitFile, SplitStrategy, Unit
from jedi.splitter.by_input import ByBoundary, ByEvents, ByFiles, BySize, InputDataBySE
from jedi.splitter.parametric import Parametric

_OURS: Mapping[str, SplitStrategy] = {
    "Parametric": Parametric(),
    "InputDataBySE": InputDataBySE(),
    "ByFiles": ByFiles(),
    "ByEvents": ByEvents(),
    "BySize": BySize(),
    "ByBoundary": ByBoundary(),
}


class SplitterFailed(JediError):
    """A strategy could not divide a herd."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason, code=code)


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(_OURS)


def describe(name: str) -> SplitStrategy:
    """The strategy of this name. SplitterFailed: there is none."""
    if name not in _OURS:
        raise SplitterFailed("splitter_unknown", f"There is no splitter {name}.")
    return _OURS[name]


def plan(name: str, manifest: Manifest, files: Sequence[SplitFile], most: int) -> Sequence[Unit]:
    """The units that a strategy makes, at most one more than `most`. BadInput, SplitterFailed."""
    found: Iterable[Unit] = describe(name).plan(manifest, files)
    return list(islice(found, most + 1))
