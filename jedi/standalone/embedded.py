"""The embedded database: a PostgreSQL of our own on a unix socket, no TCP, nothing to configure.

The server outlives its starter; the next `start()` takes it over. Every step is safe against
SIGKILL of anybody at any point: data appear by rename, leftovers are recognised by a token in their
command line (which zombies and recycled process ids do not have), and a lock file keeps two
starters apart.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg

from jedi.core import clock
from jedi.core.errors import JediError, NotYet
from jedi.core.settings import caller
from jedi.host import logfiles
from jedi.host.home import Home, SystemAccount, as_account, exclusive, maker_account, write_file
from jedi.standalone.binaries import find

DATABASE = "jedi"
SUPERUSER = "postgres"
_MAP = "jedi"
"""The name of the map of accounts to the superuser."""

_IDENT = "pg_ident.conf"

PORT = 5432
POLL_S = 0.02
STOP_S = 60.0
"""Maximum seconds of a fast shutdown (sessions end, PostgreSQL writes a checkpoint)."""

START_S = 86_400.0
"""Maximum seconds of crash recovery; pg_ctl notices by itself when the server dies."""

SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "max_connections": 200,
    "shared_buffers": "256MB",
    "fsync": "on",
    "max_wal_size": "4GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # A forgotten transaction keeps dead rows: claims fell from 9,600 to 1,600 a second in 16 s.
    "idle_in_transaction_session_timeout": "5min",
    "autovacuum_naptime": "30s",
    "autovacuum_vacuum_scale_factor": 0.05,
    "autovacuum_analyze_scale_factor": 0.05,
    "autovacuum_vacuum_cost_delay": "1ms",
    # Containers give /dev/shm 64 MB or nothing: what parallel queries and statistics share comes
    # from the server's own memory, and when that is used up from files in the data directory.
    "dynamic_shared_memory_type": "mmap",
    "min_dynamic_shared_memory": "32MB",
    "log_line_prefix": "%m [%p] %a ",
    "log_checkpoints": "off",
}


class Embedded:
    """The PostgreSQL server of one home; `settings` come before the usual ones."""

    def __init__(self, home: Home, **settings: object) -> None:
        self.home = home
        self.settings = {**SETTINGS, **settings}

    def start(self, patience_s: float = START_S) -> None:
        """Return when the database answers, having started, taken over or awaited the server.

        Raises JediError when there are no fitting programs or the server refuses to start or to
        let us in; NotYet when it is still starting or recovering after `patience_s`.
        """
        self.home.prepare()
        deadline = clock.monotonic() + patience_s
        with exclusive(self.home.root / "pg.lock"):
            while not self._answers():
                if self.stopping():
                    self._halt()
                elif not self.running():
                    self._launch(max(1, math.ceil(deadline - clock.monotonic())))
                elif clock.monotonic() > deadline:
                    raise NotYet(
                        f"PostgreSQL (process {self.pid()}) is starting, or recovers from a "
                        "crash: it takes no connections until it has replayed its last writes "
                        f"(see {self.log}).",
                        log=str(self.log),
                    )
                else:
                    time.sleep(POLL_S)

    def stop(self) -> None:
        """Shut the server down; nothing happens when there is none."""
        if self.pid() is not None:
            with exclusive(self.home.root / "pg.lock"):
                self._halt()

    def remove(self) -> None:
        """End the server, in whatever state it is, and delete its home and all data."""
        self._clear()
        self.home.discard()

    def running(self) -> bool:
        """The server lives and can be found; it may still be recovering."""
        return self.pid() is not None and (self.home.socket_dir / f".s.PGSQL.{PORT}").exists()

    def stopping(self) -> bool:
        """True if the living server is ending. A smart shutdown (SIGTERM) waits for all sessions,
        and takes no new ones: with agents, which never leave, it has no end."""
        return self.pid() is not None and self._status() == "stopping"

    def pid(self) -> int | None:
        """The process id of the living server."""
        try:
            pid = int(self._pid_lines()[0])
        except (IndexError, ValueError):  # no such file, or it is being written
            return None
        return pid if self._ours(pid) else None

    def how_it_ended(self) -> str:
        """A phrase about the end of the server, which is not our child: an orderly end removes its
        file."""
        if self.pid() is not None:
            return "its socket is gone"
        return "killed (SIGKILL), or crashed" if self._pid_lines() else "shut down"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.home.logs / "postgresql.log"

    def url(self) -> str:
        """The SQLAlchemy URL; the port is there because PGPORT would change it otherwise."""
        return (
            f"postgresql+psycopg://{SUPERUSER}@/{DATABASE}?host={self.home.socket_dir}&port={PORT}"
        )

    def admitted(self) -> str | None:
        """The only account that the database lets in; None before its first start. Root finds it
        in homes of others, too, whose service root is the home."""
        for directory in (self.home.root, self.home.path):
            with suppress(OSError):
                line = (directory / _IDENT).read_text().partition("\n")[0]
                return line.split('"')[1]
        return None

    def _token(self) -> str:
        """Stands in the command line of everything we start: unique, and safe in a shell."""
        return "jedi-" + hashlib.sha256(os.fsencode(self.home.pg)).hexdigest()[:16]

    def _ours(self, pid: int) -> bool:
        command = _command_line(pid)
        return self._token() in command or str(self.home.pg) in command  # started by hand: -D pg

    def _pid_lines(self) -> list[str]:
        try:
            return (self.home.pg / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _answers(self) -> bool:
        """The server takes connections, and the database is there."""
        if not self.running() or self._status() != "ready":
            return False
        for last in (False, True):  # what fails while it recovers may be over when we look why
            try:
                self._create_database()
                break
            except psycopg.Error as error:
                if not self.running() or self._rejects():
                    return False
                if last:
                    why = str(error).partition("\n")[0]
                    message = f"PostgreSQL runs, but refuses the connection: {why}"
                    raise JediError(message, code="database_start", log=str(self.log)) from error
        return True

    def _status(self) -> str:
        """The server's state in its own word: starting, ready, stopping; empty while it reports
        none. While it recovers from the crash of one of its processes it reports ready."""
        return "".join(self._pid_lines()[7:]).strip()

    def _rejects(self) -> bool:
        """The server lives, but takes no connections now."""
        where = psycopg.conninfo.make_conninfo(
            host=str(self.home.socket_dir), port=PORT, user=SUPERUSER, dbname="postgres"
        )
        return psycopg.pq.PGconn.ping(where.encode()) == psycopg.pq.Ping.REJECT

    def _launch(self, patience_s: int) -> None:
        self._clear()
        account = self.home.database_account()
        made_by = self.home.pg / "PG_VERSION"
        major = int(made_by.read_text()) if made_by.exists() else None
        programs = find(major, account, self.home.pgbin)
        if major is None:
            self._initdb(programs, account)
        config = self._write_settings()
        options = f"-c cluster_name={self._token()} -c config_file={shlex.quote(str(config))}"
        # The data directory is named by PGDATA: pg_ctl would paste an argument into a shell line.
        command = [programs / "pg_ctl", "start", "-s", "-w", "-t", patience_s, "-o", options]
        try:
            self._run(command, account)
        except JediError:  # it died, or it only takes its time
            if self.pid() is None:
                raise

    def _write_settings(self) -> Path:
        """Write the server's settings and its access rule: only the account that runs JEDI, which
        the kernel names, even if others can reach the socket."""
        root = self.home.root
        hba, ident = root / "pg_hba.conf", root / _IDENT
        write_file(hba, f"local all all peer map={_MAP}\n")
        # Who may be the superuser may be any role; before PostgreSQL 16 `all` is the name of one.
        roles = (SUPERUSER, "all")
        write_file(ident, "".join(f'{_MAP} "{caller()}" {role}\n' for role in roles))
        settings = {
            **self.settings,
            "unix_socket_directories": self.home.socket_dir,
            "hba_file": hba,
            "ident_file": ident,
        }
        config = root / "postgresql.conf"
        lines = ["# Written at each start, instead of pg/postgresql.conf: use ALTER SYSTEM.\n"]
        lines += [f"{name} = {_quoted(value)}\n" for name, value in settings.items()]
        write_file(config, "".join(lines))
        return config

    def _clear(self) -> None:
        """End the rest of an earlier server, and remove its claims.

        PostgreSQL believes a lock file whose process id exists, also a zombie or a stranger; and it
        refuses to start while a child of the dead server still works.
        """
        self._halt()
        while leftovers := _processes(self._token()):
            for pid in leftovers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)
        (self.home.pg / "postmaster.pid").unlink(missing_ok=True)
        (self.home.socket_dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _halt(self) -> None:
        pid = self.pid()
        if pid is None:
            return
        deadline = clock.monotonic() + STOP_S
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
            while self._ours(pid):
                if clock.monotonic() > deadline:
                    os.kill(pid, signal.SIGQUIT)  # at once; the next start recovers
                time.sleep(POLL_S)

    def _initdb(self, programs: Path, account: SystemAccount | None) -> None:
        """Make the data directory aside and move it into its place when it is complete."""
        for abandoned in self.home.root.glob("pg-new-*"):
            shutil.rmtree(abandoned, ignore_errors=True)  # its initdb may still be writing
        fresh = Path(tempfile.mkdtemp(prefix="pg-new-", dir=self.home.root))
        maker = maker_account(account) if account else None
        if maker:
            os.chown(fresh, maker.uid, maker.gid)
        options = f"-U {SUPERUSER} --auth-local=peer --auth-host=reject -E UTF8 --locale=C -k"
        self._run([programs / "initdb", "-D", fresh, *options.split()], maker)
        if account and account != maker:
            _hand_over(fresh, account)
        fresh.rename(self.home.pg)

    def _run(self, command: list[object], account: SystemAccount | None) -> None:
        """Run a PostgreSQL program as `account`; it and its children write to our log."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
        logfiles.rotate(self.log)
        with self.log.open("ab") as output:
            begin = output.tell()
            status = subprocess.call(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={**kept, "LC_ALL": "C", "PGDATA": str(self.home.pg)},
                **as_account(account),
            )
        if status != 0:
            message = self.log.read_bytes()[begin:].decode(errors="replace").strip()
            raise JediError(
                f"PostgreSQL: {Path(str(command[0])).name} failed: {message[-1000:]} "
                f"(log: {self.log})",
                code="database_start",
                log=str(self.log),
            )

    def _create_database(self) -> None:
        with psycopg.connect(
            host=str(self.home.socket_dir),
            port=PORT,
            user=SUPERUSER,
            dbname="postgres",
            autocommit=True,
        ) as connection:
            known = "SELECT FROM pg_database WHERE datname = %s"
            if not connection.execute(known, [DATABASE]).rowcount:
                connection.execute(f"CREATE DATABASE {DATABASE}")


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _hand_over(directory: Path, account: SystemAccount) -> None:
    for path in (directory, *directory.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is none or it is a zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).replace("\0", " ")
        except OSError:
            return ""
    ps = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(ps, capture_output=True, text=True, check=False).stdout


def _processes(token: str) -> list[int]:
    """The processes with `token` in their command line (none without /proc)."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in numbers if token in _command_line(pid)]
