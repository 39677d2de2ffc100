"""Warnings about valid tasks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Protocol

from jedi.core.errors import JediError, NotFound
from jedi.ddm.interface import DatasetInfo, Replica
from jedi.jobgenerator.naming import padded
from jedi.model.tasks import unsupported
from jedi.model.tasks.params import InputItem, OutputItem, TaskParams
from jedi.model.tasks.placeholders import MIDDLE, SERIAL, TASK_ID, UNIT, split_output

_REDIRECTED = re.compile(r">\s*([^\s<>|&;-][^\s<>|&;]*)\s+$")
"""A word after a redirection, right before the name of an output."""

_NUMBERS = 1000
_DATASETS = 20
"""Number of serial numbers, and of datasets in a container, that the checks try."""


class CautionCatalogue(Protocol):
    """The questions that warnings ask data management."""

    def dataset(self, name: str) -> DatasetInfo: ...
    def constituents(self, name: str) -> list[str]: ...
    def replicas(self, name: str) -> list[Replica]: ...
    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]: ...


def cautions(ddm: CautionCatalogue, params: TaskParams) -> tuple[str, ...]:
    """Warnings, in order, each once."""
    found = [
        *unsupported.kept(params.dump()),
        *_blanks(params),
        *_alike(ddm, params),
        *_too_few(ddm, params),
    ]
    return tuple(dict.fromkeys(found))


def _blanks(params: TaskParams) -> Iterator[str]:
    """Names of outputs that seem to have a blank: the shell writes to the first word."""
    for item in params.items(OutputItem):
        before, name = split_output(item.value)
        if found := _REDIRECTED.search(before):
            yield (
                f"The shell writes to the file {found[1]} in `{item.value.strip()}`, and the "
                f"output is {name}. Names have no blanks: write > {found[1]}.{name} if both "
                "are one name."
            )


@cache
def _serials() -> Sequence[str]:
    """The first serial numbers of a task."""
    return [padded(n) for n in range(1, _NUMBERS + 1)]


@lru_cache(maxsize=16)
def _first_names(template: str) -> Sequence[str]:
    """The first names that a template gives. Programs submit the same one again and again, and the
    names take a tenth of the time of a submission."""
    pieces = template.split(SERIAL)  # `join` takes a third of the time of `replace`
    return [serial.join(pieces) for serial in _serials()]


def _alike(ddm: CautionCatalogue, params: TaskParams) -> Iterator[str]:
    """Outputs that would have the names of inputs."""
    read = [
        plain
        for item in params.items(InputItem)
        for name in item.datasets
        for plain in islice(_plain(ddm, name), _DATASETS)
    ]
    for item in params.items(OutputItem):
        template = split_output(item.value)[1]
        own = any(mark in template for mark in (MIDDLE, TASK_ID, f"${{{UNIT}/"))
        names = [] if own else _first_names(template)
        for dataset in dict.fromkeys(read):
            if there := _there(ddm, dataset, names):
                yield (
                    f"Output {template} can produce names of existing files of {dataset}, such as "
                    f"{there[0]}: a job that reads one gets another serial number."
                )
            if item.source_name and (lost := _there(ddm, dataset, [item.source_name])):
                yield (
                    f"sourceName {lost[0]} is a file of {dataset}, too: JEDI makes no job that "
                    "would overwrite it."
                )


def _too_few(ddm: CautionCatalogue, params: TaskParams) -> Iterator[str]:
    """Datasets that follow the master and never suffice for a job."""
    for item in params.items(InputItem)[1:]:
        split = item.split
        if split.nosplit or split.event_ratio is not None or split.pseudo:
            continue
        wanted = split.per_job or math.ceil(split.ratio * (params.n_files_per_job or 1) - 1e-9)
        left = _count(ddm, item)
        if left is not None and left < wanted:
            yield (
                f"A job needs {wanted} files of {item.dataset}, which has {left}: "
                "the task would wait for more."
            )


def _count(ddm: CautionCatalogue, item: InputItem) -> int | None:
    """The largest number of files of an item; None: more may come."""
    plain = [one for name in item.datasets for one in _plain(ddm, name)]
    if not plain or any(ddm.dataset(one).state == "open" for one in plain):
        return None
    held = sum(max((r.n_files for r in ddm.replicas(one)), default=0) for one in plain)
    split = item.split
    held = min(len(item.files) or held, held) - split.offset
    return max(0, held if split.records is None else min(held, split.records))


def _plain(ddm: CautionCatalogue, name: str) -> list[str]:
    try:
        return ddm.constituents(name)
    except JediError:
        return []  # another task makes it, or a container says nonsense: agents tell


def _there(ddm: CautionCatalogue, dataset: str, names: Sequence[str]) -> list[str]:
    """The names that files of a dataset have."""
    try:
        located = ddm.locate(dataset, names) if names else {}
    except NotFound:
        return []
    return [name for name in names if located.get(name)] if any(located.values()) else []
