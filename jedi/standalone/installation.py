"""One installation: its home, its database, and who is in charge of it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

from sqlalchemy import make_url

import jedi
from jedi.agent.supervisor import Supervised
from jedi.core import clock, webhookkey
from jedi.core.errors import Forbidden, Refused, Unreachable
from jedi.core.settings import Settings, account_name, caller
from jedi.host import processes
from jedi.host.home import SERVICE_ROOTS, Home, writable, write_file
from jedi.host.pairing import Orphan, orphans
from jedi.host.processes import Process
from jedi.standalone.embedded import Embedded
from jedi.taskbuffer.schema.release import this_release

DATABASE = "PostgreSQL"
"""The database's name among the charges."""

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Installation:
    """`settings` always names a database; `embedded` is None if that is not ours."""

    home: Home
    embedded: Embedded | None
    settings: Settings

    @classmethod
    def current(cls) -> Installation:
        """As the environment says."""
        settings = Settings.from_environment()
        home = Home(settings.home)
        if settings.database_url:
            return cls(home, None, settings)
        home.check_entrance()
        embedded = Embedded(home)
        return cls(home, embedded, replace(settings, database_url=embedded.url()))

    @property
    def url(self) -> str:
        """The database, as SQLAlchemy names it."""
        return self.settings.database_url or ""

    @property
    def creator(self) -> str:
        """The account that created the home, the first operator; of an embedded database the
        account that runs it, which alone may connect: root's home may lie in another user's
        directory."""
        return caller() if self.embedded else self.home.creator

    @property
    def shown_url(self) -> str:
        """The database without its password."""
        url = make_url(self.url)
        return url.render_as_string() if url.password else self.url

    @property
    def libpq_url(self) -> str:
        """The database, as psql and its kin name it."""
        plain = make_url(self.url).set(drivername="postgresql")
        return plain.render_as_string(hide_password=False)

    def seal(self, user_name: str, clear: str) -> str:
        """A webhook's clear secret as the database may have it."""
        return webhookkey.seal(webhookkey.key_of(self.home.webhook_key), user_name, clear)

    @property
    def notify_socket(self) -> Path:
        """The socket on which children notify the supervisor that they are ready."""
        return self.home.api_socket.with_name("up.sock")

    @property
    def _record(self) -> Path:
        return self.home.path / "processes.json"

    @property
    def _running(self) -> Path:
        return self.home.path / "running.json"

    @contextmanager
    def sole(
        self, to_be: Literal["up", "down", "restore"], patience_s: float = 0.0
    ) -> Iterator[None]:
        """Be the one in charge, who brings the system up or down or restores it; Refused, naming
        the process, if another still is after `patience_s`. Forbidden in another user's home."""
        self.mine(to_be)
        self.home.make()
        deadline = clock.monotonic() + patience_s
        with self.home.lock_file.open("a+") as file:
            while not _locked(file):
                if clock.monotonic() >= deadline:
                    raise self._taken()
                time.sleep(_POLL_S)
            file.truncate(0)
            file.write(f"{os.getpid()} {processes.started(os.getpid())} {to_be}\n")
            file.flush()
            yield

    def mine(self, verb: str) -> None:
        """Forbidden in another user's home. Root's own homes may lie in a user's directory, but not
        in one where that user has a database."""
        home, me = self.home.path, os.geteuid()
        try:
            owner = home.stat().st_uid
        except FileNotFoundError:
            return
        if owner == me or (me == 0 and not (home / "pg").exists()):
            return
        name = account_name(owner)
        words = "restored" if verb == "restore" else f"brought {verb}"
        raise Forbidden(
            f"JEDI's home {home} belongs to {name}: it can be {words} by {name} alone. "
            "JEDI_HOME names another.",
            code="not_your_home",
            home=str(home),
            owner=name,
        )

    def check_admission(self) -> None:
        """Unreachable if the home's own database does not let this account in."""
        account = self.embedded and self.embedded.admitted()
        if account and account != caller():
            raise Unreachable(
                f"The database of this home lets in only the account {account}.",
                code="not_admitted",
                home=str(self.home.path),
                account=account,
            )

    def check_storage(self) -> None:
        """Refused if the storage in the home can't be written: jobs would run and lose their
        results."""
        storage = self.home.storage
        if storage.is_symlink() and not storage.is_dir():
            why = f"is a link to {storage.readlink()}, where no directory is. Mount it"
        elif storage.exists() and not writable(storage):
            why = f"can't be written by {caller()}. Change its mode or owner"
        else:
            return
        raise Refused(
            f"The storage {storage} {why}, or set JEDI_HOME to another home.",
            code="storage_unwritable",
            storage=str(storage),
        )

    def orphans(self) -> list[Orphan]:
        """Databases of this machine whose homes are gone. Only root's can outlive their homes."""
        return [*orphans(SERVICE_ROOTS)] if os.geteuid() == 0 else []

    def supervisor(self) -> Process | None:
        """The living process that keeps the system up."""
        pid, start, doing = self._in_charge()
        process = Process(pid, start)
        return process if doing == "up" and process.alive() else None

    def ours(self) -> bool:
        """This process is in charge; no longer when the home was deleted, or made anew."""
        return self._in_charge()[0] == os.getpid()

    def _in_charge(self) -> tuple[int, int, str]:
        try:
            pid, start, doing = self.home.lock_file.read_text().split()
        # never locked, somebody else's, or being written
        except (FileNotFoundError, PermissionError, ValueError):
            return 0, 0, ""
        return int(pid), int(start), doing

    def _taken(self) -> Refused:
        pid, _, doing = self._in_charge()
        sentences = {
            "up": "is already up in {} (process {}): `jedi status` shows it, `jedi down` ends it.",
            "restore": "in {} is being restored (process {}). Try again.",
            "down": "in {} is just going down (process {}). Try again.",
        }
        sentence = sentences.get(doing, "in {} is just starting. Try again.")
        where, other = self.home.path, self._other_release() if doing == "up" else ""
        message = f"JEDI {sentence.format(where, pid)}{other}"
        return Refused(message, code=f"already_{doing}", pid=pid)

    def write_record(self, children: Sequence[Supervised]) -> None:
        """Note the present processes, for `jedi status` and for the next start, which cleans up
        after a crash."""
        rows = []
        for child in children:
            process = child.process()
            rows.append(
                {
                    "name": child.name,
                    "pid": process.pid if process else None,
                    "start": process.start if process else None,
                    "ready": child.ready,
                    "lives": child.lives,
                    "last_end": child.last_end,
                }
            )
        write_file(self._record, json.dumps(rows, indent=1))

    def read_record(self) -> list[dict[str, Any]] | None:
        """The last note of a supervisor that is up or did not end in order, else None."""
        try:
            rows: list[dict[str, Any]] = json.loads(self._record.read_text())
        except (FileNotFoundError, PermissionError):
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
        for note in (self._record, self._running):
            note.unlink(missing_ok=True)

    def note_release(self, *, up: bool) -> None:
        """Note which release runs, and whether all of it is up."""
        noted = {"release": jedi.__version__, "schema": this_release().head, "up": up}
        write_file(self._running, json.dumps(noted))

    @property
    def starting(self) -> bool:
        """The system begins: not all of it is up yet."""
        noted = self._noted_release()
        return bool(self.supervisor() and noted and not noted["up"])

    def _noted_release(self) -> dict[str, Any] | None:
        try:
            noted: dict[str, Any] = json.loads(self._running.read_text())
        except (FileNotFoundError, PermissionError):
            return None
        return noted

    def _other_release(self) -> str:
        """A sentence if another release than this one runs, else empty."""
        noted = self._noted_release()
        here = {"release": jedi.__version__, "schema": this_release().head}
        there = {key: noted[key] for key in here} if noted else {}
        if there == here:
            return ""
        ran = ", ".join(f"{key} {value}" for key, value in there.items()) or "an earlier release"
        mine = ", ".join(f"{key} {value}" for key, value in here.items())
        return (
            f" There runs {ran}; this is {mine}. `jedi down`, then `jedi up` of this release, "
            "changes to it."
        )


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def packaged(directory: str) -> Path:
    """A directory that is packed into the wheel as `jedi/_NAME` and lies beside the package in a
    checkout."""
    package = Path(jedi.__file__).parent
    installed = package / f"_{directory}"
    return installed if installed.is_dir() else package.parent / directory
