"""Selection of files of a dataset: some by name, some by number, in the order it wants.

Source: docs/reference/inputs.md#selected-files; docs/reference/splitting.md#secondary-files.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol, TypeVar

from jedi.model.datasets.dataset import Attributes


class NamedFile(Protocol):
    """Anything with a file name."""

    @property
    def lfn(self) -> str: ...


File = TypeVar("File", bound=NamedFile)


@dataclass(frozen=True, slots=True)
class Selection:
    """The files that an input item selects of its dataset: by name, None: all. Patterns are the
    shell's, for whole names. `seed` makes the random order the same each time."""

    files: frozenset[str] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=Attributes)
    seed: int = 0

    @classmethod
    def of(
        cls, item: Mapping[str, Any], attributes: Attributes, seed: int, names: Collection[str]
    ) -> Selection:
        """From an item of jobParameters, the dataset's own attributes, and its names: its own and
        that of its container."""
        return cls(
            files=_named(item.get("files") or (), names),
            include=_patterns(item.get("include")),
            exclude=_patterns(item.get("exclude")),
            attributes=attributes,
            seed=seed,
        )

    def absent(self, files: Sequence[NamedFile]) -> list[str]:
        """Files asked for by name that are not there."""
        return sorted(self.files - {file.lfn for file in files}) if self.files else []

    def pick(self, files: Sequence[File]) -> Sequence[File]:
        """The files with the right names, a part of them, and their order."""
        if self.files is not None or self.include or self.exclude:
            files = [file for file in files if self._wants(file.lfn)]
        attributes = self.attributes
        if attributes.offset or attributes.records is not None:
            files = files[attributes.offset :][: attributes.records]
        if attributes.random:
            files = random.Random(self.seed).sample(files, len(files))
        return files

    def _wants(self, lfn: str) -> bool:
        return (
            (self.files is None or lfn in self.files)
            and (not self.include or any(fnmatchcase(lfn, one) for one in self.include))
            and not any(fnmatchcase(lfn, one) for one in self.exclude)
        )


def _named(files: Iterable[str], names: Collection[str]) -> frozenset[str] | None:
    """The files that an item names of a dataset: with its name before them, or with none; None: it
    names only files of others, or nothing."""
    parted = [file.rpartition("/") for file in files]
    return frozenset(lfn for name, _, lfn in parted if not name or name in names) or None


def _patterns(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (text or "").split(","))))
