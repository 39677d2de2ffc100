"""The schema's versions: up, down, where a database stands, and how it differs from tables.py.

A migration is one transaction under an advisory lock: starters that race wait for each other, and
a failed step leaves everything as it was. Comments are those of tables.py: no step repeats them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from jedi.core.errors import Refused
from jedi.taskbuffer.schema.release import VERSION_TABLE, scripts, this_release
from jedi.taskbuffer.schema.tables import metadata

_LOCK = 0x6A656469  # "jedi"


def head() -> str:
    """The newest revision."""
    return ScriptDirectory.from_config(_config()).get_current_head() or "base"


def known(revision: str) -> bool:
    """This release has it, and can upgrade from it."""
    return revision in {s.revision for s in ScriptDirectory.from_config(_config()).walk_revisions()}


_COUNT_TABLES = text("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")


def empty(engine: Engine) -> bool:
    """There is no table."""
    with engine.connect() as connection:
        return not connection.scalar(_COUNT_TABLES)


def current(engine: Engine) -> str | None:
    """The revision of a database; None if it has never been migrated."""
    with engine.connect() as connection:
        return _context(connection).get_current_revision()


Seal = Callable[[str, str], str]
"""Turns a user's clear secret into its sealed form (core/webhookkey.py)."""


def upgrade(
    engine: Engine, revision: str = "head", seal: Seal | None = None
) -> tuple[str | None, str | None]:
    """Bring a database to a revision above its own; nothing happens if it is there. The revisions
    before (None: it was empty) and after. `seal` hides secrets that older releases kept in clear.

    Refused if this release does not know its revision, or the one that is wanted."""
    with engine.begin() as tx, _known(tx, revision):
        config = _config(_locked(tx))
        config.attributes["seal"] = seal
        before = _context(tx).get_current_revision()
        command.upgrade(config, revision)
        after = _context(tx).get_current_revision()
        if before != after == head():
            _comment(tx)
        return before, after


def _comment(tx: Connection) -> None:
    """Give tables and columns their comments."""
    comments = [
        f"COMMENT ON {kind} {name} IS {_literal(comment)}"
        for table in metadata.tables.values()
        for kind, name, comment in (
            ("TABLE", table.name, table.comment),
            *(("COLUMN", f"{table.name}.{c.name}", c.comment) for c in table.columns),
        )
    ]
    tx.connection.cursor().execute(";".join(comments))


def _literal(words: str | None) -> str:
    return "'" + (words or "").replace("'", "''") + "'"


def downgrade(engine: Engine, revision: str) -> None:
    """Take a database back to a revision below its own; `base` empties it. Refused as above."""
    with engine.begin() as tx, _known(tx, revision):
        command.downgrade(_config(_locked(tx)), revision)


@contextmanager
def _known(tx: Connection, revision: str) -> Iterator[None]:
    found = _context(tx).get_current_revision()
    try:
        yield
    except CommandError as error:
        newer = (
            f"This release has those up to {head()}; the release of a newer one takes it back: "
            f"`jedi db downgrade {head()}`."
        )
        raise Refused(
            f"The schema can't go from {found} to {revision}: {error}. "
            f"{this_release().passage(found) or newer}",
            code="schema_differs",
        ) from error


def differences(engine: Engine) -> list[Any]:
    """The changes that would give a database the tables that tables.py declares, as
    Alembic sees it (checks and triggers it does not see)."""
    with engine.connect() as connection:
        found: list[Any] = compare_metadata(_context(connection), metadata)
        return found


def options() -> dict[str, Any]:
    """The options with which Alembic reads a database, here and in migrations/env.py."""
    return {
        "target_metadata": metadata,
        "version_table": VERSION_TABLE,
        "compare_server_default": True,
    }


def _context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts=options())


def _config(tx: Connection | None = None) -> Config:
    config = Config(attributes={"connection": tx})
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return config


_LOCK_SCHEMA = text("SELECT pg_advisory_xact_lock(:key)")


def _locked(tx: Connection) -> Connection:
    tx.execute(_LOCK_SCHEMA, {"key": _LOCK})
    return tx
