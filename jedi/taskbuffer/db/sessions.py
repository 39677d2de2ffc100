"""Sessions in use: those that wait for a database that hangs can be cut, and statements of a caller
who has gone can be ended. Sessions at rest: those that nobody has used for a while are closed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Engine, QueuePool, event
from sqlalchemy.exc import DisconnectionError

from jedi.core import clock

REST_S = 20.0
_CANCEL_S = 2.0
"""Longest wait for the database to take a cancellation."""

Done = TypeVar("Done")


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


class WorkEnded(Exception):
    """Nobody wants the work any more."""


class WorkInHand:
    """Work for a caller, whose statements can be ended from another thread. It knows the
    connections that the work has from engines of `follow_work`."""

    def __init__(self) -> None:
        self._taken: dict[int, psycopg.Connection[Any]] = {}
        self._lock = threading.Lock()
        self._ended = False

    def do(self, work: Callable[[], Done]) -> Done:
        """Do the work, in this thread. WorkEnded: it was cancelled before it began."""
        if self._ended:
            raise WorkEnded
        before = _in_hand.set(self)
        try:
            return work()
        finally:
            _in_hand.reset(before)

    @property
    def ended(self) -> bool:
        """It was cancelled."""
        return self._ended

    def cancel(self) -> None:
        """End the statements that run now. Connections stay with their work meanwhile, so that no
        other work is hit."""
        self._ended = True
        with self._lock:
            for connection in self._taken.values():
                with suppress(psycopg.Error):  # it has ended meanwhile
                    connection.cancel_safe(timeout=_CANCEL_S)

    def take(self, connection: Any, record: Any) -> None:
        with self._lock:
            self._taken[id(record)] = connection

    def give_back(self, record: Any) -> None:
        with self._lock:
            self._taken.pop(id(record), None)


_in_hand: ContextVar[WorkInHand | None] = ContextVar("in_hand", default=None)


def follow_work(engine: Engine) -> None:
    """Let each WorkInHand know the connections of an engine that it has."""

    def take(connection: Any, record: Any, _proxy: Any) -> None:
        if work := _in_hand.get():
            work.take(connection, record)

    def give_back(_connection: Any, record: Any) -> None:
        if work := _in_hand.get():
            work.give_back(record)

    event.listen(engine, "checkout", take)
    event.listen(engine, "checkin", give_back)


class SessionsAtRest:
    """The connections of an engine that nobody has. When one comes back, those are closed that have
    rested for REST_S: each takes 5 to 10 MB of the server, for the plans of its statements."""

    def __init__(self, engine: Engine) -> None:
        self._since: dict[Any, tuple[float, psycopg.Connection[Any]]] = {}
        event.listen(engine, "connect", self._make)
        event.listen(engine, "checkout", self._take)
        event.listen(engine, "checkin", self._give_back)
        event.listen(engine, "engine_disposed", lambda _engine: self._since.clear())

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
