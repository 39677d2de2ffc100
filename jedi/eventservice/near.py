"""The sites of a job set: one for its merge job near the pieces, one for its next consumer.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class RankedSite(Protocol):
    """An online site; `rank` 1 has so many pieces, 2 reads the destination, 3 is the nucleus, 4 and
    5 are where the job set was brokered, 6 reads so many pieces from afar, 7 is a queue of jumbo
    jobs alone."""

    @property
    def rank(self) -> int: ...
    @property
    def site(self) -> str: ...
    @property
    def pieces(self) -> int: ...


_SAID = {
    1: "{site} is nearest to its pieces.",
    2: "{site} is nearest to the destination of its outputs.",
    3: "{site} is its nucleus.",
    4: "{site} was chosen for its job set.",
    5: "{site} ran one of its consumers.",
    6: "{site} reads its pieces from afar.",
    7: "Only {site}, a queue of jumbo jobs, reads its pieces.",
}


class BrokeredSite(Protocol):
    """An online site for consumers of a job set. `place`: its rank in the broker's choice;
    `failures`: the consumers that processed nothing there."""

    @property
    def place(self) -> int: ...
    @property
    def site(self) -> str: ...
    @property
    def failures(self) -> int: ...


def merge_site(sites: Sequence[RankedSite]) -> tuple[str, str] | None:
    """The site for a merge job, of those that can read all that it needs, with the reason; None:
    there is none."""
    if not sites:
        return None
    best = min(sites, key=lambda one: (one.rank, -one.pieces, one.site))
    return best.site, _SAID[best.rank].format(site=best.site)


def next_site(
    sites: Sequence[BrokeredSite], last: str | None, progress: bool, failing: Sequence[str] = ()
) -> str | None:
    """The site for a consumer after one at `last`: the same after progress, else where fewest have
    failed, `failing` ones just now; of these the best one that is not `last`. None: none is
    online."""
    if progress and any(one.site == last for one in sites):
        return last
    ranked = [
        (one.failures + failing.count(one.site), one.site == last, one.place, one.site)
        for one in sites
    ]
    return min(ranked)[3] if ranked else None
