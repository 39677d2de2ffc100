"""Ranges of events that consumers get while they run, and the job sets that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jedi.model.arrays import Ints
from jedi.model.splitting.split_rules import EventMode

_MOST = 2**63 - 1

WAITING_CO_JUMBO = "WAITING_CO_JUMBO"
"""The site of placeholders: co-jumbo jobs that no site can take now.

Source: JEDI document, "Jumbo jobs and co-jumbo jobs".
"""


class RangeId(NamedTuple):
    """The key of a range: task, owner (its job set until a consumer gets it), file, number of its
    first event, attempts left. Written `task-panda-file-process-attempt`.

    Source: docs/reference/event-service.md#range-ids.
    """

    jedi_task_id: int
    panda_id: int
    file_id: int
    process_id: int
    attempt_nr: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> RangeId:
        """The key in a text; ValueError if it is none."""
        parts = text.split("-")
        plain = [part for part in parts if part.isascii() and part.isdigit() and len(part) < 20]
        numbers = [*map(int, plain)]
        if len(parts) != len(cls._fields) or len(plain) != len(parts) or max(numbers) > _MOST:
            raise ValueError(
                f"{text[:100]!r} is no id of a range: it has five numbers, "
                "task-job-file-process-attempt"
            )
        return cls(*numbers)


class RangeBlock(NamedTuple):
    """New ranges, column by column: job set, contents row, dataset, the numbers of the first and
    the last event, and the difference between a number and the place in the file, which is counted
    from 1."""

    jobset_ids: Ints
    file_ids: Ints
    dataset_ids: Ints
    first: Ints
    last: Ints
    shifts: Ints


@dataclass(frozen=True, eq=False)
class NewRanges:
    """Inputs of job sets to be cut into ranges of `size` events; None: each is one range. By row:
    the job set, the contents row with its dataset, first and last event (counted from 0 in the
    file), and the number that is added to the place of an event in its file (counted from 1).
    `attempts`: each range has so many.

    Source: docs/reference/event-service.md#ranges.
    """

    jobset_ids: Ints
    file_ids: Ints
    dataset_ids: Ints
    starts: Ints
    ends: Ints
    shifts: Ints
    size: int | None
    attempts: int

    @property
    def counts(self) -> Ints:
        """The number of ranges of each input."""
        events = self.ends - self.starts + 1
        return np.ones_like(events) if self.size is None else -(-events // self.size)

    def per_set(self, jobset_ids: Sequence[int]) -> list[int]:
        """The number of ranges of each job set; their ids ascend."""
        sums = np.zeros(len(jobset_ids), np.int64)
        np.add.at(sums, np.searchsorted(jobset_ids, self.jobset_ids), self.counts)
        return sums.tolist()

    def blocks(self, most: int) -> Iterator[RangeBlock]:
        """All ranges in the order of the inputs, at most so many at a time."""
        counts = self.counts
        stops = np.cumsum(counts)
        total = int(stops[-1]) if len(stops) else 0
        size = self.size or 0
        for at in range(0, total, most):
            places = np.arange(at, min(at + most, total))
            rows = np.searchsorted(stops, places, side="right")
            begin = self.starts[rows] + (places - (stops - counts)[rows]) * size
            end = np.minimum(begin + size - 1, self.ends[rows]) if size else self.ends[rows]
            shift = self.shifts[rows]
            first = begin + 1 + shift
            yield RangeBlock(
                jobset_ids=self.jobset_ids[rows],
                file_ids=self.file_ids[rows],
                dataset_ids=self.dataset_ids[rows],
                first=first,
                last=np.maximum(end + 1 + shift, first),
                shifts=shift,
            )


class NewConsumer(NamedTuple):
    """One more consumer of a job set, at a site; None: where the consumer before it was. `local`:
    the inputs lie there. It follows an unsuccessful one (`after`), which uses up a retry of the job
    set, or None; `relation`: in the history of retries; `free_in_row`: consumers before it whose
    ends were nobody's fault. `kind`, `cores` and `memory_mb`: unless they follow from the job
    set."""

    jobset_id: int
    site: str | None = None
    local: bool = False
    after: int | None = None
    kind: str | None = None
    cores: int | None = None
    memory_mb: int | None = None
    relation: str = "retry"
    free_in_row: int = 0


@dataclass(frozen=True, eq=False)
class NewJobSets:
    """Job sets of new jobs, which wait: `retries` consumers may follow the first ones, at `places`
    of the job's site, best first; jumbo jobs may have their ranges, too."""

    mode: EventMode
    clone: str | None
    retries: int
    places: Mapping[str, Sequence[str]]
    jumbo: bool
    ranges: NewRanges
    consumers: Sequence[NewConsumer]
