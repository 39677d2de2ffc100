"""Datasets and output templates of a task, as the rooms hand them to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DatasetType = Literal["input", "pseudo_input", "random_seed", "output", "log"]


@dataclass(frozen=True, slots=True)
class Attributes:
    """How a dataset is split (jedi_datasets.attributes, a comma-separated list).

    ratio: files of a secondary dataset for each master file; nosplit: every job gets the whole
    dataset; repeat: start again from the first file when the dataset is used up; offset: added to
    the numbers of a pseudo dataset. Source: seed, "Dataset attributes"; engine.md §2.6.
    """

    ratio: float = 1.0
    nosplit: bool = False
    repeat: bool = False
    offset: int = 0

    def render(self) -> str:
        """The text that stands in the database."""
        parts = [
            "nosplit" if self.nosplit else "",
            "repeat" if self.repeat else "",
            f"ratio={self.ratio:.12g}" if self.ratio != 1.0 else "",
            f"of={self.offset}" if self.offset else "",
        ]
        return ",".join(filter(None, parts))

    @classmethod
    def parse(cls, text: str | None) -> Attributes:
        """The reverse of render(); ValueError names what it does not know."""
        ratio, nosplit, repeat, offset = 1.0, False, False, 0
        for part in filter(None, (p.strip() for p in (text or "").split(","))):
            match part.split("="):
                case ["nosplit"]:
                    nosplit = True
                case ["repeat"]:
                    repeat = True
                case ["ratio", value] if float(value) > 0:
                    ratio = float(value)
                case ["of", value]:
                    offset = int(value)
                case _:
                    raise ValueError(f"unknown dataset attribute {part!r}")
        return cls(ratio, nosplit, repeat, offset)


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A dataset row to insert. `master` is the position of its master in the task's list."""

    name: str
    type: DatasetType
    stream_name: str
    container: str | None = None
    master: int | None = None
    provenance: int | None = None
    attributes: str | None = None


@dataclass(frozen=True, slots=True)
class OutputTemplate:
    """How the files of an output dataset are named; `dataset` is its position in the list."""

    dataset: int
    file_name_template: str
    stream_name: str
    out_type: Literal["output", "log"]
    source_name: str | None = None
