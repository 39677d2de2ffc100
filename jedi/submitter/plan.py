"""How many pilots a site needs."""

from __future__ import annotations


def how_many(waiting: int, pilots: int, busy: int, n_slots: int) -> int:
    """Pilots to start: one for each waiting job that no idle pilot will take, within the slots."""
    idle = max(0, pilots - busy)
    return max(0, min(waiting - idle, n_slots - pilots))


def ramp(pilots: int, queued: int, first: int, failing: bool) -> int:
    """How many pilots may be sent more, if `queued` of them have not begun: `first` while none
    runs, then as many as run; a single one that tries whether a site still fails."""
    return max(0, 1 - queued if failing else max(first, pilots - queued) - queued)


def surplus(waiting: int, pilots: int, busy: int) -> int:
    """Pilots for which there is no job."""
    return max(0, pilots - busy - waiting)
