"""Datasets and output templates of a task, as the rooms hand them to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

FileKey = tuple[str, str]
"""A file: its dataset and its LFN."""

DatasetType = Literal[
    "input",
    "pseudo_input",
    "random_seed",
    "output",
    "log",
    "trn_output",
    "trn_log",
    "tmpl_output",
    "tmpl_log",
    "pp_input",
    "pp_log",
    "lib",
]


@dataclass(frozen=True, slots=True)
class Attributes:
    """Rules for the split of a dataset (jedi_datasets.attributes, a comma-separated list).

    For secondaries: `ratio` files for each master file, or `event_ratio` events for each master
    event, or `per_job` files whatever the master has; nosplit: every job gets the whole dataset;
    repeat: start again from the first file when the dataset is used up; reusable: start again when
    the rest does not suffice for the next job. For any: offset: files left out (of a pseudo
    dataset: added to its numbers), then at most `records` files; random: in random order; check:
    only files that the parent recorded as finished; index_consistent: files at the places of the
    master's files. For outputs: no_output: a job may lack it; transient: kept for a while. Hints:
    duplicates, many_time, cvmfs, object_store, merge_only, no_staging, pseudo. Source: JEDI
    document, "Dataset attributes"; docs/reference/splitting.md#secondary-files.
    """

    ratio: float = 1.0
    nosplit: bool = False
    repeat: bool = False
    offset: int = 0
    event_ratio: float | None = None
    per_job: int | None = None
    reusable: bool = False
    records: int | None = None
    random: bool = False
    check: bool = False
    index_consistent: bool = False
    no_output: bool = False
    transient: bool = False
    duplicates: bool = False
    many_time: bool = False
    cvmfs: bool = False
    object_store: bool = False
    merge_only: bool = False
    no_staging: bool = False
    pseudo: bool = False

    def render(self) -> str:
        """The text that stands in the database."""
        words = []
        for name, word in _WORDS.items():
            value = getattr(self, name)
            if value != getattr(_NOTHING, name):
                words.append(word if value is True else f"{word}={value:.12g}")
        return ",".join(words)

    @classmethod
    def parse(cls, text: str | None) -> Attributes:
        """The reverse of render(); ValueError names unknown words."""
        names = {word: name for name, word in _WORDS.items()}
        values: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in (text or "").split(","))):
            word, _, value = part.partition("=")
            name = names.get(_LONG.get(word, word), "")
            values[name] = _READ.get(name, _flag)(value) if name else None
            if values[name] is None:
                raise ValueError(f"unknown dataset attribute {part!r}")
        return cls(**values)

    @property
    def follows(self) -> list[str]:
        """The given attributes that make sense only for a secondary dataset."""
        rest = replace(_NOTHING, **{name: getattr(self, name) for name in _FOLLOWING})
        return rest.render().split(",") if rest != _NOTHING else []


_NOTHING = Attributes()
_FOLLOWING = (
    "ratio",
    "nosplit",
    "repeat",
    "event_ratio",
    "per_job",
    "reusable",
    "index_consistent",
)


def _flag(text: str) -> bool | None:
    return None if text else True


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


def _offset(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _ratio(text: str) -> float | None:
    ratio = float(text)
    return ratio if 0 < ratio <= 1e9 else None


_WORDS = {
    "nosplit": "nosplit",
    "repeat": "repeat",
    "ratio": "ratio",
    "offset": "of",
    "event_ratio": "er",
    "per_job": "np",
    "reusable": "ru",
    "records": "nr",
    "random": "rd",
    "check": "cc",
    "index_consistent": "ic",
    "no_output": "an",
    "transient": "tr",
    "duplicates": "ud",
    "many_time": "manytime",
    "cvmfs": "cvmfs",
    "object_store": "os",
    "merge_only": "mo",
    "no_staging": "ns",
    "pseudo": "ps",
}
_LONG = {
    "eventRatio": "er",
    "nFilesPerJob": "np",
    "reusable": "ru",
    "num_records": "nr",
    "random": "rd",
    "offset": "of",
    "check": "cc",
    "indexConsistent": "ic",
    "allowNoOutput": "an",
    "transient": "tr",
    "usedup": "ud",
    "mergeOnly": "mo",
    "pseudo": "ps",
}
_READ: dict[str, Callable[[str], Any]] = {
    "ratio": _ratio,
    "offset": _offset,
    "event_ratio": _ratio,
    "per_job": _count,
    "records": _count,
}


@dataclass(frozen=True, slots=True)
class NewDataset:
    """A dataset row to insert. `master` is the position of its master in the task's list;
    `destination` the endpoint where its files go, `token` a label of storage."""

    name: str
    type: DatasetType
    stream_name: str
    container: str | None = None
    master: int | None = None
    provenance: int | None = None
    attributes: str | None = None
    token: str | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class OutputTemplate:
    """The names of files of an output dataset, with serial numbers up to `max_serial_nr`;
    `dataset` is its position in the list."""

    dataset: int
    file_name_template: str
    stream_name: str
    out_type: Literal["output", "log"]
    source_name: str | None = None
    max_serial_nr: int | None = None
