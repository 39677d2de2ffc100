"""Questions to the database that are answered under any load: /ready, and the figures of /metrics.

/health asks nothing: it says that the process lives. A supervisor that ended a process because the
database is away would help nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from jedi.core.errors import Unreachable
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.schema import migrate

ANSWER_S = 5.0

Answer = TypeVar("Answer")


class SharedQuestion(Generic[Answer]):
    """Asks in a thread that nothing else uses, once for all that want to know."""

    def __init__(self, ask: Callable[[], Answer], answer_s: float = ANSWER_S) -> None:
        self._ask = ask
        self._answer_s = answer_s
        self._thread = CapacityLimiter(1)
        self._asking: asyncio.Task[Answer] | None = None

    async def __call__(self) -> Answer:
        """The answer. Unreachable, or the database's error, if it does not answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(to_thread.run_sync(self._ask, limiter=self._thread))
        done, _ = await asyncio.wait({self._asking}, timeout=self._answer_s)
        if not done:
            raise Unreachable(f"The database has not answered for {self._answer_s:.0f} s.")
        return await self._asking


def readiness(engine: Engine) -> SharedQuestion[None]:
    """Check that the database answers, and has the schema of this release."""
    wanted = migrate.head()

    def ask() -> None:
        with at_once(engine) as tx:
            found = migrate.revision(tx)
        if found != wanted:
            raise Unreachable(
                f"The database has schema {found or 'none'}; this release has {wanted}. An "
                "operator upgrades it: jedi db upgrade.",
                code="schema_differs",
                found=found,
                wanted=wanted,
            )

    return SharedQuestion(ask)
