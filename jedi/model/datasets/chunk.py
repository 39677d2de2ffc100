"""Input files on their way to jobs, column by column: a dataset may hold millions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.model.arrays import Ints


@dataclass(frozen=True, eq=False)
class Files:
    """Files (or event ranges) in the order of their use. Zero stands for unknown: bytes, events,
    boundary id, lumi block, needed memory, the job that had the file before. `events_left`: events
    of the file after the range."""

    file_ids: Ints
    dataset_ids: Ints
    lfns: list[str]
    sizes: Ints
    events: Ints
    start_events: Ints
    events_left: Ints
    first_events: Ints
    attempts: Ints
    previous: Ints
    boundaries: Ints
    lumi_blocks: Ints
    ram_counts: Ints

    def __len__(self) -> int:
        return len(self.lfns)

    @property
    def counted_events(self) -> Ints:
        """Events for estimates: a file of unknown contents counts as one."""
        return np.maximum(self.events, 1)

    @property
    def breaks(self) -> Ints:
        """Return the files at which a job must begin, since the row lacks events before them: a
        payload gets the first event of its first file and a number of events in sequence."""
        inside = (self.start_events[1:] > 0) | (self.events_left[:-1] > 0)
        return np.flatnonzero(inside) + 1

    def take(self, rows: Ints) -> Files:
        """The files at these positions."""
        columns = (f.name for f in fields(self) if f.name != "lfns")
        lfns = [self.lfns[row] for row in rows.tolist()]
        return Files(lfns=lfns, **{c: getattr(self, c)[rows] for c in columns})

    @classmethod
    def join(cls, parts: list[Files]) -> Files:
        """One after the other."""
        columns = (f.name for f in fields(cls) if f.name != "lfns")
        numbers = {c: np.concatenate([_NONE, *(getattr(p, c) for p in parts)]) for c in columns}
        return cls(lfns=[lfn for part in parts for lfn in part.lfns], **numbers)


_NONE = np.empty(0, np.int64)


def _mean(values: Ints) -> float:
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True, eq=False)
class Secondary:
    """A stream that follows the master. `ratio` files go with each master file, rounded up for a
    job, or files with `event_ratio` events with each master event, or `per_job` with every job;
    `whole`: every job gets all of them. `repeated`: after the last comes the first again;
    `reusable`: a job for which too few are left begins with the first again. The use of files that
    several jobs may have is not kept track of. `by_boundary`: files with the boundary ids of the
    job's master files go with them, instead, all of them if no other job has files of the id.
    `undivided`: no other job has."""

    stream: str
    files: Files
    ratio: float = 1.0
    whole: bool = False
    repeated: bool = False
    event_ratio: float | None = None
    per_job: int | None = None
    reusable: bool = False
    by_boundary: bool = False
    undivided: bool = False

    @property
    def tracked(self) -> bool:
        return not (self.whole or self.repeated or self.reusable)

    @property
    def wraps(self) -> bool:
        """Return True if files are counted on beyond the last, which the first follows."""
        return self.repeated and self.event_ratio is None

    @property
    def fixed(self) -> int:
        """The number of files that every job has, whatever it has of the master."""
        return len(self.files) if self.whole else self.per_job or 0

    def usual(self, masters: Any, events: Any) -> Any:
        """About how many files go with so many master files and events."""
        if self.whole or self.per_job:
            return self.fixed
        if self.event_ratio is None:
            return masters * self.ratio
        return self.event_ratio * events / max(1.0, _mean(self.files.counted_events))

    @property
    def usual_size(self) -> float:
        """Bytes of a file, on the average."""
        return _mean(self.files.sizes)

    def same_ids(
        self, first: Ints, last: Ints, masters: Ints, events: Ints, *, goes_on: bool
    ) -> tuple[Ints, Ints]:
        """The files with boundary ids from first[k] to last[k], for jobs with so many master files
        and events. Jobs that share an id have its files in turn, as many as they want, the last
        one the rest, unless the id `goes_on` after it. There are too few where no file is left.
        All rows stand in the order of their ids."""
        begin = np.searchsorted(self.files.boundaries, first, side="left")
        end = np.searchsorted(self.files.boundaries, last, side="right")
        if not self.tracked or not len(first):
            return begin, end
        wanted = np.ceil(self.usual(masters, events) - 1e-9).astype(np.int64)
        again = np.concatenate([[False], first[1:] <= last[:-1]])
        following = np.append(again[1:], goes_on)
        start = np.zeros_like(begin)
        stop = np.zeros_like(begin)
        at = 0
        for job, (low, high) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            at = at if again[job] else low
            start[job] = at
            at = min(high, at + int(wanted[job])) if following[job] else high
            stop[job] = at
        return start, stop

    def spans(self, masters: Ints, events: Ints) -> tuple[Ints, Ints]:
        """For jobs with so many master files and events: the files from first[k] to before
        last[k]. There are too few where last[k] is beyond the last file or, if it wraps, where one
        job would have a file twice."""
        if self.whole:
            return np.zeros_like(masters), np.full_like(masters, len(self.files))
        if self.event_ratio is not None:
            return self._by_events(events * self.event_ratio)
        counts = self.n_files_for(masters)
        if not self.reusable:
            last = np.cumsum(counts)
            return last - counts, last
        first, at = np.zeros_like(counts), 0
        for job, count in enumerate(counts.tolist()):
            at = at if at + count <= len(self.files) else 0
            first[job] = at
            at += count
        return first, first + counts

    def _by_events(self, wanted: NDArray[Any]) -> tuple[Ints, Ints]:
        """As many files for each job as have the events it wants."""
        sums = np.concatenate([[0], np.cumsum(self.files.counted_events)])
        first, last = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        at = 0
        for job, events in enumerate(wanted.tolist()):
            end = int(np.searchsorted(sums, sums[at] + events - 1e-9))
            if end == len(sums) and not self.tracked:
                at, end = 0, int(np.searchsorted(sums, events - 1e-9))
            first[job], last[job] = at, end
            at = min(end, len(sums) - 1)
        return first, last

    def n_files_for(self, masters: Ints) -> Ints:
        """The number of files that go with jobs of so many master files."""
        if self.per_job:
            return np.full_like(masters, self.per_job)
        counts: Ints = np.ceil(masters * self.ratio - 1e-9).astype(np.int64)  # 70 * 0.1 > 7
        return counts


@dataclass(frozen=True, eq=False)
class Chunk:
    """Ready files of one master dataset with its secondaries. `more`: the dataset has further ready
    files that were not read."""

    stream: str
    master: Files
    secondaries: tuple[Secondary, ...]
    more: bool
