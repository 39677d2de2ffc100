"""Input files on their way to jobs, column by column: a dataset may hold millions."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Files:
    """Files (or event ranges) in the order of their use. Zero stands for unknown: bytes, events,
    the job that had the file before. `events_left`: those of the
    file that come after the range."""

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

    def __len__(self) -> int:
        return len(self.lfns)

    @property
    def counted_events(self) -> Ints:
        """Events for estimates: a file of unknown contents counts as one."""
        return np.maximum(self.events, 1)

    @property
    def breaks(self) -> Ints:
        """Where a job must begin, since events before it are not in the row: a payload is told
        the first event of the first file and how many follow, file by file."""
        inside = (self.start_events[1:] > 0) | (self.events_left[:-1] > 0)
        return np.flatnonzero(inside) + 1

    @classmethod
    def join(cls, parts: list[Files]) -> Files:
        """One after the other."""
        columns = (f.name for f in fields(cls) if f.name != "lfns")
        numbers = {c: np.concatenate([_NONE, *(getattr(p, c) for p in parts)]) for c in columns}
        return cls(lfns=[lfn for part in parts for lfn in part.lfns], **numbers)


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Secondary:
    """A stream that follows the master. `ratio` files go with each master file, rounded up for a
    job; `whole`: every job gets all of them; `repeated`: after the last comes the first again.
    The use of files that several jobs may have is not kept track of."""

    stream: str
    files: Files
    ratio: float = 1.0
    whole: bool = False
    repeated: bool = False

    @property
    def tracked(self) -> bool:
        return not (self.whole or self.repeated)

    def beside(self, masters: Ints) -> Ints:
        """How many files go with so many master files."""
        counts: Ints = np.ceil(masters * self.ratio - 1e-9).astype(np.int64)  # 70 * 0.1 > 7
        return counts


@dataclass(frozen=True, eq=False)
class Chunk:
    """Ready files of one master dataset with what follows it. `more`: the dataset has further
    ready files that were not read."""

    stream: str
    master: Files
    secondaries: tuple[Secondary, ...]
    more: bool
