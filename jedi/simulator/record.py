"""The record of a simulation, before anybody looks at it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from jedi.simulator.scenario import Scenario
from jedi.taskbuffer.housekeeping.simulation import JobLife, TaskLife


@dataclass(slots=True)
class Sample:
    """The allocation of a share in cores, so many hours after the start. `active`: it had work."""

    at_h: float
    share: str
    allocation: float
    active: bool


@dataclass(slots=True)
class Record:
    """All that a simulation leaves: rows of jobs and tasks, samples of the shares, when jobs left
    their slots and tasks were boosted (by id, in hours after the start), what agents had trouble
    with, and what `jedi check` found wrong."""

    scenario: Scenario
    jobs: list[JobLife] = field(default_factory=list)
    tasks: list[TaskLife] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    left: dict[int, float] = field(default_factory=dict)
    boosted: dict[int, float] = field(default_factory=dict)
    troubles: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
