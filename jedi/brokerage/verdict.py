"""All filters judge all sites: every reason a site fails, not the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.brokerage.filters import Filter
from jedi.brokerage.need import Need
from jedi.spec.snapshot import Bools, Snapshot


@dataclass(frozen=True, eq=False)
class Verdict:
    """Matrices of filters × sites: what was kept, observed and demanded."""

    filters: tuple[Filter, ...]
    sites: tuple[str, ...]
    kept: Bools
    observed: NDArray[np.float64]
    limits: NDArray[np.float64]

    @property
    def passed(self) -> Bools:
        """Sites that no filter refuses."""
        return np.asarray(self.kept.all(axis=0))

    @property
    def lasting(self) -> bool:
        """True if at every site something lasting is in the way (there is none at all, too)."""
        filters = np.array([one.lasting for one in self.filters])
        return bool((~self.kept[filters]).any(axis=0).all())

    def reasons(self, site: int) -> list[int]:
        """The filters that refuse a site."""
        return [int(i) for i in np.flatnonzero(~self.kept[:, site])]


def judge(
    filters: Sequence[Filter], sites: Snapshot, need: Need, knobs: Mapping[str, Any]
) -> Verdict:
    """Run all filters for all sites."""
    shape = (len(filters), len(sites))
    observed, limits = np.empty(shape), np.empty(shape)
    kept = np.empty(shape, bool)
    for row, one in enumerate(filters):
        observed[row] = one.observed(sites, need, knobs)
        limits[row] = one.limit(sites, need, knobs)
        kept[row] = one.keep(observed[row], limits[row])
    return Verdict(tuple(filters), sites.sites, kept, observed, limits)
