"""One installation: its home, its database, and who is in charge of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

import jedi
from jedi.agent.supervisor import Charge
from jedi.core import processes
from jedi.core.errors import Refused
from jedi.core.processes import Process
from jedi.core.settings import Settings
from jedi.standalone.embedded import Embedded
from jedi.standalone.home import Home, write_file


@dataclass(frozen=True, slots=True)
class Place:
    """`settings` always names a database; `embedded` is None if that is somebody else's."""

    home: Home
    embedded: Embedded | None
    settings: Settings

    @classmethod
    def current(cls) -> Place:
        """As the environment says."""
        settings = Settings.from_environment()
        home = Home(settings.home)
        if settings.database_url:
            return cls(home, None, settings)
        embedded = Embedded(home)
        return cls(home, embedded, replace(settings, database_url=embedded.url()))

    @property
    def url(self) -> str:
        """The database, as SQLAlchemy names it."""
        return self.settings.database_url or ""

    @property
    def libpq_url(self) -> str:
        """The database, as psql and its kin name it."""
        plain = make_url(self.url).set(drivername="postgresql")
        return plain.render_as_string(hide_password=False)

    @property
    def notify_socket(self) -> Path:
        """Where children tell the supervisor that they are ready."""
        return self.home.api_socket.with_name("up.sock")

    @property
    def _record(self) -> Path:
        return self.home.path / "processes.json"

    @contextmanager
    def sole(self) -> Iterator[None]:
        """Be the one in charge; Refused, naming the process, if another is."""
        self.home.path.mkdir(parents=True, exist_ok=True)
        with self.home.lock_file.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = self._noted_pid()
                raise Refused(
                    f"JEDI is already up in {self.home.path} (process {pid}): "
                    "`jedi status` shows it, `jedi down` ends it.",
                    code="already_up",
                    pid=pid,
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()} {processes.started(os.getpid())}\n")
            file.flush()
            yield

    def supervisor(self) -> Process | None:
        """The living process that is in charge."""
        try:
            pid, start = map(int, self.home.lock_file.read_text().split())
        except (FileNotFoundError, ValueError):
            return None
        found = Process(pid, start)
        return found if found.alive() else None

    def _noted_pid(self) -> int:
        return int((self.home.lock_file.read_text().split() or ["0"])[0])

    def write_record(self, charges: Sequence[Charge]) -> None:
        """Note the present processes, for `jedi status` and for whoever must clean up after us."""
        rows = []
        for charge in charges:
            process = charge.process()
            rows.append(
                {
                    "name": charge.name,
                    "pid": process.pid if process else None,
                    "start": process.start if process else None,
                    "ready": charge.ready,
                    "lives": charge.lives,
                    "last_end": charge.last_end,
                }
            )
        write_file(self._record, json.dumps(rows, indent=1))

    def read_record(self) -> list[dict[str, Any]] | None:
        """The last note of a supervisor that is up or did not end in order, else None."""
        try:
            rows: list[dict[str, Any]] = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        return rows

    def end_recorded(self) -> None:
        """End the processes that a killed supervisor left (they end by themselves, but not if
        they were stopped). The database may stay: it is taken over."""
        processes.end(
            [
                Process(row["pid"], row["start"])
                for row in self.read_record() or []
                if row["pid"] and row["name"] != DATABASE
            ],
            grace_s=5.0,
        )

    def clear_record(self) -> None:
        """Everything ended in order."""
        self._record.unlink(missing_ok=True)


DATABASE = "PostgreSQL"
"""The database's name among the charges."""


def packaged(directory: str) -> Path:
    """A directory that is packed into the wheel as `jedi/_NAME` and lies beside the package in a
    checkout."""
    package = Path(jedi.__file__).parent
    installed = package / f"_{directory}"
    return installed if installed.is_dir() else package.parent / directory
