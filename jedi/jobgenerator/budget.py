"""The number of files that each task of a cycle may use."""

from __future__ import annotations

from collections.abc import Sequence


def share_out(wanted: Sequence[int], total: int) -> list[int]:
    """Divide fairly: who wants little gets all of it, the others get equal parts of the rest."""
    shares = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for taken, i in enumerate(order):
        shares[i] = min(wanted[i], total // (len(wanted) - taken))
        total -= shares[i]
    return shares
