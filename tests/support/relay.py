"""A relay between a service and PostgreSQL. It breaks a session at the COMMIT of a change."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

from sqlalchemy import Engine

Break = Literal["before", "after"]
"""The session ends before COMMIT reaches the database, or after the database has committed."""

CHANGE, COMMIT = b"INSERT INTO jedi_audit", b"COMMIT\0"
PIECE = 2**16


@contextmanager
def relay(engine: Engine, place: Path, breaks: list[Break]) -> Iterator[str]:
    """The URL of a relay to the database of an engine, with its socket in `place`. `breaks` holds
    the ends of the next changes, one after the other."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / ".s.PGSQL.5432"))
        listener.listen(64)
        threading.Thread(target=_accept, args=(listener, engine, breaks), daemon=True).start()
        try:
            url = engine.url.set(host=None, port=None, query={"host": str(place), "port": "5432"})
            yield url.render_as_string(hide_password=False)
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, engine: Engine, breaks: list[Break]) -> None:
    with suppress(OSError):  # closed
        while True:
            pair = listener.accept()[0], _to_database(engine)
            threading.Thread(target=_pass_on, args=(*pair, breaks), daemon=True).start()


def _to_database(engine: Engine) -> socket.socket:
    with engine.connect() as tx:
        there = tx.connection.driver_connection.pgconn  # type: ignore[union-attr]
        host, port = there.host.decode(), int(there.port)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _pass_on(client: socket.socket, server: socket.socket, breaks: list[Break]) -> None:
    """Pass everything on until an end, or the break."""
    changes = False
    with closing(client), closing(server), suppress(OSError):
        while True:
            for source in select.select([client, server], [], [])[0]:
                if not (data := source.recv(PIECE)):
                    return
                changes = changes or (source is client and CHANGE in data)
                if changes and source is client and COMMIT in data and breaks:
                    if breaks.pop(0) == "after":
                        server.sendall(data)
                        server.recv(PIECE)  # the database has committed
                    return
                (server if source is client else client).sendall(data)
