"""The files that each job reads, and their places."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jedi.core.errors import JediError
from jedi.jobgenerator.job_params import list_names
from jedi.jobgenerator.plan import Cut
from jedi.model.arrays import Bools, Ints
from jedi.model.datasets.chunk import Files, Secondary
from jedi.model.sites.snapshot import Snapshot

Where = Mapping[str, Mapping[str, Bools]]
"""By stream of a chunk and endpoint: which files lie there. A stream of pseudo files is absent."""


@dataclass(frozen=True, eq=False)
class StreamUse:
    """The use of one stream by the jobs of a cut, a row for each job and file: positions of the
    job (among all jobs) and of the file (in `files`), of the endpoint where it is read (counted
    from 1; 0: no real file), and whether it lies there already.

    `first` and `last` say the same by job: the files from first[k] to before last[k].
    """

    stream: str
    files: Files
    master: bool
    tracked: bool
    first: Ints
    last: Ints
    jobs: Ints
    rows: Ints
    places: NDArray[np.int16]
    local: Bools

    def names(self, form: str) -> list[str]:
        """The file names of each job as a placeholder shows them."""
        lfns = self.files.lfns
        if len(self.rows) and self.last[-1] > len(lfns):  # repeated
            lfns = lfns * (int(self.last[-1]) // len(lfns) + 1)
        spans = zip(self.first.tolist(), self.last.tolist(), strict=True)
        return [list_names(lfns[a:b], form) for a, b in spans]


class InputNames:
    """The names of the files that jobs read."""

    def __init__(self, reads: Sequence[StreamUse]) -> None:
        self._reads = reads

    @cached_property
    def all(self) -> frozenset[str]:
        """The names of all files that some job reads."""
        return frozenset(r.files.lfns[i] for r in self._reads for i in np.unique(r.rows).tolist())

    def of(self, job: int, name: str) -> bool:
        """Return True if a job reads a file of this name."""
        return name in self.all and (job, name) in self._pairs

    @cached_property
    def _pairs(self) -> frozenset[tuple[int, str]]:
        return frozenset(
            (job, read.files.lfns[row])
            for read in self._reads
            for job, row in zip(read.jobs.tolist(), read.rows.tolist(), strict=True)
        )


def readings(
    cuts: Sequence[Cut], where: Sequence[Where], sites: Snapshot
) -> tuple[list[StreamUse], list[str]]:
    """Every stream of every cut, and the endpoints that `places` count."""
    used = {int(s) for cut in cuts for s in np.unique(cut.sites)}
    endpoints = sorted({e for s in used for e in (*sites.endpoints[s], sites.endpoint[s])})
    found = []
    job = 0
    for cut, there in zip(cuts, where, strict=True):
        master = Secondary(cut.chunk.stream, cut.chunk.master)
        for one, (first, last) in zip(
            (master, *cut.chunk.secondaries), ((cut.starts, cut.stops), *cut.follow), strict=True
        ):
            of_cut, rows = _spread(first, last)
            rows = rows % max(1, len(one.files))
            at = cut.sites[of_cut]
            places, local = _places(there.get(one.stream), rows, at, sites, endpoints)
            found.append(
                StreamUse(
                    one.stream,
                    one.files,
                    one is master,
                    one.tracked,
                    first,
                    last,
                    job + of_cut,
                    rows,
                    places,
                    local,
                )
            )
        job += len(cut)
    return found, endpoints


def must_differ(
    reads: Sequence[StreamUse], datasets: Mapping[int, str], named_paths: Collection[str]
) -> None:
    """JediError if a job would read two files of one name, which it finds in one directory.
    `datasets`: their names by id; `named_paths`: paths of master files that the task names."""
    if all(read.master for read in reads):
        return  # jobs do not mix datasets of masters
    real = [read for read in reads if read.places.any() or (read.master and named_paths)]
    homes: dict[str, set[str]] = {}
    for files in {id(read.files): read.files for read in real}.values():
        for lfn, dataset_id in zip(files.lfns, files.dataset_ids.tolist(), strict=True):
            homes.setdefault(lfn, set()).add(datasets[dataset_id])
    alike = {lfn for lfn, some in homes.items() if len(some) > 1}
    found: dict[tuple[int, str], str] = {}
    for read in real if alike else ():
        for job, row in zip(read.jobs.tolist(), read.rows.tolist(), strict=True):
            if (lfn := read.files.lfns[row]) in alike:
                other = datasets[int(read.files.dataset_ids[row])]
                if (one := found.setdefault((job, lfn), other)) != other:
                    raise JediError(
                        f"One job would read two files called {lfn}, of {one} and of {other}. "
                        "Rename one, and submit the task anew.",
                        code="inputs_alike",
                        lfn=lfn,
                    )


def _spread(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Spans of each job written out: the job and the number, row by row."""
    counts = last - first
    jobs = np.repeat(np.arange(len(counts)), counts)
    begin = np.cumsum(counts) - counts
    return jobs, np.arange(len(jobs)) - begin[jobs] + first[jobs]


def _places(
    where: Mapping[str, Bools] | None,
    rows: Ints,
    at: Ints,
    sites: Snapshot,
    endpoints: Sequence[str],
) -> tuple[NDArray[np.int16], Bools]:
    """Return the endpoint from which jobs read each file, and whether it has the file: at the first
    of the site's endpoints that has it, else at the one the site writes to, where it must be
    brought."""
    places = np.zeros(len(rows), np.int16)
    if where is None:
        return places, np.ones(len(rows), bool)
    local = np.zeros(len(rows), bool)
    for site in np.unique(at):
        here = np.flatnonzero(at == site)
        places[here] = 1 + endpoints.index(sites.endpoint[site])
        for endpoint in reversed(sites.endpoints[site]):
            if endpoint in where:
                held = here[where[endpoint][rows[here]]]
                places[held] = 1 + endpoints.index(endpoint)
                local[held] = True
    return places, local
