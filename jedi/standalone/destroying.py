"""`jedi destroy`: deletes a home with its database, or a database whose home is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from jedi.core.errors import NotFound, Refused
from jedi.host import pairing
from jedi.host.home import SERVICE_ROOTS
from jedi.standalone.installation import Installation

_MARKS = ("up.lock", "prepare.lock", "where")


def must_be_there(installation: Installation) -> None:
    """NotFound: it is not a home of JEDI."""
    home = installation.home.path
    if not any((home / mark).exists() for mark in _MARKS):
        raise NotFound(f"There is no home of JEDI at {home}. JEDI_HOME names one.", code="no_home")


def destroy(installation: Installation) -> None:
    """Delete the home and its own database. Refused if the system is up; NotFound."""
    must_be_there(installation)
    home, embedded = installation.home, installation.embedded
    with installation.sole("down"):
        installation.end_recorded()
        if embedded and pairing.has(home.path, home.root):
            embedded.remove()
        else:
            home.discard()


def destroy_orphan(root: Path) -> None:
    """Delete a database whose home is gone. Refused if it is none, or if it runs."""
    known = {one.root: one.home for one in pairing.orphans(SERVICE_ROOTS)}
    if known.get(root) is None:
        raise Refused(
            f"{root} is no database of a home that is gone. `jedi status` lists those.",
            code="no_orphan",
            root=str(root),
        )
    if pid := pairing.server(root):
        raise Refused(
            f"A server (process {pid}) has the database in {root}: end it first.",
            code="no_orphan",
            root=str(root),
            pid=pid,
        )
    shutil.rmtree(root)
