"""All filters judge all sites: every reason a site fails, not the first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jedi.brokerage.filters import Filter
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class FilterResults:
    """Matrices of filters × sites: kept or not, observed, demanded."""

    filters: tuple[Filter, ...]
    sites: tuple[str, ...]
    kept: Bools
    observed: NDArray[np.float64]
    limits: NDArray[np.float64]

    @property
    def passed(self) -> Bools:
        """Sites that no filter refuses."""
        return np.asarray(self.kept.all(axis=0))

    def passed_but(self, spared: Collection[Filter]) -> Bools:
        """Sites that no filter but these refuses."""
        return np.asarray(self.kept[[one not in spared for one in self.filters]].all(axis=0))

    def kept_by(self, one: Filter) -> Bools:
        """Sites that one filter keeps."""
        return np.asarray(self.kept[self.filters.index(one)])

    def without(self, spared: Collection[Filter]) -> FilterResults:
        """The same where these filters do not count."""
        rows = np.array([one in spared for one in self.filters])
        return replace(self, kept=self.kept | rows[:, None])

    def without_if_nobody(self, spared: Collection[Filter]) -> FilterResults:
        """The same; where it is these filters that leave nobody, they do not count."""
        alone = not self.passed.any() and self.passed_but(spared).any()
        return self.without(spared) if alone else self

    def joined(self, other: FilterResults) -> FilterResults:
        """With the criteria of another verdict on the same sites. Criteria of one code become one:
        a site that both refuse is refused once."""
        ours = {one.code: row for row, one in enumerate(self.filters)}
        fresh = [row for row, one in enumerate(other.filters) if one.code not in ours]
        kept, observed, limits = (
            np.concatenate([mine, theirs[fresh]])
            for mine, theirs in (
                (self.kept, other.kept),
                (self.observed, other.observed),
                (self.limits, other.limits),
            )
        )
        for row, one in enumerate(other.filters):
            if (at := ours.get(one.code)) is not None:
                theirs = kept[at] & ~other.kept[row]
                kept[at] &= other.kept[row]
                observed[at] = np.where(theirs, other.observed[row], observed[at])
                limits[at] = np.where(theirs, other.limits[row], limits[at])
        filters = (*self.filters, *(other.filters[row] for row in fresh))
        return FilterResults(filters, self.sites, kept, observed, limits)

    @property
    def lasting(self) -> bool:
        """True if at every site something lasting is in the way (there is none at all, too)."""
        filters = np.array([one.lasting for one in self.filters])
        return bool((~self.kept[filters]).any(axis=0).all())

    def reasons(self, site: int) -> list[int]:
        """The filters that refuse a site."""
        return [int(i) for i in np.flatnonzero(~self.kept[:, site])]


def judge(
    filters: Sequence[Filter], sites: Snapshot, need: Requirements, knobs: Knobs
) -> FilterResults:
    """Run all filters for all sites."""
    shape = (len(filters), len(sites))
    observed, limits = np.full(shape, np.nan), np.full(shape, np.nan)
    kept = np.ones(shape, bool)
    for row, one in enumerate(filters):
        if one.when(need, knobs):
            observed[row] = one.observed(sites, need, knobs)
            limits[row] = one.limit(sites, need, knobs)
            kept[row] = one.keep(observed[row], limits[row])
            if one.strict(knobs):
                kept[row] &= observed[row] != limits[row]
    return FilterResults(tuple(filters), sites.sites, kept, observed, limits)
