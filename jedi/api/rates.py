"""Rates of calls: a token bucket for each caller, in this process."""

from __future__ import annotations

from collections.abc import Callable

from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs

CALLERS_MOST = 10_000
"""Callers that have a bucket at a time."""


class TooManyCalls(JediError):
    """A caller asks more often than he may: later."""

    code = "too_many_calls"


class Rates:
    """The calls that each caller has left."""

    def __init__(self, now: Callable[[], float] = clock.monotonic) -> None:
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}
        """Calls left, and the time of that figure."""

    def take(self, caller: str, knobs: Knobs) -> None:
        """Count a call. TooManyCalls: the caller has none left; its facts say when he has."""
        per_s, burst = knobs.api.calls_per_s, float(knobs.api.calls_burst)
        if per_s <= 0:
            return
        now = self._now()
        before, at = self._left.get(caller, (burst, now))
        left = min(burst, before + (now - at) * per_s)
        if left < 1:
            wait_s = round((1 - left) / per_s, 3)
            raise TooManyCalls(
                f"{caller} makes more than {per_s:g} calls per second. Try again in {wait_s:g} s.",
                calls_per_s=per_s,
                retry_after_s=wait_s,
            )
        if len(self._left) >= CALLERS_MOST:
            self._left = {name: one for name, one in self._left.items()
                          if one[0] + (now - one[1]) * per_s < burst}  # fmt: skip
        self._left[caller] = (left - 1, now)
