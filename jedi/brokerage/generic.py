"""The broker for any use case: an ordered tuple of filters, a weight, five sites.

A broker is the plug-in of the room (entry point `jedi.broker`): another use case subclasses
`GenericBroker` with filters and weights of its own. Source: docs/reference/brokerage.md#generic.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from jedi.brokerage import nucleus
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.filters import Filter
from jedi.brokerage.filters.cores import FEW_CORES, MANY_CORES
from jedi.brokerage.filters.disk import ENDPOINT, SCRATCH, STORAGE
from jedi.brokerage.filters.eligibility import EXCLUDED, NOT_INCLUDED, PROCESSING
from jedi.brokerage.filters.memory import LITTLE_MEMORY, MUCH_MEMORY
from jedi.brokerage.filters.merging import MERGES
from jedi.brokerage.filters.pilots import PILOTS
from jedi.brokerage.filters.special import JUMBO_ONLY
from jedi.brokerage.filters.status import STANDBY, STATUS
from jedi.brokerage.filters.walltime import LITTLE_TIME, MUCH_TIME
from jedi.brokerage.lottery import candidates
from jedi.brokerage.nucleus import NucleusBroker
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.brokerage.weights import product
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


class GenericBroker:
    """Status, cores, scratch, storage, walltime, memory, pilots, lists of sites."""

    name: ClassVar[str] = "generic"
    filters: ClassVar[tuple[Filter, ...]] = (
        *STATUS,
        STANDBY,
        FEW_CORES,
        MANY_CORES,
        SCRATCH,
        ENDPOINT,
        STORAGE,
        LITTLE_TIME,
        MUCH_TIME,
        LITTLE_MEMORY,
        MUCH_MEMORY,
        JUMBO_ONLY,
        PILOTS,
        PROCESSING,
        NOT_INCLUDED,
        EXCLUDED,
        *MERGES,
    )
    wants_data: ClassVar[bool] = False
    """True if the broker needs the places of the input."""
    wants_past: ClassVar[bool] = False
    """True if the broker needs the recent ends of the task's jobs."""
    by_dataset: ClassVar[bool] = False
    """Each dataset of the input is brokered by itself. `need.sites` or all are then the sites of
    every choice, in their order."""
    nucleus: ClassVar[NucleusBroker] = nucleus.MOST_SPACE
    """The rule that chooses the nucleus of tasks that want one."""

    def factors(self, sites: Snapshot, need: Requirements, knobs: Knobs) -> dict[str, Numbers]:
        """Busy sites that digest their queues weigh more."""
        queued = sites.activated + sites.defined + 1
        return {"queue": (sites.running + 1) / queued, "defined": 1 / (sites.defined + 1)}

    def choose(
        self,
        snapshot: Snapshot,
        need: Requirements,
        knobs: Knobs,
        used: Collection[str],
        seed: int,
    ) -> SiteChoice:
        """The sites for a task. It has jobs at the `used` ones."""
        sites = snapshot.only(need.sites) if need.sites else snapshot
        verdict = judge(self.filters, sites, need, knobs)
        factors = self.factors(sites, need, knobs)
        weights = product(factors)
        ranked = candidates(sites.sites, verdict.passed, weights, used, knobs.broker.max_sites)
        waiting = sites.activated + sites.defined
        return SiteChoice.of(verdict, ranked, sites, factors, weights, waiting, seed)
