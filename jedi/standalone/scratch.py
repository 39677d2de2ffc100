"""A server for a while: a PostgreSQL that nobody else knows of, gone afterwards with all its data.

A killed process leaves one behind; the next one removes it. It is known by its directory, which is
locked as long as its maker lives.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Engine

from jedi.host.home import Home, owned
from jedi.standalone.embedded import Embedded
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import migrate

PREFIX = "jedi-scratch-"
CARELESS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Settings for data that need not outlive a power cut."""


@contextmanager
def database(name: str, **settings: object) -> Iterator[Engine]:
    """A migrated database on a server of its own; `name` distinguishes its sessions."""
    with server(**settings) as url:
        engine = connect(url, name)
        migrate.upgrade(engine)
        yield engine
        engine.dispose()


@contextmanager
def server(**settings: object) -> Iterator[str]:
    """The URL of a fresh server; `settings` are PostgreSQL's, beside the ones of all our
    servers."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(leftover)
    with _locked_directory() as directory:
        embedded = Embedded(Home(directory), **settings)
        try:
            embedded.start()
            yield embedded.url()
        finally:
            embedded.remove()


@contextmanager
def _locked_directory() -> Iterator[Path]:
    """A fresh directory: it has our prefix only when it is locked."""
    fresh = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}"))
    with _lock(fresh):
        yield fresh.rename(fresh.with_name(fresh.name.removeprefix("new-")))


def _remove_if_left(directory: Path) -> None:
    """Remove the directory that a dead process of this user left."""
    with suppress(OSError):  # its maker lives, or another one has just removed it
        if owned(directory):
            with _lock(directory):
                Embedded(Home(directory)).remove()


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold a directory's lock; BlockingIOError: another process does."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
