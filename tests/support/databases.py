"""Databases for tests on a running server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, make_url, text

from jedi.taskbuffer.db.engine import connect

MEMORY = Path("/dev/shm")
MEMORY_LEFT = 2**30
_PREFIX = "jedi-tests-"
_numbers = count()
_ended: list[str] = []
"""URLs of databases that no test uses any more."""


def new_database(server: str, template: str | None = None, tablespace: str | None = None) -> str:
    """Create a database, as a copy of another if wanted, and return its URL."""
    name = f"jedi_test_{os.getpid()}_{next(_numbers)}"
    copied = f" TEMPLATE {make_url(template).database}{_by_file(server)}" if template else ""
    placed = f" TABLESPACE {tablespace}" if tablespace else ""
    on_server(server, f"CREATE DATABASE {name}{copied}{placed}")
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def _by_file(server: str) -> str:
    """Copy file by file, as PostgreSQL 14 does. Later ones log each page (10 MB a database), and
    write all of them again before the next DROP: 20 ms more a test."""
    with _sessions(server).connect() as connection:
        version = int(connection.scalar(text("SHOW server_version_num")) or 0)
    return " STRATEGY file_copy" if version >= 150_000 else ""


@contextmanager
def tablespace_in_memory(server: str) -> Iterator[str | None]:
    """A tablespace of a server of ours in memory; None where the machine has too little. A copy of
    a database has 640 files: on a disk they can take half a second to make."""
    _remove_leftovers()
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_LEFT:
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=MEMORY))
    try:
        with _sessions(server).connect() as connection:
            data = Path(connection.scalar(text("SHOW data_directory")))
        owner = data.stat()
        os.chown(directory, owner.st_uid, owner.st_gid)
        on_server(server, f"CREATE TABLESPACE in_memory LOCATION '{directory}'")
        yield "in_memory"
        on_server(server, "DROP TABLESPACE in_memory")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_leftovers() -> None:
    """Remove directories of test processes that were killed."""
    for leftover in MEMORY.glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{leftover.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
            shutil.rmtree(leftover, ignore_errors=True)


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


def drop_later(server: str, url: str) -> None:
    """Drop a database when the next one has ended. PostgreSQL needs a moment to end the sessions of
    a test; a DROP that still finds one waits for 100 ms, which half of all tests did."""
    drop_ended(server)
    _ended.append(url)


def drop_ended(server: str) -> None:
    """Drop the databases that `drop_later` has kept."""
    while _ended:
        drop_database(server, _ended.pop())
