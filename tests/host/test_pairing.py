"""A home and its database know each other: nobody gets somebody else's by the path."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from jedi.core.errors import NotFound, Refused
from jedi.core.settings import Settings
from jedi.host import pairing
from jedi.host.home import Home
from jedi.host.pairing import Orphan
from jedi.standalone import destroying
from jedi.standalone.installation import Installation


def begin(home: Path, root: Path, *, known: bool = False) -> None:
    """Prepare a home with its database, as a start does."""
    home.mkdir(exist_ok=True)
    pairing.check(home, root, known=known)
    (root / "pg").mkdir(parents=True, exist_ok=True)
    pairing.note(home, root)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "roots" / "01234567"


def test_a_home_made_again_at_its_path_does_not_get_the_old_database(
    home: Path, root: Path
) -> None:
    """The tasks would be there, and their storage not. The sentence has the remedies."""
    begin(home, root)
    begin(home, root)
    id = (home / "id").read_text()
    shutil.rmtree(home)
    for _ in range(2):  # the refusal leaves nothing that would hide it
        with pytest.raises(Refused, match="was once at this path") as caught:
            begin(home, root)
    assert "`jedi destroy` deletes it" in caught.value.sentence
    (home / "id").write_text(id)
    begin(home, root)


def test_a_home_that_moved_keeps_its_database_and_a_copy_does_not_get_it(
    home: Path, root: Path, tmp_path: Path
) -> None:
    begin(home, root)
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    with pytest.raises(Refused, match="is a copy of the home"):
        begin(copy, root, known=True)
    assert not pairing.has(copy, root)
    shutil.rmtree(home)
    begin(copy, root, known=True)
    assert pairing.has(copy, root)
    assert [*pairing.orphans(root.parent)] == []


def test_a_database_of_an_earlier_release_is_taken_over_by_the_home_that_names_it(
    home: Path, root: Path
) -> None:
    (root / "pg").mkdir(parents=True)
    with pytest.raises(Refused, match="where` takes it over"):
        begin(home, root)
    assert [*pairing.orphans(root.parent)] == [Orphan(root, None)]
    begin(home, root, known=True)
    assert [*pairing.orphans(root.parent)] == []


def test_a_database_without_its_home_is_listed_and_can_be_deleted(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destroying, "SERVICE_ROOTS", root.parent)
    begin(home, root)
    with pytest.raises(Refused, match="is no database of a home that is gone"):
        destroying.destroy_orphan(root)
    shutil.rmtree(home)
    assert [*pairing.orphans(root.parent)] == [Orphan(root, home)]
    (root / "pg/postmaster.pid").write_text(f"{os.getpid()}\n")
    with pytest.raises(Refused, match=f"process {os.getpid()}"):
        destroying.destroy_orphan(root)
    (root / "pg/postmaster.pid").unlink()
    destroying.destroy_orphan(root)
    assert not root.exists() and [*pairing.orphans(root.parent)] == []


def test_destroy_deletes_a_home_that_is_down(home: Path) -> None:
    place = Installation(Home(home), None, Settings(home, "postgresql://nowhere"))
    with pytest.raises(NotFound, match="There is no home of JEDI"):
        destroying.destroy(place)
    assert not home.exists()
    place.home.prepare()
    root = place.home.root
    with place.sole("up"), pytest.raises(Refused, match="already up"):
        destroying.destroy(place)
    destroying.destroy(place)
    assert not home.exists() and not root.exists()
