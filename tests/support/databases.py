"""Databases for tests on a running server."""

from __future__ import annotations

import os
from functools import cache
from itertools import count

from sqlalchemy import Engine, make_url, text

from jedi.taskbuffer.db.engine import connect

_numbers = count()


def new_database(server: str, template: str | None = None) -> str:
    """Create a database, as a copy of another if wanted, and return its URL."""
    name = f"jedi_test_{os.getpid()}_{next(_numbers)}"
    copied = f" TEMPLATE {make_url(template).database}" if template else ""
    on_server(server, f"CREATE DATABASE {name}{copied}")
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def on_server(server: str, statement: str) -> None:
    """Run a statement that no transaction may hold."""
    with _sessions(server).connect() as connection:
        connection.execute(text(statement))


@cache
def _sessions(server: str) -> Engine:
    """One session that lasts: a new one for each database costs as much as a small test."""
    return connect(server, pool_size=1).execution_options(isolation_level="AUTOCOMMIT")


def leave(server: str) -> None:
    """End the session: the server stops, or is somebody else's."""
    _sessions(server).dispose()


def drop_database(server: str, url: str) -> None:
    on_server(server, f"DROP DATABASE {make_url(url).database} WITH (FORCE)")
