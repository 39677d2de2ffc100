"""The home, the service root behind it, and the accounts that work there.

For an ordinary user the service root is the home itself. Root may not run PostgreSQL, and the
account that does cannot enter a home below a 0700 directory: so root's service root is
/var/lib/jedi/<8 hex of the home's path>, or a fresh temporary directory, named in HOME/where.
No directory that was there before has its mode changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jedi.core.errors import JediError, Unreachable
from jedi.core.settings import account_name, caller
from jedi.host import pairing

SERVICE_ROOTS = Path("/var/lib/jedi")
PAYLOAD_IDS = range(64000, 65000)
"""Numeric users and groups of payloads; they need no name."""

DATABASE_IDS = range(63900, 64000)
"""Numeric users and groups of root's databases. No pilot runs payloads under them."""

SYSTEMS = "postgres"
"""The account of a distribution's own databases, which no pilot runs payloads under either."""

LENDERS = (SYSTEMS, "daemon", "bin", "sys")
"""Accounts with a name and without payloads."""

SOCKET_PATH_BYTES = 103  # sun_path without its NUL: 103 on macOS, 107 on Linux
LONGEST_SOCKET = "s/.s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """A user of this machine that root can become."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one installation; only `prepare()` and `discard()` touch the disk."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.expanduser().resolve())

    @classmethod
    def current(cls) -> Home:
        """The home named by JEDI_HOME, else ~/.jedi."""
        return cls(Path(os.environ.get("JEDI_HOME") or "~/.jedi"))

    @property
    def creator(self) -> str:
        """The account that created the home; that of this process as long as there is none."""
        try:
            return account_name(self.path.stat().st_uid)
        except FileNotFoundError:
            return caller()

    @property
    def root(self) -> Path:
        """The service root."""
        default = _named_root(self.path) if os.geteuid() == 0 else self.path
        return self._noted("where") or default

    @property
    def pg(self) -> Path:
        """PostgreSQL's data directory."""
        return self.root / "pg"

    @property
    def pgbin(self) -> Path:
        """PostgreSQL's programs, where they had to be copied."""
        return self.root / "pgbin"

    @property
    def work(self) -> Path:
        """The payloads' directories."""
        return self.root / "work"

    @property
    def socket_dir(self) -> Path:
        """PostgreSQL's socket; only the database's account (and root) may enter."""
        return self._sockets / "s"

    @property
    def api_socket(self) -> Path:
        """The service's unix socket."""
        return self._sockets / "api.sock"

    @property
    def certificate(self) -> Path:
        """The certificate of the service for callers on other machines; the file may be missing."""
        return self.path / "service.crt"

    @property
    def private_key(self) -> Path:
        """The private key of the certificate."""
        return self.path / "service.key"

    @property
    def page_address(self) -> Path:
        """Has the address of the pages while the service runs."""
        return self.path / "page.url"

    @property
    def page_port(self) -> Path:
        """Has the last port of the pages, after the value of the knob api.page."""
        return self.path / "page.port"

    @property
    def page_url(self) -> str | None:
        """The address of the pages; None: the service does not run, or has no pages."""
        try:
            return self.page_address.read_text().strip()
        except FileNotFoundError:
            return None

    @property
    def webhook_key(self) -> Path:
        """Makes the secrets that sign posts to webhooks."""
        return self.path / "webhook.key"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def supervisor_log(self) -> Path:
        """Log of `jedi up --detach`."""
        return self.logs / "supervisor.log"

    @property
    def pilot_logs(self) -> Path:
        """Directory of the pilots' logs, one file each."""
        return self.logs / "pilots"

    @property
    def storage(self) -> Path:
        """The default root of data management."""
        return self.path / "storage"

    @property
    def lock_file(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.path / "up.lock"

    @property
    def _sockets(self) -> Path:
        return self._noted("sockets") or self.root

    def database_account(self) -> SystemAccount | None:
        """The account that runs PostgreSQL; None stands for the present user. Data stay with their
        owner.

        Root's database has an account that no payload can have, since that account is the
        database's superuser. JediError if the data belong to another one.
        """
        if os.geteuid() != 0:
            return None
        if not self.pg.exists():
            return _unnamed_account()
        owner = self.pg.stat()
        if owner.st_uid not in (0, *DATABASE_IDS, *_uids(SYSTEMS)):
            new = _unnamed_account()
            raise JediError(
                f"The database in {self.pg} belongs to user {owner.st_uid}, which payloads may "
                f"use, too: they would become its superuser. `chown -R {new.uid}:{new.gid} "
                f"{self.pg}` gives it its own account, once `ps -u {owner.st_uid}` shows "
                "no process `postgres` of it.",
                code="database_account",
                uid=owner.st_uid,
            )
        return SystemAccount(owner.st_uid, owner.st_gid)

    def payload_account(self, pilot: str) -> SystemAccount | None:
        """The account that runs a pilot's payloads, never the database's account; None: the present
        user.

        An account for each pilot: payloads under one could end each other, and one that forks
        would use up the processes that the others may have.
        """
        if os.geteuid() != 0:
            return None
        own = PAYLOAD_IDS[zlib.crc32(pilot.encode()) % len(PAYLOAD_IDS)]
        return SystemAccount(own, own)

    def check_entrance(self) -> None:
        """Unreachable if this process may not enter the home."""
        try:
            (self.path / "where").lstat()
        except PermissionError as error:
            closed = next(place for place in (self.path, *self.path.parents) if _seen(place))
            owner = account_name(closed.stat().st_uid)
            what = "it" if closed == self.path else str(closed)
            raise Unreachable(
                f"You may not enter JEDI's home {self.path}: {what} belongs to {owner}. JEDI_HOME "
                "names another.",
                code="home_closed",
                home=str(self.path),
                owner=owner,
            ) from error
        except OSError:  # there is no home yet: others report that
            return

    def make(self) -> None:
        """Make the home itself, for its owner alone: who made it before, or opens it later, says
        by its mode who may look at it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.path.mkdir(0o700)

    def _close(self, directory: Path) -> None:
        """Restrict a directory to the users who may enter the home. Links to other users'
        directories stay unchanged."""
        mode, ours = directory.lstat().st_mode, self.path.stat().st_mode
        if stat.S_ISDIR(mode) and mode & 0o077 & ~ours:
            directory.chmod(stat.S_IMODE(mode) & (ours | 0o7700))

    def prepare(self) -> None:
        """Make the directories; the service root and the sockets' place are chosen only once.
        Refused if the database in the service root belongs to another home."""
        self.make()
        with exclusive(self.path / "prepare.lock"):
            account = self.database_account()
            pairing.check(self.path, self.root, known=self._noted("where") is not None)
            if account and not owned(self._noted("where")):
                self._note("where", _service_root(self.path, account))
            pairing.note(self.path, self.root)
            if not _fits_socket(self.root) and not owned(self._noted("sockets")):
                self._note("sockets", _fresh_directory())
            make_directory(self.socket_dir, 0o700, account)
            make_directory(self.work, 0o755)
            for directory in (self.logs, self.storage):
                directory.mkdir(exist_ok=True)
                self._close(directory)

    def discard(self) -> None:
        """Delete the home and its data elsewhere, unless these belong to a home of which this one
        is a copy; nothing of it may be running."""
        ours = {self.root, self._sockets} if pairing.has(self.path, self.root) else set()
        for directory in {self.path, *ours}:
            shutil.rmtree(directory, ignore_errors=True)

    def _noted(self, name: str) -> Path | None:
        try:
            return Path((self.path / name).read_text().removesuffix("\n"))
        except FileNotFoundError:
            return None

    def _note(self, name: str, directory: Path) -> None:
        write_file(self.path / name, f"{directory}\n")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; the kernel gives it back when the holder dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def as_account(account: SystemAccount | None) -> dict[str, Any]:
    """Arguments of `subprocess` with which the child becomes `account`, in no other group."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def make_directory(path: Path, mode: int, owner: SystemAccount | None = None) -> None:
    """Make one of our own directories with this mode, whatever the umask."""
    path.mkdir(exist_ok=True)
    path.chmod(mode)
    if owner:
        os.chown(path, owner.uid, owner.gid)


def write_file(path: Path, text: str) -> None:
    """Write a file readable by all, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)


def maker_account(owner: SystemAccount) -> SystemAccount:
    """Return the account that creates the data of `owner`: initdb insists on an account with a
    name. JediError if there is none that payloads can't have."""
    if has_name(owner.uid):
        return owner
    for name in LENDERS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return SystemAccount(entry.pw_uid, entry.pw_gid)
    raise JediError(
        "Root can't run a database, and none of the accounts {', '.join(LENDERS)} exists: `useradd "
        "--system {SYSTEMS}` creates one. Or work as an ordinary user.",
        code="no_database_account",
    )


def has_name(uid: int) -> bool:
    """Return True if this machine knows the account."""
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _unnamed_account() -> SystemAccount:
    """The last of the database's accounts that is nobody's by name."""
    uid = next((n for n in reversed(DATABASE_IDS) if not has_name(n)), None)
    if uid is None:
        raise JediError(
            f"All users {DATABASE_IDS[0]} to {DATABASE_IDS[-1]} have names: root's database needs "
            "one of them for itself. Take a name away, or work as an ordinary user.",
            code="no_database_account",
        )
    return SystemAccount(uid, uid)


def _uids(name: str) -> list[int]:
    try:
        return [pwd.getpwnam(name).pw_uid]
    except KeyError:
        return []


def writable(directory: Path) -> bool:
    """Return True if this process may create files in a directory; even root may not in read-only
    mounts."""
    effective = os.access in os.supports_effective_ids
    return os.access(directory, os.W_OK | os.X_OK, effective_ids=effective)


def owned(directory: Path | None) -> bool:
    """Return True if it exists and is ours; a temporary directory may vanish and come back as
    another user's."""
    return bool(directory and directory.is_dir() and directory.lstat().st_uid == os.geteuid())


def _seen(path: Path) -> bool:
    """True if this process sees mode and owner of a path."""
    try:
        return bool(path.stat())
    except OSError:
        return False


def _fits_socket(root: Path) -> bool:
    """Sockets below `root` are short enough, and plain enough for libpq's host lists and URLs."""
    path = str(root / LONGEST_SOCKET)
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and not re.search(r"[^A-Za-z0-9/._+-]", path)


def _named_root(home: Path) -> Path:
    return SERVICE_ROOTS / hashlib.sha256(os.fsencode(home)).hexdigest()[:8]


def _service_root(home: Path, account: SystemAccount) -> Path:
    """The place in /var/lib if `account` can enter it, else a fresh directory."""
    root = _named_root(home)
    with suppress(OSError):
        if not SERVICE_ROOTS.exists():
            make_directory(SERVICE_ROOTS, 0o755)
        make_directory(root, 0o755)
        if subprocess.call(["/bin/sh", "-c", 'cd "$0"', root], **as_account(account)) == 0:
            return root
    return _fresh_directory()


def _fresh_directory() -> Path:
    """A directory with a short path, open to all: in /var/tmp, which outlives a reboot, or /tmp."""
    parent = "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/tmp"
    directory = Path(tempfile.mkdtemp(prefix="jedi-", dir=parent))
    directory.chmod(0o755)
    return directory
