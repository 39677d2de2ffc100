"""The broker of production jobs.
Source: JEDI document, "Job brokerage explained"; docs/reference/brokerage.md."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np

from jedi.brokerage import load, weights
from jedi.brokerage.capability import CAPABLE
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.filters import Filter
from jedi.brokerage.filters.disk import STORAGE
from jedi.brokerage.filters.input import DISK_IO, LOCAL_ONLY, MANY_TO_MOVE, MUCH_TO_MOVE
from jedi.brokerage.filters.links import LINK_BUSY, LINK_CLOSED, LINK_OFF, NUCLEUS_BUSY, SLOW_LINK
from jedi.brokerage.filters.merging import MERGES
from jedi.brokerage.filters.pilots import PILOTS_EXPECTED
from jedi.brokerage.filters.queues import (
    MUCH_TRANSFERRING,
    QUEUE_CAP,
    WAITING_CAP,
    waiting_at,
)
from jedi.brokerage.filters.storage_status import STORAGE_STATUS
from jedi.brokerage.filters.urgency import INACTIVE, NOT_T1, OUTSIDE_NUCLEUS
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.lottery import candidates
from jedi.brokerage.nucleus import NucleusBroker
from jedi.brokerage.nucleus_filters import BY_WEIGHT
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import FilterResults, judge
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot

CAPS = (QUEUE_CAP, WAITING_CAP)
VOIDABLE = (MUCH_TO_MOVE, MANY_TO_MOVE)
TEMPORARY = (
    LINK_OFF,
    LINK_BUSY,
    NUCLEUS_BUSY,
    INACTIVE,
    DISK_IO,
    STORAGE,
    *STORAGE_STATUS,
    MUCH_TRANSFERRING,
    PILOTS_EXPECTED,
)
"""Temporary reasons: they count after the check of I/O.
Source: docs/reference/brokerage.md#io-intensive-input."""
AFTER_IO = (*TEMPORARY, LOCAL_ONLY, SLOW_LINK, *CAPS, *MERGES)


class ProductionBroker(GenericBroker):
    """All criteria for all sites; the best ten that pass, by weight."""

    name: ClassVar[str] = "production"
    filters: ClassVar[tuple[Filter, ...]] = (
        *CAPABLE,
        LINK_OFF,
        LINK_CLOSED,
        LINK_BUSY,
        NUCLEUS_BUSY,
        NOT_T1,
        OUTSIDE_NUCLEUS,
        MUCH_TO_MOVE,
        MANY_TO_MOVE,
        LOCAL_ONLY,
        SLOW_LINK,
        *CAPS,
        *MERGES,
    )
    wants_data: ClassVar[bool] = True
    nucleus: ClassVar[NucleusBroker] = BY_WEIGHT

    def factors(self, sites: Snapshot, need: Requirements, knobs: Knobs) -> dict[str, Numbers]:
        """Queue, data, T1 weight and network."""
        return weights.production(sites, need, knobs)

    def choose(
        self,
        snapshot: Snapshot,
        need: Requirements,
        knobs: Knobs,
        used: Collection[str],
        seed: int,
    ) -> SiteChoice:
        """The sites for a task; where all that fit have jobs enough, the best few of them if the
        preset says so."""
        sites = snapshot.only(need.sites) if need.sites else snapshot
        verdict = judge(self.filters, sites, need, knobs)
        if knobs.broker.void_if_nobody:
            verdict = _without_void(verdict)
        factors = self.factors(sites, need, knobs)
        worth = weights.product(factors)
        passed, most = verdict.passed, knobs.broker.best_sites
        if not passed.any():
            passed, most = verdict.passed_but(CAPS), knobs.broker.best_when_capped
        if need.request.t1_weight < 0 and knobs.broker.one_queue_at_t1:
            passed = _busiest(passed, load.running(sites, need, knobs))
        found = candidates(sites.sites, passed, worth, (), most)
        queued = waiting_at(sites, need, knobs)
        return SiteChoice.of(verdict, found, sites, factors, worth, queued, seed)


def _without_void(verdict: FilterResults) -> FilterResults:
    """The same; if no site that comes as far passes the check of I/O, it does not count. A site
    that passes may be taken away later. Source: docs/reference/brokerage.md#io-intensive-input."""
    come = verdict.passed_but((*VOIDABLE, *AFTER_IO))
    passing = verdict.passed_but(AFTER_IO)
    return verdict.without(VOIDABLE) if come.any() and not passing.any() else verdict


def _busiest(passed: Bools, running: Numbers) -> Bools:
    """Only the one with the most running jobs."""
    best = np.argmax(np.where(passed, running, -1.0)) if len(passed) else 0
    return np.asarray(passed & (np.arange(len(passed)) == best))
