"""The record of a simulation, before anybody looks at it."""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jedi.simulator.scenario import Scenario
from jedi.taskbuffer.housekeeping.simulation import JobLife, TaskLife


@dataclass(slots=True)
class Sample:
    """The allocation of a share in cores, so many hours after the start. `active`: it had work."""

    at_h: float
    share: str
    allocation: float
    active: bool


class ProcessedEvents(NamedTuple):
    """Events that consumers of a kind of task reported at a site, so many hours after the start."""

    task: str
    site: str
    at_h: float
    n_events: int


class JobLives:
    """Jobs that are kept packed: 50 bytes each, in place of 900 as values."""

    def __init__(self) -> None:
        self._packs: list[bytes] = []
        self._number = 0

    def add(self, jobs: Sequence[JobLife]) -> None:
        """Pack some jobs."""
        self._packs.append(zlib.compress(pickle.dumps(jobs), 1))
        self._number += len(jobs)

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[JobLife]:
        for pack in self._packs:
            yield from pickle.loads(zlib.decompress(pack))  # noqa: S301  (our own)


@dataclass(slots=True)
class Record:
    """All that a simulation leaves: rows of jobs and tasks, samples of the shares, when tasks were
    boosted (by id, in hours after the start), agents' troubles, and rules that `jedi check` found
    broken.

    `left`: when jobs left their slots whose end no pilot reported in time, by id, in hours.
    `kept`: until when the work of a consumer is reported. By the tasks' name: `ranges` that were
    handed out, and how often some were `redone`. `merged`: merged events by task id.
    """

    scenario: Scenario
    jobs: Sequence[JobLife] | JobLives = ()
    tasks: list[TaskLife] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    left: dict[int, float] = field(default_factory=dict)
    kept: dict[int, float] = field(default_factory=dict)
    ranges: Counter[str] = field(default_factory=Counter)
    redone: Counter[str] = field(default_factory=Counter)
    processed: list[ProcessedEvents] = field(default_factory=list)
    merged: dict[int, int] = field(default_factory=dict)
    boosted: dict[int, float] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
