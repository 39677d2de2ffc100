"""Builders that several tests share with tests of nucleus."""

from __future__ import annotations

from jedi.brokerage import nucleus_filters
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB
from jedi.model.sites.request import InputAvailability, SiteInput
from jedi.model.sites.snapshot import Snapshot
from support.production import CLASSIC


def choose(at: Snapshot, asked: Requirements, knobs: Knobs = CLASSIC, seed: int = 1) -> SiteChoice:
    return nucleus_filters.by_weight(at, asked, knobs, seed)


def held(size: float, n: int, disk: bool = True) -> SiteInput:
    return SiteInput(size * disk, n * disk, size, n)


def large_input(**at: SiteInput) -> InputAvailability:
    """100 GB in 1000 files."""
    return InputAvailability(100 * GB, 1000, True, at)
