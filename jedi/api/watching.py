"""Streams of changes: one poller a process looks for all watchers of it, and only while there are
some. Neither a stream nor the poller needs a notification (docs/decisions/watching.md)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from jedi.agent.base import World
from jedi.api.identity import CallerAuthentication
from jedi.api.rates import TooManyCalls
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.service.operations.table import Operation
from jedi.service.tasks import watching
from jedi.service.tasks.waiting import Watched
from jedi.service.tasks.watching import Change, EventStream, LogBound, Version
from jedi.taskbuffer.reports.changes import ChangeQuestion, Mark

HEARTBEAT_S = 15.0
"""Seconds of silence after which a stream sends a comment."""

WHOLE_S = 10.0
"""Seconds after which every watched task is read, changed or not: the running jobs of a task change
without a trace in it."""

SHARE = 50
"""A look may take one part in so many of the time."""

SLOWEST_S = 5.0
RECHECK_S = 30.0
"""Seconds after which tokens of watchers are checked again."""


class Watcher:
    """A stream: its tasks, its version, and changes that it has not sent yet, the last of each
    task."""

    def __init__(self, asked: EventStream, request: Request) -> None:
        self.selection = asked.selection
        self.version = asked.since
        self.request = request
        self.joining = True
        self.pending: dict[int, Watched] = {}
        self.woken = asyncio.Event()
        self.ended = False
        self._first = asked.since is None

    def give(self, tasks: Sequence[Watched], version: Version) -> None:
        """Add changes, which lead to `version`."""
        self.joining, self.version = False, version
        self.pending |= {one.task.jedi_task_id: one for one in tasks}
        if self.pending or self._first:
            self.woken.set()

    def end(self) -> None:
        """End the stream, when all is sent."""
        self.ended = True
        self.woken.set()

    async def events(self, operation: Operation) -> AsyncIterator[bytes]:
        """The stream as its bytes."""
        yield b": JEDI\n\n"  # headers go out with it
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.woken.wait(), HEARTBEAT_S)
            self.woken.clear()
            number = f"id: {self.version}\n" if self.version else ""
            if self.pending or (self._first and not self.joining):
                tasks, self.pending, self._first = [*self.pending.values()], {}, False
                data = operation.answer.dump_json(tasks)
                yield b"%sevent: tasks\ndata: %s\n\n" % (number.encode(), data)
            elif not self.ended:
                yield f": still here\n{number}\n".encode()
            if self.ended:
                return


class EventResponse(StreamingResponse):
    """A stream as a response; `at_end` runs even if the reader leaves before it begins."""

    media_type = "text/event-stream"

    def __init__(
        self, content: AsyncIterator[bytes], headers: dict[str, str], at_end: Callable[[], None]
    ) -> None:
        super().__init__(content, headers=headers)
        self._at_end = at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._at_end()


class StreamLimit:
    """The open streams of each caller."""

    def __init__(self, knobs: Callable[[], Knobs]) -> None:
        self._knobs = knobs
        self._open: Counter[str] = Counter()

    def enter(self, caller: str) -> None:
        """Count a stream. TooManyCalls: the caller has as many as he may."""
        most = self._knobs().api.caller_streams
        if 0 < most <= self._open[caller]:
            raise TooManyCalls(
                f"{caller} has {most} open streams, and no more are allowed (knob "
                "api.caller_streams). Close one, or watch several tasks in one stream.",
                code="too_many_streams",
                caller_streams=most,
            )
        self._open[caller] += 1

    def leave(self, caller: str) -> None:
        """Uncount it."""
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


class Watchers:
    """All streams of this process, and their poller."""

    def __init__(
        self, world: World, authentication: CallerAuthentication, knobs: Callable[[], Knobs]
    ) -> None:
        self._world = world
        self._authentication = authentication
        self._limit = StreamLimit(knobs)
        self._watchers: set[Watcher] = set()
        self._known: dict[int, Watched] = {}
        self._logs = LogBound()
        self._wanted = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None
        self._thread = CapacityLimiter(1)
        self._whole_at = self._recheck_at = 0.0
        self._closed = False

    def respond(
        self, operation: Operation, asked: EventStream, request: Request, caller: str
    ) -> EventResponse:
        """The stream that answers a request of a caller. TooManyCalls."""
        self._limit.enter(caller)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = self._stream(operation, asked, request)
        return EventResponse(stream, headers, lambda: self._limit.leave(caller))

    def close(self) -> None:
        """End all streams: the service ends."""
        self._closed = True
        for one in self._watchers:
            one.end()
        self._wanted.set()

    async def _stream(
        self, operation: Operation, asked: EventStream, request: Request
    ) -> AsyncIterator[bytes]:
        watcher = Watcher(asked, request)
        if self._closed:
            return
        self._watchers.add(watcher)
        self._wanted.set()
        if self._poller is None or self._poller.done():
            self._recheck_at = clock.monotonic() + RECHECK_S
            self._poller = asyncio.create_task(self._poll())
        try:
            async for piece in watcher.events(operation):
                yield piece
        finally:
            self._watchers.discard(watcher)

    async def _poll(self) -> None:
        """Look, again and again, while somebody watches."""
        while self._watchers and not self._closed:
            self._wanted.clear()
            begun = clock.monotonic()
            try:
                await self._look()
                if clock.monotonic() >= self._recheck_at:
                    await self._recheck()
                    self._recheck_at = clock.monotonic() + RECHECK_S
            except (DBAPIError, NoConnection, JediError, OSError) as error:
                self._world.log.warning("watching waits for the database", error=str(error)[:200])
            shortest = self._world.knobs.api.watch_poll_s
            rest = min((clock.monotonic() - begun) * SHARE, SLOWEST_S)
            await self._rest(shortest, max(rest, shortest))
        self._known.clear()

    async def _rest(self, shortest: float, longest: float) -> None:
        """Wait for the next look; those who join need not wait for all of it."""
        await asyncio.sleep(shortest / 10)  # those who join together are served together
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), longest - shortest / 10)

    async def _look(self) -> None:
        served = [*self._watchers]
        whole = clock.monotonic() >= self._whole_at
        question = self._question(served, whole)
        mark, found = await to_thread.run_sync(self._ask, question, limiter=self._thread)
        self._logs.note(mark)
        version = Version(mark.history, mark.bound, self._logs.log_id, mark.time)
        changed = [
            c.watched for c in found if self._known.get(c.watched.task.jedi_task_id) != c.watched
        ]
        for watcher in served:
            if watcher.version and watcher.version.history != mark.history:
                watcher.end()  # another database: it has to list again
            else:
                watcher.give(_share(watcher, found, changed), version)
        if whole:
            self._known.clear()
            self._whole_at = clock.monotonic() + WHOLE_S
        self._known |= {c.watched.task.jedi_task_id: c.watched for c in found}

    def _question(self, served: Sequence[Watcher], whole: bool) -> ChangeQuestion:
        selections = [one.selection for one in served]
        active = any(one.ids is None for one in selections)
        ids = set().union(*(one.ids or () for one in selections))
        since = [one.version for one in served if one.version]
        if active and self._logs.log_id is None:
            ids |= self._known.keys()  # the log can't say yet which of them have ended
        fresh = [one.selection for one in served if one.joining and one.version is None]
        return watching.question_of(ids, fresh, active, since, whole)

    def _ask(self, question: ChangeQuestion) -> tuple[Mark, list[Change]]:
        unit_s = self._world.knobs.throttle.unit_s
        with self._world.engine.connect() as connection:
            tx = connection.execution_options(postgresql_readonly=True)
            return watching.look(tx, question, unit_s)

    async def _recheck(self) -> None:
        """End the streams of tokens that are not valid any more."""
        self._world.knobs = await to_thread.run_sync(self._knobs, limiter=self._thread)
        valid: dict[str | None, bool] = {}
        for watcher in [*self._watchers]:
            header = watcher.request.headers.get("authorization")
            if header not in valid:
                valid[header] = header is None or (
                    await self._authentication.still_knows(watcher.request)
                )
            if not valid[header]:
                watcher.end()

    def _knobs(self) -> Any:
        with self._world.engine.connect() as tx:
            return self._world.load_knobs(tx)


def _share(watcher: Watcher, found: Sequence[Change], changed: Sequence[Watched]) -> list[Watched]:
    """The part of a look that is new to a watcher."""
    selection = watcher.selection
    if not watcher.joining:
        return [one for one in changed if selection.has(one)]
    if watcher.version is not None:
        return [one.watched for one in found if one.newer and selection.has(one.watched)]
    return [
        one.watched
        for one in found
        if selection.has(one.watched)
        and (selection.ids is not None or one.watched.task.status in watching.ACTIVE)
    ]
