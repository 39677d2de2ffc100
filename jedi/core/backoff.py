"""Waiting longer and longer after failures in a row: 1, 2, 4 … seconds."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S = 1.0


@dataclass(slots=True)
class Backoff:
    """The length of the present wait (`wait_s`), and its end (`until`, monotonic)."""

    longest_s: float
    wait_s: float = 0.0
    until: float = 0.0

    def failed(self, now: float) -> None:
        """Note a failure at `now` (monotonic)."""
        self.wait_s = min(self.longest_s, max(FIRST_S, 2 * self.wait_s))
        self.until = now + self.wait_s
