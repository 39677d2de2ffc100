"""The SQLite file of a registry: its connection, its transactions and its errors."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jedi_client.errors import JediError, NoSpace
from jedi_client.gpi.store import schema

BUSY_S = 60.0
"""Seconds that a write waits for other sessions."""

_PAUSE_S = 0.02

_FULL = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"}
_BUSY = {"SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED"}


def own_guid(folder: Path) -> str:
    """The GUID of the registry in a folder of the client."""
    file = RegistryFile(folder / "registry.db")
    try:
        return guid_in(file)
    finally:
        file.close()


def guid_in(file: RegistryFile) -> str:
    """The GUID of a registry."""
    with file.reading() as db:
        found: str = db.execute("SELECT guid FROM registry").fetchone()[0]
    return found


class RegistryFile:
    """The SQLite file of a registry, opened at its first use: by one thread at a time, and anew in
    a forked process. Several processes may use it. `read_only`: also a file, or a folder, without
    the right to write."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._asked_read_only = read_only
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._owner = 0
        self._read_only = read_only

    @property
    def read_only(self) -> bool:
        with self._lock:
            self._opened()
            return self._read_only

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the file."""
        with self._transaction("BEGIN", "ROLLBACK") as db:
            yield db

    @contextmanager
    def writing(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction that changes all or nothing. `durable`: it also survives a power cut."""
        with self._lock, self._errors():
            db = self._opened()
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with self._transaction("BEGIN IMMEDIATE", "COMMIT"):
                yield db

    def close(self) -> None:
        with self._lock:
            if self._db is not None and self._owner == os.getpid():
                self._db.close()
            self._db = None

    @contextmanager
    def _transaction(self, begin: str, end: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            db = self._opened()
            db.execute(begin)
            try:
                yield db
                db.execute(end)
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _opened(self) -> sqlite3.Connection:
        """The connection of this process. SQLite forbids to carry one over a fork."""
        if self._db is None or self._owner != os.getpid():
            with self._errors():
                self._db = self._open()
            self._owner = os.getpid()
        return self._db

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists() and not self._asked_read_only:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.touch(mode=0o600)
        self._read_only = self._asked_read_only or not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        )
        if self._read_only:
            return self._open_to_read()
        db = _connect(f"{self.path.absolute().as_uri()}?mode=rw")
        try:
            if schema.version(db) == 0:
                _use_log(db)
            schema.migrate(db, str(self.path))
        except BaseException:
            db.close()
            raise
        return db

    def _open_to_read(self) -> sqlite3.Connection:
        """A file in a folder that nobody may write has no log beside it: it does not change."""
        place = self.path.absolute().as_uri()
        db = _connect(f"{place}?mode=ro")
        try:
            found = schema.version(db)
        except sqlite3.OperationalError:
            db.close()
            db = _connect(f"{place}?mode=ro&immutable=1")
            found = schema.version(db)
        schema.must_be_readable(found, str(self.path))
        if found < len(schema.STEPS):
            db.close()
            raise JediError(
                f"{self.path} is of an older release of jedi-client, and can't be brought up to "
                "date read-only. Open it once with the right to write.",
                code="registry_too_old",
            )
        return db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors with remedies."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            if name in _FULL:
                raise NoSpace(
                    f"No room to write {self.path} ({error}): nothing of this change is stored. "
                    "Make room and repeat it.",
                    path=str(self.path),
                ) from error
            if name in _BUSY:
                raise JediError(
                    f"Another session has been writing {self.path} for {BUSY_S:.0f} s. Repeat the "
                    "change when it has ended.",
                    code="registry_busy",
                    path=str(self.path),
                ) from error
            raise JediError(
                f"{self.path}: {error}. If the file is damaged, copy it away and restore it from "
                "an export.",
                code="registry_broken",
                path=str(self.path),
            ) from error


def _use_log(db: sqlite3.Connection) -> None:
    """Write ahead of a log from now on. SQLite does not wait for another session at this step."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") not in _BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
