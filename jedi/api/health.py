"""Health of the service, answered under any load."""

from __future__ import annotations

import asyncio

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from jedi.core.errors import Unreachable
from jedi.taskbuffer.db.engine import at_once

ANSWER_S = 5.0


class Health:
    """Asks the database in a thread that nothing else uses, once for all that want to know."""

    def __init__(self, engine: Engine, answer_s: float = ANSWER_S) -> None:
        self._engine = engine
        self._answer_s = answer_s
        self._thread = CapacityLimiter(1)
        self._asking: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Unreachable, or the database's error, if it does not answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(to_thread.run_sync(self._ask, limiter=self._thread))
        done, _ = await asyncio.wait({self._asking}, timeout=self._answer_s)
        if not done:
            raise Unreachable(f"The database has not answered for {self._answer_s:.0f} s.")
        await self._asking

    def _ask(self) -> None:
        with at_once(self._engine) as tx:
            tx.exec_driver_sql("SELECT 1")
