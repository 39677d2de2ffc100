"""Settings that a process needs before it reaches the database: environment and JEDI_HOME."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """`home` is JEDI_HOME; `database_url` is JEDI_DATABASE_URL, None: the embedded database;
    `listen` is JEDI_LISTEN, the address of this host's service instead of the knob api.listen."""

    home: Path
    database_url: str | None
    listen: str | None = None

    @classmethod
    def from_environment(cls) -> Settings:
        """Read JEDI_HOME (default ~/.jedi), JEDI_DATABASE_URL and JEDI_LISTEN."""
        home = Path(os.environ.get("JEDI_HOME") or Path.home() / ".jedi")
        return cls(
            home.expanduser().absolute(),
            os.environ.get("JEDI_DATABASE_URL") or None,
            os.environ.get("JEDI_LISTEN") or None,
        )

    @property
    def draining(self) -> Path:
        """While this file exists no pilot is sent and no job handed out; it holds for how many
        seconds `jedi down` waits for running jobs."""
        return self.home / "draining"


def caller() -> str:
    """The user on whose behalf this process acts: the account it runs under, whatever LOGNAME and
    USER say."""
    return account_name(os.geteuid())


def account_name(uid: int) -> str:
    """The name of a uid on this machine; its number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
