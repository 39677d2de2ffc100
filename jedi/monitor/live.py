"""Live pages: one stream a browser says which kinds of things have changed, and pages in sight are
read again. One poller serves all streams of a process, and only while there are some.

A mark may grow a moment before its change is committed. Hence a change is also sent a second time,
once the mark has stayed the same for a look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.requests import Request

from jedi.api.operations import OperationDoor
from jedi.api.watching import EventResponse, StreamLimit
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.monitor.sessions import LoginNeeded, Visitor, visitor_of
from jedi.service.operations.all_operations import TABLE

LOOK_S = 1.0
"""Seconds between looks at the marks."""

QUIET_S = 15.0
"""Seconds after which a stream without news shows that it lives."""

RECHECK_S = 120.0
"""Seconds between looks at the sessions of streams. A stream has no more than kinds of changes;
pages look at the session each time."""

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class _Stream:
    """The stream of a browser: the kinds of changes that it has not sent yet."""

    def __init__(self, request: Request, visitor: Visitor) -> None:
        self.request, self.visitor = request, visitor
        self.news: set[str] = set()
        self.woken = asyncio.Event()
        self.ended = False

    def give(self, topics: set[str]) -> None:
        """Add changes."""
        self.news |= topics
        self.woken.set()

    def end(self) -> None:
        """End it with the rest that it has to send."""
        self.ended = True
        self.woken.set()

    async def events(self) -> AsyncIterator[bytes]:
        """Its bytes."""
        yield b"retry: 2000\n\n"
        while not self.ended:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.woken.wait(), QUIET_S)
            self.woken.clear()
            news, self.news = sorted(self.news), set()
            yield f"event: changes\ndata: {' '.join(news)}\n\n".encode() if news else b": quiet\n\n"


class LiveChanges:
    """All streams of this process, and their poller."""

    def __init__(self, door: OperationDoor, log: Any) -> None:
        self._door = door
        self._log = log
        self._limit = StreamLimit(door.knobs)
        self._streams: set[_Stream] = set()
        self._poller: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)
        self._closed = False

    def respond(self, request: Request, visitor: Visitor) -> EventResponse:
        """The stream of a visitor. TooManyCalls: he has too many."""
        name = visitor.caller.user_name
        self._limit.enter(name)
        return EventResponse(
            self._stream(_Stream(request, visitor)), _HEADERS, lambda: self._limit.leave(name)
        )

    def close(self) -> None:
        """End all streams: the service ends."""
        self._closed = True
        for one in self._streams:
            one.end()

    async def _stream(self, stream: _Stream) -> AsyncIterator[bytes]:
        if self._closed:
            return
        self._streams.add(stream)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async for piece in stream.events():
                yield piece
        finally:
            self._streams.discard(stream)

    async def _poll(self) -> None:
        """Look at the marks while browsers listen."""
        known: dict[str, int] = {}
        fresh: set[str] = set()
        recheck_at = clock.monotonic() + RECHECK_S
        while self._streams and not self._closed:
            try:
                visitor = next(iter(self._streams)).visitor
                found = await to_thread.run_sync(self._marks, visitor, limiter=self._thread)
                grown = {one for one, mark in found.items() if known.get(one, mark) != mark}
                self._announce(grown | fresh)
                known, fresh = found, grown
                if clock.monotonic() >= recheck_at:
                    await self._recheck()
                    recheck_at = clock.monotonic() + RECHECK_S
            except (DBAPIError, NoConnection, JediError, OSError) as error:
                self._log.warning("live pages wait for the database", error=str(error)[:200])
            await asyncio.sleep(LOOK_S)

    def _marks(self, visitor: Visitor) -> dict[str, int]:
        """The present marks, asked in the name of one of the listeners: they are the same for
        all."""
        with self._door.call(visitor.caller, "live") as call:
            return asdict(TABLE["system.changes"](call))

    def _announce(self, topics: set[str]) -> None:
        for one in self._streams if topics else ():
            one.give(topics)

    async def _recheck(self) -> None:
        """End the streams of sessions that are not valid any more."""
        for one in [*self._streams]:
            try:
                await visitor_of(one.request, self._door)
            except (LoginNeeded, JediError):
                one.end()
