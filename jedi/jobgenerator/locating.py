"""Locations of the input of jobs: by site for the broker, by endpoint and file for the jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from jedi.brokerage import replicas
from jedi.core import states
from jedi.jobgenerator.inputs import Where
from jedi.jobgenerator.plan import Cut
from jedi.model.arrays import Bools
from jedi.model.datasets.chunk import Chunk, Files
from jedi.model.jobs.generation import Input, TaskOrder
from jedi.model.sites.request import InputAvailability
from jedi.model.sites.snapshot import Snapshot

Locate = Callable[[str, Sequence[str]], Mapping[str, Sequence[str]]]
"""The endpoints that hold each of these files of a dataset."""
_LOCATED = ("input", "lib", *states.PRE_MERGE_TYPES)
"""Types of datasets whose files lie somewhere."""


def once(locate: Locate) -> Locate:
    """Data management, asked once for each file: for the broker, and again for the jobs."""
    known: dict[str, dict[str, Sequence[str]]] = {}

    def remembered(name: str, lfns: Sequence[str]) -> Mapping[str, Sequence[str]]:
        places = known.setdefault(name, {})
        if unknown := [lfn for lfn in lfns if lfn not in places]:
            places.update(locate(name, unknown))
        return places

    return remembered


def data_of(
    task: TaskOrder, chunks: Sequence[Chunk], snapshot: Snapshot, locate: Locate
) -> InputAvailability:
    """Return the locations of the files of chunks."""
    names = {one.dataset_id: one for one in task.inputs}
    streams = [(chunk.master, *(one.files for one in chunk.secondaries)) for chunk in chunks]
    real = [one for one in chain.from_iterable(streams) if _is_real(one, names)]
    where = [_located(one, len(one), names, locate) for one in real]
    return replicas.of_files(snapshot, *replicas.join([one.sizes for one in real], where))


def where_of(task: TaskOrder, cut: Cut, locate: Locate) -> Where:
    """Return the locations of the files of a cut."""
    names = {one.dataset_id: one for one in task.inputs}
    streams = {cut.chunk.stream: (cut.chunk.master, cut.stops)}
    for one, (_, last) in zip(cut.chunk.secondaries, cut.follow, strict=True):
        streams[one.stream] = (one.files, last)
    return {
        stream: _located(files, min(len(files), int(last.max())), names, locate)
        for stream, (files, last) in streams.items()
        if _is_real(files, names)
    }


def _is_real(files: Files, names: Mapping[int, Input]) -> bool:
    if not len(files):
        return False
    read = names.get(int(files.dataset_ids[0]))
    return read is not None and read.type in _LOCATED


def _located(files: Files, n: int, names: Mapping[int, Input], locate: Locate) -> dict[str, Bools]:
    """By endpoint, which of the first `n` files are there."""
    places: dict[str, Bools] = {}
    ids = files.dataset_ids[:n]
    for dataset_id in np.unique(ids).tolist():
        rows = np.flatnonzero(ids == dataset_id).tolist()
        lfns = [files.lfns[row] for row in rows]
        located = locate(names[dataset_id].name, lfns)
        for row, lfn in zip(rows, lfns, strict=True):
            for endpoint in located[lfn]:
                places.setdefault(endpoint, np.zeros(n, bool))[row] = True
    return places
