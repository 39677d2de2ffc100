"""Requests that wait at the same moment are done together.

A statement for a hundred heartbeats costs little more than a statement for one. So while requests
are in work those that come meanwhile wait, and are done next by the same statements. Nobody waits
for company: a request that comes alone is done at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from jedi.core.errors import JediError
from jedi.taskbuffer.db.engine import is_away

TOGETHER_MOST = 100
"""Requests that are done together."""

PATIENCE_S = 0.05
"""Others do not wait longer for requests in work: these may wait for a row that is locked."""

HANDS_MOST = 8
"""Groups of requests in work at the same time."""

ALL_CONCERNED = (JediError, NoConnection)
"""Errors of the service itself, such as a database of another release."""

Asked = TypeVar("Asked")
Done = TypeVar("Done")
GroupWork = Callable[[Sequence[Asked]], Sequence[Done | Exception]]


class Combiner(Generic[Asked, Done]):
    """Does the work of requests in threads of its own. `work` takes the requests of a group and
    returns for each its result, or its error."""

    def __init__(self, work: GroupWork[Asked, Done]) -> None:
        self._work = work
        self._waiting: list[tuple[Asked, asyncio.Future[Done]]] = []
        self._groups = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._threads = ThreadPoolExecutor(HANDS_MOST, "combiner")

    async def done(self, asked: Asked) -> Done:
        """The result of one request; raises its error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()
        self._waiting.append((asked, future))
        if not self._groups:
            self._begin(loop)
        elif self._alarm is None:
            self._alarm = loop.call_later(PATIENCE_S, self._begin, loop)
        return await future

    def alone(self, asked: Asked) -> Done:
        """The same in the caller's own thread, with nobody else."""
        [found] = self._work([asked])
        if isinstance(found, Exception):
            raise found
        return found

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with those that wait, if any do."""
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        group = self._waiting[:TOGETHER_MOST]
        if not group or self._groups >= HANDS_MOST:
            return
        del self._waiting[: len(group)]
        self._groups += 1
        if self._waiting:
            self._alarm = loop.call_later(PATIENCE_S, self._begin, loop)
        working = loop.run_in_executor(self._threads, self._done, [asked for asked, _ in group])
        working.add_done_callback(lambda result: self._end(loop, group, result))

    def _done(self, group: Sequence[Asked]) -> Sequence[Done | Exception]:
        """The results of a group. If one request made all fail, each is done alone."""
        try:
            return self._work(group)
        except Exception as error:  # noqa: BLE001
            if len(group) == 1 or _concerns_all(error):
                return [error] * len(group)
        return [found for asked in group for found in self._done([asked])]

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        group: Sequence[tuple[Asked, asyncio.Future[Done]]],
        result: asyncio.Future[Sequence[Done | Exception]],
    ) -> None:
        self._groups -= 1
        self._begin(loop)
        for (_, future), found in zip(group, result.result(), strict=True):
            if future.done():  # its caller has gone
                continue
            if isinstance(found, Exception):
                future.set_exception(found)
            else:
                future.set_result(found)


def _concerns_all(error: Exception) -> bool:
    """Return True if each request alone would fail the same way."""
    return isinstance(error, ALL_CONCERNED) or (isinstance(error, DBAPIError) and is_away(error))
