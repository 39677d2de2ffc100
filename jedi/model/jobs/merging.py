"""Files that jobs made and merge jobs read, between the database and the generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jedi.model.datasets.chunk import Files
from jedi.model.jobs.generation import TaskOrder

GROWTH = 1.2
"""Bytes of a merged file for each byte that goes into it, at most.
Source: docs/reference/merging.md#size-of-a-merge-job."""
LOGS = "trn_log"
"""The type of the dataset that has a file of every job: master of the others."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The ready files of one pre-merge dataset at a site, of the largest jobs first; in all streams
    of a site the same jobs in the same order. `complete`: no job of the task that makes its files
    is at work there; `left`: sites where no pilot took the last merge job of some."""

    site: str
    dataset_id: int
    name: str
    type: str
    stream: str
    complete: bool
    files: Files
    left: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class MergeOrder:
    """A claimed task with files for merge jobs. `order` is their input; `ram_mb` and `cores` (0:
    any number) as the task asks for them, None: nothing."""

    order: TaskOrder
    streams: tuple[Stream, ...]
    ram_mb: int | None
    cores: int | None

    @property
    def sites(self) -> Mapping[str, list[Stream]]:
        """The streams of each site, the logs first."""
        streams: dict[str, list[Stream]] = {}
        for one in sorted(self.streams, key=lambda s: (s.site, s.type != LOGS, s.dataset_id)):
            streams.setdefault(one.site, []).append(one)
        return streams
