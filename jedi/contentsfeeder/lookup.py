"""What data management says of an input dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from jedi.contentsfeeder.feed import InputDataset, Listing
from jedi.core.errors import NotFound
from jedi.ddm.interface import DatasetInfo, FileInfo


class Catalogue(Protocol):
    """What is asked of data management."""

    def dataset(self, name: str) -> DatasetInfo: ...
    def list_files(self, name: str) -> list[FileInfo]: ...


OnTape = Callable[[str], Iterable[str]]
"""The files of a dataset that have to be brought to disk."""


def look_up(data: Catalogue, dataset: InputDataset, on_tape: OnTape | None) -> Listing:
    """The listing of a dataset; one that waits to be released is not listed. `on_tape` None: jobs
    may read tapes themselves."""
    if dataset.type != "input":
        return Listing(dataset, "closed")
    name = dataset.name
    try:
        state = data.dataset(name).state
        if dataset.waits:
            return Listing(dataset, state)
        taped = None if on_tape is None else frozenset(on_tape(name))
        return Listing(dataset, state, data.list_files(name), taped)
    except NotFound:
        return Listing(dataset, None)
