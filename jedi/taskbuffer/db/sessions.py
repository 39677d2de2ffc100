"""Sessions in use: those that wait for a database that hangs can be cut."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import Engine, event


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
