"""Result of a broker, independent of its criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jedi.brokerage.lottery import Lottery
from jedi.brokerage.verdict import FilterResults
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class SiteChoice:
    """The candidates (positions in `sites`), best first, with weights; `factors` of all sites make
    the weights; `queued` jobs wait at each site before the lottery begins."""

    sites: Snapshot
    verdict: FilterResults
    candidates: tuple[int, ...]
    weights: tuple[float, ...]
    factors: Mapping[str, Numbers]
    queued: Numbers
    seed: int

    @classmethod
    def of(
        cls,
        verdict: FilterResults,
        candidates: list[int],
        sites: Snapshot,
        factors: Mapping[str, Numbers],
        weights: Numbers,
        queued: Numbers,
        seed: int,
    ) -> SiteChoice:
        """With the weights of the candidates picked out of all weights."""
        picked = tuple(weights[candidates].tolist()) if candidates else ()
        return cls(sites, verdict, tuple(candidates), picked, factors, queued, seed)

    def lottery(self) -> Lottery:
        """Draws positions in `candidates`."""
        return Lottery(self.weights, self.queued[list(self.candidates)].tolist(), self.seed)

    @property
    def best(self) -> str | None:
        """The name of the first candidate."""
        return self.sites.sites[self.candidates[0]] if self.candidates else None


def nothing(sites: Snapshot) -> Numbers:
    """No queue at any site."""
    return np.zeros(len(sites))
