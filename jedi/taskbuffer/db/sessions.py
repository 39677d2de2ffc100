"""Sessions in use: those that wait for a database that hangs can be cut. Sessions at rest: those
that nobody has used for a while are closed."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import Engine, QueuePool, event
from sqlalchemy.exc import DisconnectionError

from jedi.core import clock

REST_S = 20.0


class SessionsInUse:
    """The connections of an engine that somebody has."""

    def __init__(self, engine: Engine) -> None:
        self._taken: dict[int, Any] = {}
        event.listen(engine, "checkout", self._take)
        event.listen(engine, "checkin", self._give_back)

    def _take(self, connection: Any, record: Any, _proxy: Any) -> None:
        self._taken[id(record)] = connection

    def _give_back(self, _connection: Any, record: Any) -> None:
        self._taken.pop(id(record), None)

    def cut(self) -> None:
        """End all: their statements fail at once, as if the server had died. A server that hangs
        closes nothing, and a statement has no time-out of its own: some take long."""
        for connection in [*self._taken.values()]:
            with (
                suppress(psycopg.Error, OSError),  # it has ended meanwhile
                socket.socket(fileno=os.dup(connection.pgconn.socket)) as own,
            ):
                own.shutdown(socket.SHUT_RDWR)


class SessionsAtRest:
    """The connections of an engine that nobody has. When one comes back, those are closed that have
    rested for REST_S: each takes 5 to 10 MB of the server, for the plans of its statements."""

    def __init__(self, engine: Engine) -> None:
        self._since: dict[Any, tuple[float, psycopg.Connection[Any]]] = {}
        event.listen(engine, "connect", self._make)
        event.listen(engine, "checkout", self._take)
        event.listen(engine, "checkin", self._give_back)

    def _make(self, _connection: Any, record: Any) -> None:
        record.info[_NEW] = True

    def _take(self, _connection: Any, record: Any, _proxy: Any) -> None:
        is_new = record.info.pop(_NEW, False)
        if self._since.pop(record, None) is None and not is_new:
            raise DisconnectionError  # closed a moment ago: the pool makes a new one

    def _give_back(self, connection: Any, record: Any) -> None:
        now = clock.monotonic()
        for other, (since, rested) in [*self._since.items()]:
            if now - since > REST_S and self._since.pop(other, None) is not None:
                other.invalidate(soft=True)
                rested.close()  # its own, not the record's: another thread may have made a new one
        if connection is not None:
            self._since[record] = now, connection


_NEW = "jedi.new"
"""Marks a connection that its maker has yet to take."""


def close_rested(engine: Engine) -> None:
    """Close connections that have rested for REST_S. Do nothing while a connection is in use, or
    if there is none."""
    pool = engine.pool
    if isinstance(pool, QueuePool) and pool.checkedin() and not pool.checkedout():
        engine.connect().close()
