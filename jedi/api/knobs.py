"""Knobs for the event loop, which never waits for the database."""

from __future__ import annotations

import asyncio

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import SQLAlchemyError

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.knobs import Knobs
from jedi.taskbuffer.db.engine import at_once

FRESH_S = 5.0


class CurrentKnobs:
    """The knobs of a world as they were a few seconds ago: who asks for old ones makes a thread
    read them anew. While the database is away they stay."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until = 0.0
        self._thread = CapacityLimiter(1)
        self._reading: asyncio.Task[None] | None = None

    def __call__(self) -> Knobs:
        """The knobs; only for the event loop."""
        now = clock.monotonic()
        if now >= self._until:
            self._until = now + FRESH_S
            self._reading = asyncio.create_task(self._read())
        return self._world.knobs

    @property
    def latest(self) -> Knobs:
        """The knobs as they were last read, for threads."""
        return self._world.knobs

    async def _read(self) -> None:
        try:
            self._world.knobs = await to_thread.run_sync(self._load, limiter=self._thread)
        except SQLAlchemyError as error:
            self._world.log.warning("knobs not read", error=str(error)[:500])

    def _load(self) -> Knobs:
        with at_once(self._world.engine) as tx:
            return self._world.load_knobs(tx)
