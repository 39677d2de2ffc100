"""Listing of input datasets in data management."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from jedi.contentsfeeder.feed import InputDataset, Listed, Listing
from jedi.core import names
from jedi.core.errors import NotFound


class _Growing(Protocol):
    @property
    def state(self) -> str: ...


class _Part(Protocol):
    @property
    def files(self) -> Sequence[Listed]: ...
    @property
    def more(self) -> bool: ...
    @property
    def total(self) -> int | None: ...


class ListingCatalogue(Protocol):
    """The methods of data management that listings use."""

    def growth(self, name: str) -> _Growing: ...
    def list_files(self, name: str) -> Sequence[Listed]: ...
    def left_out(self, name: str) -> Mapping[str, str]: ...


ListPart = Callable[[str, str | None], _Part]
"""Some files of a dataset, the first ones or the ones behind a file."""
TapeFiles = Callable[[str], Iterable[str]]
"""The files of a dataset that have to be brought to disk."""


def look_up(
    data: ListingCatalogue,
    dataset: InputDataset,
    on_tape: TapeFiles | None,
    list_part: ListPart | None = None,
) -> Listing:
    """The listing of a dataset, or the files that the task itself names. A dataset that waits for
    its release is not listed. `on_tape` None: jobs may read tapes themselves. `list_part`: a closed
    dataset is listed part by part.

    A dataset that was opened or closed during its listing counts as open: files may have come after
    the listing had passed their place. If the last part shows that some came or went between two
    looks, the whole dataset is listed."""
    if dataset.type != "input":
        return Listing(dataset, "closed", dataset.pseudo_files)
    name = dataset.name
    try:
        before = data.growth(name)
        if dataset.waits:
            return Listing(dataset, before.state)
        begun = bool(dataset.fed_upto or not dataset.n_files)
        if list_part and begun and before.state == "closed":
            part = list_part(name, dataset.fed_upto)
            fed = dataset.n_files + len(part.files)
            odd = None if dataset.fed_upto else data.left_out(name)
            if data.growth(name) == before and (part.more or part.total in (None, fed)):
                return _listing(
                    dataset,
                    "closed",
                    part.files,
                    odd,
                    is_part=True,
                    more=part.more,
                    total=part.total if part.more else None,
                )
            if not dataset.fed_upto and not part.more:
                return _listing(dataset, "open", part.files, odd)
        taped = None if on_tape is None else frozenset(on_tape(name))
        files = data.list_files(name)
        state = before.state if data.growth(name) == before else "open"
        return _listing(dataset, state, files, data.left_out(name), on_tape=taped)
    except NotFound:
        return Listing(dataset, None)


def _listing(
    dataset: InputDataset,
    state: str,
    files: Sequence[Listed],
    odd: Mapping[str, str] | None,
    **more: Any,
) -> Listing:
    """A listing; entries with names that no file may have are left out, too."""
    bad = {file.lfn: "bad_file_name" for file in files if not names.is_lfn(file.lfn)}
    if bad:
        files, odd = [file for file in files if file.lfn not in bad], {**(odd or {}), **bad}
    return Listing(dataset, state, files, left_out=odd, **more)
