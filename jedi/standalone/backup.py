"""`jedi db backup` and `jedi db restore`: all that JEDI knows, in one file of pg_dump.

A backup is a snapshot of one instant and disturbs nobody. Only an empty database is restored into.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, make_url, text

from jedi.core import clock
from jedi.core.errors import Forbidden, JediError, NotFound, Refused
from jedi.core.settings import caller
from jedi.ddm import factory
from jedi.host import processes
from jedi.host.home import Home
from jedi.service.system import restoring
from jedi.standalone import binaries
from jedi.standalone.installation import Installation
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect, reachable
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.schema.release import VERSION_TABLE, this_release
from jedi.taskbuffer.users import users

_ENDPOINTS = re.compile(
    rb"^COPY \S*jedi_ddm_endpoints \((.*)\) FROM stdin;\n((?:.*\n)*?)\\\.$", re.MULTILINE
)
_REVISION = re.compile(rb"^COPY \S+ \(version_num\) FROM stdin;\n(\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Restored:
    """`jobs` that ran at the time of the backup are tried again; `files` that were made since were
    removed; `unseen` ones, by endpoint, wait to be merged until it is an endpoint again."""

    file: Path
    jobs: int
    files: int
    unseen: dict[str, list[str]]


def backup(installation: Installation, target: Path) -> Path:
    """Write a backup to a file, or to a new file in a directory, while everything goes on; the
    file, readable by its owner alone. It is there whole or not at all. A name without an ending
    (`.dump`) means a directory, which is made if it is not there."""
    if target.is_dir() or not (target.exists() or target.suffix):
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        target /= f"jedi-{clock.now():%Y%m%dT%H%M%SZ}.dump"
    if target.exists():
        raise Refused(f"{target} exists: name a new file, or a directory.", code="backup_exists")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    engine = connect(installation.url, "jedi backup", pool_size=1)
    with reachable(engine):
        major = _major(engine)
    engine.dispose()
    part.unlink(missing_ok=True)
    part.touch(0o600)
    try:
        _call(
            installation,
            major,
            "pg_dump",
            "--format=custom",
            f"--file={part}",
            *_database(installation),
        )
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def restore(installation: Installation, source: Path) -> Restored:
    """Make the database of this home, which must be empty and not in use, from a backup.

    Refused if it is not empty, if the backup is none of JEDI or of a newer release, and while a
    home is up in which storage lies that the backup knows: its outputs would be removed. An older
    one is brought to the schema of this release. Forbidden for others than the account that created
    this home; it is an operator afterwards, since the backup's may not exist here.
    """
    if not source.is_file():
        raise NotFound(f"There is no file {source}.", code="backup_missing", file=str(source))
    with installation.sole("restore"):
        installation.home.prepare()
        creator = installation.creator
        if caller() != creator:
            raise Forbidden(
                f"{installation.home.path} is a home of {creator}: restore into one of your own.",
                code="not_operator",
            )
        if installation.embedded:
            installation.embedded.start()
        engine = connect(installation.url, "jedi restore", pool_size=1)
        try:
            with reachable(engine):
                _fill(installation, engine, source)
                with engine.begin() as tx:
                    users.PUT_USER.run(tx, user=creator, role="operator", gridpref=None, cap=None)
                    done = restoring.go_on(tx, factory.load(tx, knobs.load(tx)))
        finally:
            engine.dispose()
            if installation.embedded:
                installation.embedded.stop()
    return Restored(source, *done)


def _fill(installation: Installation, engine: Engine, source: Path) -> None:
    if not migrate.empty(engine):
        raise Refused(
            f"The database {installation.shown_url} is not empty: restore into a new home.",
            code="database_not_empty",
        )
    major = _major(engine)
    tables = [f"--table={name}" for name in (VERSION_TABLE, "jedi_ddm_endpoints")]
    output = _call(
        installation, major, "pg_restore", "--data-only", *tables, "--file=-", str(source)
    )
    match = _REVISION.search(output)
    revision = match[1].decode() if match else None
    if revision is None or not migrate.known(revision):
        what = f"of a newer release (schema {revision})" if revision else "no backup of JEDI"
        passage = this_release().passage(revision)
        raise Refused(
            f"{source} is of no release. {passage}" if passage else f"{source} is {what}.",
            code="backup_unfit",
            file=str(source),
        )
    _nobody_else(installation, output)
    how = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    _call(installation, major, "pg_restore", *how, *_database(installation), str(source))
    migrate.upgrade(engine, seal=installation.seal)


def _nobody_else(installation: Installation, output: bytes) -> None:
    """Refused if a running home has its storage among the endpoints of the backup."""
    match = _ENDPOINTS.search(output)
    columns, rows = match.groups() if match else (b"path", b"")
    number = columns.split(b", ").index(b"path")
    paths = [os.fsdecode(row.split(b"\t")[number]) for row in rows.splitlines()]
    roots = [Path(path).resolve() for path in paths if path.startswith("/")]  # not every one has
    for above in {parent for root in roots for parent in root.parents}:
        other = Installation(Home(above), None, installation.settings)
        if above != installation.home.path and (supervisor := other.supervisor()):
            raise Refused(
                f"JEDI is up in {above} (process {supervisor.pid}), whose storage this backup "
                f"knows: end it first (`JEDI_HOME={above} jedi down`).",
                code="storage_in_use",
            )


def _major(engine: Engine) -> int:
    with engine.connect() as connection:
        number = connection.scalar(text("SHOW server_version_num"))
    return int(number or 0) // 10_000


def _database(installation: Installation) -> list[str]:
    """Arguments that name the database; the password is in the environment."""
    url = make_url(installation.libpq_url)._replace(password=None)  # `set` takes None for "as is"
    return [f"--dbname={url.render_as_string()}"]


def _call(installation: Installation, major: int, program: str, *arguments: str) -> bytes:
    """Run a program of PostgreSQL; return its output."""
    password = make_url(installation.url).password
    environment = {**os.environ, "LC_ALL": "C"} | ({"PGPASSWORD": password} if password else {})
    command = [str(binaries.client(program, major)), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()[:1000]
        output = output or processes.ended(done.returncode)  # a damaged file may kill pg_restore
        raise JediError(f"{program} failed: {output}", code="backup_failed", program=program)
    return done.stdout
