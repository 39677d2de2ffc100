"""Releases: this one, and a newer one with one more migration."""

# Raw UPDATEs: the revision of the schema, as another release leaves it.

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

import jedi
from jedi.host.home import Home
from jedi.taskbuffer.schema.release import VERSION_TABLE, scripts, this_release

PACKAGE = Path(jedi.__file__).parent
HERE = PACKAGE.parent
"""The code of this release."""
NEXT = """
from alembic import op
revision, down_revision = "9000", "{head}"
def upgrade(): op.execute("ALTER TABLE jedi_tasks ADD COLUMN next text")
def downgrade(): op.execute("ALTER TABLE jedi_tasks DROP COLUMN next")
"""


def set_revision(engine: Engine, revision: str) -> None:
    """As another release leaves the database."""
    with engine.begin() as tx:
        tx.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :r"), {"r": revision})


def newer_release(place: Path) -> str:
    """A copy of JEDI with one more migration; the revision that it has."""
    shutil.copytree(PACKAGE, place / "jedi", ignore=shutil.ignore_patterns("__pycache__"))
    copied = place / "migrations"
    shutil.copytree(scripts(), copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "versions" / "9000_next.py").write_text(NEXT.format(head=this_release().head))
    return "9000"


@contextmanager
def part(
    code: Path, home: Path, url: str, *words: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """`jedi WORDS` of the release at `code`, which ends with the block."""
    known = {"PYTHONPATH": str(code), "JEDI_HOME": str(home), "JEDI_DATABASE_URL": url}
    process = subprocess.Popen(
        [sys.executable, "-m", "jedi", *words],
        env={**os.environ, **known, **environment},
        text=True,
        cwd=code,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        Home(home).discard()
