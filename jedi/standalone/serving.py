"""One home serves a database: two would end each other's pilots and lay files in two storages."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jedi.agent import child
from jedi.core import clock
from jedi.core.errors import Refused
from jedi.host import forks
from jedi.host.home import Home
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.schema.release import revision

COMPONENT = "home"
LEASE_S = 15.0
"""A home whose supervisor was killed serves no more after this time."""

PROLONG_S = 5.0
_POLL_S = 0.5


class Serving:
    """The word in the database that this home serves it, as long as the supervisor lives."""

    def __init__(self, engine: Engine, home: Home, log: Any) -> None:
        self._engine, self._log = engine, log
        self._me = f"{home.path} on {socket.gethostname()}"
        self._over = threading.Event()

    def begin(self) -> None:
        """Serve a database from now on. Refused, naming the home, while another one does; it waits
        for one that has just ended without a word. Nothing happens without a schema."""
        if revision(self._engine) is None:
            return
        deadline, news = clock.monotonic() + LEASE_S + PROLONG_S, ""
        while (holder := self._take()) is not None:
            if news != (news := f"waiting for the home {holder}, which serves this database"):
                child.wait_for(news)
                self._log.warning(news)
            if clock.monotonic() > deadline:
                raise Refused(
                    f"The home {holder} serves this database. `jedi down` there, or run more "
                    "agents beside it (`jedi agent run`): two homes would end each other's pilots.",
                    code="other_home",
                    holder=holder,
                )
            time.sleep(_POLL_S)

    def go_on(self) -> None:
        """Keep it until `end`, in a thread: a database that hangs holds up nobody."""
        threading.Thread(target=self._prolong, name="serving", daemon=True).start()

    def end(self) -> None:
        """Serve no more."""
        self._over.set()
        try:
            with self._engine.begin() as tx:
                locks.release(tx, COMPONENT, self._me)
        except SQLAlchemyError as error:  # it ends by itself
            self._log.warning("not given back", lock=COMPONENT, error=str(error))

    def _take(self) -> str | None:
        """Take or prolong the lock; who else has it."""
        with at_once(self._engine) as tx:
            if locks.take(tx, COMPONENT, self._me, LEASE_S):
                return None
            return locks.HOLDER.row(tx, component=COMPONENT) or "of somebody"

    def _prolong(self) -> None:
        while not self._over.wait(PROLONG_S):
            try:
                with forks.QUIET:
                    holder = self._take()
                if holder:
                    self._log.error("another home serves the database as well", home=holder)
            except SQLAlchemyError as error:
                self._log.warning("not prolonged", lock=COMPONENT, error=str(error))
