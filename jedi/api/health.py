"""Questions to the database that are answered under any load: /ready, and the figures of /metrics;
and a watch that ends the waiting for a database that hangs.

/health asks nothing: it says that the process lives. A supervisor that ended a process because the
database is away would help nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jedi.agent.base import World
from jedi.api.errors import AWAY
from jedi.core.errors import Unreachable
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.db.sessions import SessionsInUse, close_rested
from jedi.taskbuffer.schema.release import ReleaseSchema, SchemaDiffers

ANSWER_S = 5.0
SILENT_LOOKS = 2

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


class DatabaseWatch:
    """Looks at the database on a connection of its own. If two looks in a row have no answer, it
    hangs: all sessions of `engines` are cut, and requests are refused until it answers again. A
    look also closes sessions at rest. `readiness`: the database answers, and has the schema of this
    release."""

    def __init__(self, world: World, engines: Sequence[Engine], release: ReleaseSchema) -> None:
        url = world.engine.url.render_as_string(hide_password=False)
        own = connect(url, "jedi api look", pool_size=2)
        self._made = [engine for engine in (*engines, own) if engine is not world.engine]
        self._sessions = [SessionsInUse(engine) for engine in (*engines, own)]
        self._log = world.log
        self._silent = 0
        self.readiness = SharedQuestion(lambda: release.must_fit_database(own))

        def ask() -> None:
            release.must_fit_database(own)
            for engine in engines:
                close_rested(engine)

        self._ask = SharedQuestion(ask)

    async def look(self) -> None:
        """Look once. SchemaDiffers: the schema is that of another release."""
        try:
            await self._ask()
        except SQLAlchemyError:  # it refuses, and so do the requests
            return
        except SchemaDiffers:
            raise
        except Unreachable:
            self._silent += 1
            if self._silent >= SILENT_LOOKS:
                self._log.error("the database hangs: its sessions are cut")
                for one in self._sessions:
                    one.cut()
        else:
            self._silent = 0

    def close(self) -> None:
        """Close the connections, but for those of the world."""
        for engine in self._made:
            engine.dispose()

    def must_answer(self) -> None:
        """Unreachable: the database hangs."""
        if self._silent >= SILENT_LOOKS:
            raise Unreachable(AWAY)
