"""How many pilots a site needs."""

from __future__ import annotations


def how_many(waiting: int, pilots: int, busy: int, n_slots: int) -> int:
    """Pilots to start: one for each waiting job that no idle pilot will take, within the slots."""
    idle = max(0, pilots - busy)
    return max(0, min(waiting - idle, n_slots - pilots))
