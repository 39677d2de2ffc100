"""Work for callers, in threads. It ends when its caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import DBAPIError
from starlette.requests import ClientDisconnect, Request

from jedi.api.errors import TooSlow
from jedi.api.knobs import CurrentKnobs
from jedi.host import questions
from jedi.taskbuffer.db.engine import took_too_long
from jedi.taskbuffer.db.sessions import WorkInHand

THREADS = 10
"""Requests of people at work at once. Fewer than the connections of their pool: the rest is for the
names of callers, knobs and figures."""

SHORT_S = 0.5
"""Work that takes longer ends when its caller has gone; until its statement has ended, the service
tells the database again each time."""


class Working:
    """The threads of people's requests."""

    def __init__(self, knobs: CurrentKnobs) -> None:
        self._knobs = knobs
        self._threads = CapacityLimiter(THREADS)
        self._cancelling = CapacityLimiter(2)

    async def done(self, request: Request, work: Callable[[], _Done]) -> _Done:
        """The result of work for a request. TooSlow; ClientDisconnect: its caller has gone, and its
        statement, or the process that it asked, has ended."""
        hand = WorkInHand()
        asked = partial(questions.wanted_until, lambda: hand.ended, work)
        run = to_thread.run_sync(partial(hand.do, asked), limiter=self._threads)
        task = asyncio.ensure_future(run)
        try:
            done, _ = await asyncio.wait({task}, timeout=SHORT_S)
            return task.result() if done else await self._while_there(request, task, hand)
        except DBAPIError as error:
            if not took_too_long(error):
                raise
            most = self._knobs.latest.api.statement_s
            done_before = getattr(error, "__notes__", [])
            raise TooSlow(
                " ".join(
                    [
                        f"The database did not answer this request within {most:g} s (knob "
                        "api.statement_s); its transaction was undone.",
                        *done_before,
                        "Ask for less, or try again later.",
                    ]
                ),
                statement_s=most,
            ) from error

    async def _while_there(
        self, request: Request, task: asyncio.Future[_Done], hand: WorkInHand
    ) -> _Done:
        gone = asyncio.create_task(_gone(request))
        both: set[asyncio.Future[Any]] = {task, gone}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            while not task.done():
                await to_thread.run_sync(hand.cancel, limiter=self._cancelling)
                await asyncio.wait({task}, timeout=SHORT_S)
        finally:
            gone.cancel()
        if gone.done() and not gone.cancelled():
            task.exception()  # seen
            raise ClientDisconnect
        return task.result()


_Done = TypeVar("_Done")


async def _gone(request: Request) -> None:
    """Wait until the caller of a request whose body was read has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
