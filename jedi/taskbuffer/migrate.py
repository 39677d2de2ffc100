"""The schema's versions: up, down, where a database stands, and how it differs from tables.py.

A migration is one transaction under an advisory lock: starters that race wait for each other, and
a failed step leaves everything as it was.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

import jedi
from jedi.taskbuffer.tables import metadata

VERSION_TABLE = "jedi_schema_version"
_LOCK = 0x6A656469  # "jedi"


def scripts() -> Path:
    """Where the migrations lie: inside the installed package, else beside it in a checkout."""
    package = Path(jedi.__file__).parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def head() -> str:
    """The newest revision."""
    return ScriptDirectory.from_config(_config()).get_current_head() or "base"


def known(revision: str) -> bool:
    """This release has it, and can upgrade from it."""
    return revision in {s.revision for s in ScriptDirectory.from_config(_config()).walk_revisions()}


def empty(engine: Engine) -> bool:
    """There is no table."""
    tables = text("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")
    with engine.connect() as connection:
        return not connection.scalar(tables)


def current(engine: Engine) -> str | None:
    """The revision of a database; None if it has never been migrated."""
    with engine.connect() as connection:
        return _context(connection).get_current_revision()


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring a database to a revision above its own; nothing happens if it is there."""
    with engine.begin() as tx:
        command.upgrade(_config(_locked(tx)), revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Take a database back to a revision below its own; `base` empties it."""
    with engine.begin() as tx:
        command.downgrade(_config(_locked(tx)), revision)


def differences(engine: Engine) -> list[Any]:
    """What would have to change for a database to have the tables that tables.py declares, as
    Alembic sees it (checks and triggers it does not see)."""
    with engine.connect() as connection:
        found: list[Any] = compare_metadata(_context(connection), metadata)
        return found


def options() -> dict[str, Any]:
    """How Alembic looks at a database, here and in migrations/env.py."""
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


def _locked(tx: Connection) -> Connection:
    tx.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    return tx
