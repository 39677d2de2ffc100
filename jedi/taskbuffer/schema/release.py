"""The schema that this release works with, and that of a database.

The names of the migrations show it: Alembic would cost each process 0.2 s and 10 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from psycopg.errors import UndefinedTable
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import ProgrammingError

import jedi
from jedi.core.errors import Unreachable
from jedi.taskbuffer.db.engine import at_once

VERSION_TABLE = "jedi_schema_version"
LAST_OF_SINGLE_STEPS = "bcb6e9bd"
"""The last commit with each of the 50 migrations that 0.1.0 and 0.2.0 have as two."""


class SchemaDiffers(Unreachable):
    """The database has the schema of another release."""

    code = "schema_differs"


def scripts() -> Path:
    """Return the directory of the migrations: inside the installed package, else beside it in a
    checkout."""
    package = Path(jedi.__file__).parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


_REVISION = text(f"SELECT version_num FROM {VERSION_TABLE}")


def revision_of(tx: Connection) -> str | None:
    """The revision of a database; None if it has never been migrated, and the transaction is over
    then."""
    try:
        found: str | None = tx.scalar(_REVISION)
    except ProgrammingError as error:
        if not isinstance(error.orig, UndefinedTable):
            raise
        return None
    return found


def revision(engine: Engine) -> str | None:
    """The revision of a database as it is now; None if it has never been migrated."""
    with at_once(engine) as tx:
        return revision_of(tx)


@dataclass(frozen=True, slots=True)
class ReleaseSchema:
    """The revisions of a release, oldest first. It works with the last one."""

    revisions: tuple[str, ...]

    @property
    def head(self) -> str:
        return self.revisions[-1]

    def passage(self, found: str | None) -> str | None:
        """The way here from a revision that stood between two releases; None: it did not."""
        if found is None or found in self.revisions or found > self.head:
            return None
        return (
            f"No release has schema {found}. Sources of commit {LAST_OF_SINGLE_STEPS} have: run "
            "`jedi db upgrade` with them first."
        )

    def must_fit(self, found: str | None) -> None:
        """SchemaDiffers: the database has another revision."""
        if found == self.head:
            return
        remedy = "A newer release has migrated the database: install that one here, too."
        if found is None or found in self.revisions:
            remedy = "An operator upgrades the database: jedi db upgrade."
        remedy = self.passage(found) or remedy
        shown = found or "none"
        raise SchemaDiffers(
            f"The database has schema {shown}; this release has {self.head}. {remedy}",
            found=found,
            wanted=self.head,
        )

    def must_fit_database(self, engine: Engine) -> None:
        """The same of a database as it is now; the database's error, if it does not answer."""
        self.must_fit(revision(engine))


def this_release() -> ReleaseSchema:
    """The release that runs."""
    files = (scripts() / "versions").glob("[0-9]*_*.py")
    return ReleaseSchema(tuple(sorted(file.name.partition("_")[0] for file in files)))
