"""Builders that several tests share with tests of nucleus."""

from __future__ import annotations

from jedi.brokerage import task
from jedi.brokerage.choice import Choice
from jedi.brokerage.need import Need
from jedi.core.knobs import Knobs
from jedi.spec.demand import GB
from jedi.spec.request import Data, Held
from jedi.spec.snapshot import Snapshot
from support.production import CLASSIC


def choose(at: Snapshot, asked: Need, knobs: Knobs = CLASSIC, seed: int = 1) -> Choice:
    return task.by_weight(at, asked, knobs, seed)


def held(size: float, n: int, disk: bool = True) -> Held:
    return Held(size * disk, n * disk, size, n)


def large_input(**at: Held) -> Data:
    """100 GB in 1000 files."""
    return Data(100 * GB, 1000, True, at)
