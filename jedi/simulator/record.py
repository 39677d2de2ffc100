"""What a simulation leaves behind, before anybody looks at it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from jedi.simulator.scenario import Scenario


@dataclass(slots=True)
class Sample:
    """What shares had and what they were to have, in cores, so many hours after the start."""

    at_h: float
    share: str
    allocation: float
    usage: float


@dataclass(slots=True)
class Record:
    """All that a simulation leaves: rows of jobs and tasks, samples of the shares, what agents had
    trouble with, and what `jedi check` found wrong."""

    scenario: Scenario
    jobs: list[Any] = field(default_factory=list)
    tasks: list[Any] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
