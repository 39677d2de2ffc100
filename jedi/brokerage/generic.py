"""The broker for any use case: an ordered tuple of filters, a weight, five sites.

`GenericBroker` is the plug-in of the room (entry point `jedi.broker`): another use case subclasses
it with filters and a weight of its own. Source: brokerage.md §4 end, "Generic plugin".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from jedi.brokerage.choose import Lottery, candidates
from jedi.brokerage.filters import Filter
from jedi.brokerage.filters.cores import FEW_CORES, MANY_CORES
from jedi.brokerage.filters.disk import ENDPOINT, SCRATCH, STORAGE
from jedi.brokerage.filters.memory import LITTLE_MEMORY, MUCH_MEMORY
from jedi.brokerage.filters.pilots import PILOTS
from jedi.brokerage.filters.status import STATUS
from jedi.brokerage.filters.walltime import LITTLE_TIME, MUCH_TIME
from jedi.brokerage.need import Need
from jedi.brokerage.verdict import Verdict, judge
from jedi.spec.snapshot import Numbers, Snapshot


@dataclass(frozen=True, eq=False)
class Choice:
    """What a broker found: the candidates (positions in `sites`), best first, with weights."""

    sites: Snapshot
    verdict: Verdict
    candidates: tuple[int, ...]
    weights: tuple[float, ...]
    seed: int

    def lottery(self) -> Lottery:
        """Draws positions in `candidates`."""
        waiting = self.sites.activated + self.sites.defined
        return Lottery(self.weights, [waiting[i] for i in self.candidates], self.seed)


class GenericBroker:
    """Status, cores, scratch, storage, walltime, memory and pilots."""

    name: ClassVar[str] = "generic"
    filters: ClassVar[tuple[Filter, ...]] = (
        *STATUS, FEW_CORES, MANY_CORES, SCRATCH, ENDPOINT, STORAGE, LITTLE_TIME, MUCH_TIME,
        LITTLE_MEMORY, MUCH_MEMORY, PILOTS,
    )  # fmt: skip

    def weight(self, sites: Snapshot) -> Numbers:
        """Busy sites that digest their queues weigh more."""
        queued = sites.activated + sites.defined + 1
        return (sites.running + 1) / queued / (sites.defined + 1)

    def choose(
        self,
        world: Snapshot,
        need: Need,
        knobs: Mapping[str, Any],
        used: Collection[str],
        seed: int,
    ) -> Choice:
        """The sites for a task. `used` are those it has jobs at."""
        sites = world.only(need.sites) if need.sites else world
        verdict = judge(self.filters, sites, need, knobs)
        weights = self.weight(sites)
        found = candidates(sites.sites, verdict.passed, weights, used, knobs["broker.max_sites"])
        return Choice(sites, verdict, tuple(found), tuple(float(weights[i]) for i in found), seed)
