"""The sites of a job set: those of its first consumers, one for the next consumer, and one for its
merge job near the pieces. Pieces can be merged if one online site reads the endpoints of all.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar


class RankedSite(Protocol):
    """An online site; `rank` 1 has so many pieces, 2 reads the destination, 3 is the nucleus, 4 and
    5 are where the job set was brokered, 6 reads so many pieces from afar, 7 is a queue of jumbo
    jobs alone. `failed`: the merge job before this one failed there."""

    @property
    def rank(self) -> int: ...
    @property
    def site(self) -> str: ...
    @property
    def pieces(self) -> int: ...
    @property
    def failed(self) -> bool: ...


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
    `failures`: the consumers that processed nothing there; `endpoint`: where it usually writes,
    empty: nowhere."""

    @property
    def place(self) -> int: ...
    @property
    def site(self) -> str: ...
    @property
    def failures(self) -> int: ...
    @property
    def endpoint(self) -> str: ...


Site = TypeVar("Site", bound=BrokeredSite)
Readers = Sequence[Collection[str]]
"""The endpoints that an online site with a storage reads, for each such site."""


def joint(endpoints: Sequence[str], readers: Readers) -> list[int]:
    """Positions of endpoints that one reader reads together: the first one, and of the others,
    in their order, those that fit."""
    found = []
    for at, endpoint in enumerate(endpoints):
        around = [reads for reads in readers if endpoint in reads]
        if around or not at:
            found.append(at)
            readers = around
    return found


def joining(sites: Sequence[Site], held: Mapping[str, int], readers: Readers) -> list[Site]:
    """The sites whose pieces can be merged with those that are held at endpoints, so many each;
    where a site was lost, with most of them."""
    most = [
        max((_count(reads, held) for reads in readers if one.endpoint in reads), default=-1)
        for one in sites
    ]
    return [one for one, n in zip(sites, most, strict=True) if n == max(most)]


def fits(endpoints: Iterable[str], held: Collection[str], readers: Readers) -> bool:
    """True if a site reads one of the endpoints with all that are held."""
    return any(one in reads and {*held} <= {*reads} for one in endpoints for reads in readers)


def unread(sites: Sequence[BrokeredSite], held: Mapping[str, int], readers: Readers) -> list[str]:
    """The endpoints of pieces that the best site for the merge does not read. It reads most
    pieces, and those of a next consumer at one of `sites`; without such a site none are given."""
    fit = [reads for reads in readers if any(one.endpoint in reads for one in sites)]
    best = max(fit, key=lambda reads: _count(reads, held), default=held)
    return [endpoint for endpoint in held if endpoint not in best]


def _count(reads: Collection[str], held: Mapping[str, int]) -> int:
    return sum(n for endpoint, n in held.items() if endpoint in reads)


def merge_site(sites: Sequence[RankedSite], weights: Mapping[str, float]) -> tuple[str, str] | None:
    """The site for a merge job, of those that can read all that it needs, with the reason: not
    where the last one failed, if there is another site; of equally near ones the heaviest.
    `weights`: those that the broker takes; it takes no queue of jumbo jobs alone. None: there is
    no site."""
    taken = [one for one in sites if one.rank == 7 or one.site in weights]
    if not taken:
        return None
    best = min(
        taken,
        key=lambda one: (
            one.rank == 7,
            one.failed,
            one.rank,
            -one.pieces,
            -weights.get(one.site, 0.0),
            one.site,
        ),
    )
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
