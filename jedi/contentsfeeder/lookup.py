"""Listing of input datasets in data management."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from jedi.contentsfeeder.feed import InputDataset, Listed, Listing
from jedi.core.errors import NotFound


class _Stated(Protocol):
    @property
    def state(self) -> str: ...


class ListingCatalogue(Protocol):
    """The methods of data management that listings use."""

    def dataset(self, name: str) -> _Stated: ...
    def list_files(self, name: str) -> Sequence[Listed]: ...


TapeFiles = Callable[[str], Iterable[str]]
"""The files of a dataset that have to be brought to disk."""


def look_up(data: ListingCatalogue, dataset: InputDataset, on_tape: TapeFiles | None) -> Listing:
    """The listing of a dataset, or the files that the task itself names. A dataset that waits for
    its release is not listed. `on_tape` None: jobs may read tapes themselves."""
    if dataset.type != "input":
        return Listing(dataset, "closed", dataset.pseudo_files)
    name = dataset.name
    try:
        state = data.dataset(name).state
        if dataset.waits:
            return Listing(dataset, state)
        taped = None if on_tape is None else frozenset(on_tape(name))
        return Listing(dataset, state, data.list_files(name), taped)
    except NotFound:
        return Listing(dataset, None)
