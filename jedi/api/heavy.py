"""Heavy calls: those that may take seconds of the database. A few run at once, in each service, so
that all others are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import ClientDisconnect, Request

from jedi.api.knobs import CurrentKnobs
from jedi.api.rates import TooManyCalls
from jedi.core import clock

PATIENCE_S = 5.0
"""Longest wait for a place."""

_POLL_S = 0.1
AGAIN_S = 2
"""Seconds after which a refused caller may try again."""


class HeavyCalls:
    """The places of heavy calls, and their callers."""

    def __init__(self, knobs: CurrentKnobs) -> None:
        self._knobs = knobs
        self._lock = threading.Lock()
        self._callers: Counter[str] = Counter()

    @asynccontextmanager
    async def awaited(self, request: Request, caller: str) -> AsyncIterator[None]:
        """A place, as soon as one is free. TooManyCalls: none was for PATIENCE_S. ClientDisconnect:
        the caller has gone meanwhile."""
        end = clock.monotonic() + PATIENCE_S
        while (refusal := self._enter(caller)) is not None:
            if clock.monotonic() >= end:
                raise refusal
            await asyncio.sleep(_POLL_S)
            if await request.is_disconnected():
                raise ClientDisconnect
        try:
            yield
        finally:
            self._leave(caller)

    @contextmanager
    def at_once(self, caller: str) -> Iterator[None]:
        """A place, for threads. TooManyCalls: none is free."""
        if refusal := self._enter(caller):
            raise refusal
        try:
            yield
        finally:
            self._leave(caller)

    def _enter(self, caller: str) -> TooManyCalls | None:
        api = self._knobs.latest.api
        with self._lock:
            if self._callers[caller] >= api.caller_heavy_calls:
                return _refusal(
                    f"{caller} has {api.caller_heavy_calls} heavy calls at work, and "
                    "no more are allowed (knob api.caller_heavy_calls)"
                )
            if self._callers.total() >= api.heavy_calls:
                return _refusal(
                    f"The service has {api.heavy_calls} heavy calls at work, and no "
                    "more are allowed (knob api.heavy_calls)"
                )
            self._callers[caller] += 1
        return None

    def _leave(self, caller: str) -> None:
        with self._lock:
            self._callers[caller] -= 1
            self._callers += Counter()  # forgets those that have none


def _refusal(why: str) -> TooManyCalls:
    return TooManyCalls(
        f"{why}. Try again in {AGAIN_S} s.", code="too_many_heavy_calls", retry_after_s=AGAIN_S
    )
