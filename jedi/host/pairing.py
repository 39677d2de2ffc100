"""A home of root and its database, which lies elsewhere, know each other by an id.

Otherwise a home that was deleted and made again at its path would get its old database back: tasks
are there, their files are not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jedi.core.errors import Refused

_ID = "id"  # in the home
_HOME = "home"  # in the service root: the home's id and path


@dataclass(frozen=True, slots=True)
class Orphan:
    """A service root whose home is gone; `home` None: an earlier release made it, for a home that
    nobody knows."""

    root: Path
    home: Path | None


def check(home: Path, root: Path, *, known: bool) -> None:
    """Refused if the database in a service root belongs to another home. `known`: the home names
    the root; then it may take over one that an earlier release made, without an id."""
    if root == home or not (root / "pg").exists():
        return
    mine, (its, path) = _read(home / _ID), _home_of(root)
    if its is None and known:
        return
    if its is None or its != mine:
        once = "was once at this path" if path in (None, home) else f"is {path}"
        take = f"echo {its} > {home / _ID}" if its else f"echo {root} > {home / 'where'}"
        raise Refused(
            f"The database in {root} belongs to another home, which {once}: it has the tasks of "
            f"that home, not their files. `jedi destroy` deletes it and {home}. `{take}` takes it "
            "over. JEDI_HOME names another home.",
            code="other_home",
            home=str(home),
            root=str(root),
        )
    if path not in (None, home) and path is not None and _read(path / _ID) == its:
        raise Refused(
            f"{home} is a copy of the home {path}, which has the database in {root}. Delete "
            f"{home / 'where'} and {home / _ID} to begin with an empty one.",
            code="other_home",
            home=str(home),
            root=str(root),
        )


def note(home: Path, root: Path) -> None:
    """Let a home and its service root know each other."""
    mine = _read(home / _ID) or uuid.uuid4().hex
    if root != home and _home_of(root) != (mine, home):
        _write(home / _ID, mine)
        _write(root / _HOME, f"{mine} {home}")


def has(home: Path, root: Path) -> bool:
    """Return True unless the service root belongs to another home that exists."""
    its, path = _home_of(root)
    return root == home or path in (None, home) or _read(path / _ID) != its


def orphans(roots: Path) -> Iterator[Orphan]:
    """Service roots with a database whose home does not know them any more, or is unknown: then no
    server has them."""
    with suppress(OSError):
        for root in sorted(roots.iterdir()):
            its, home = _home_of(root)
            gone = not server(root) if home is None else _read(home / _ID) != its
            if gone and (root / "pg").exists():
                yield Orphan(root, home)


def server(root: Path) -> int:
    """The process that has the database in a service root; 0: none."""
    pid = (_read(root / "pg" / "postmaster.pid") or "").partition("\n")[0]
    return int(pid) if pid.isdigit() and Path(f"/proc/{pid}").exists() else 0


def _home_of(root: Path) -> tuple[str | None, Path | None]:
    its, _, path = (_read(root / _HOME) or "").partition(" ")
    return its or None, Path(path) if path else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().removesuffix("\n")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(f"{text}\n")
    fresh.chmod(0o644)
    fresh.replace(path)
