"""Whose home it is, whether it can be written, and that one home serves a database."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import Engine
from support.cli_jedi import Shell
from support.databases import drop_database, new_database

from jedi.core.errors import Forbidden, Refused
from jedi.core.log import setup
from jedi.core.settings import Settings
from jedi.host.home import Home
from jedi.standalone import down, serving, up
from jedi.standalone.detach import up_detached
from jedi.standalone.installation import Installation
from jedi.standalone.serving import Serving
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import migrate

IS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")
STRANGER = 64321


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    home = Home(tmp_path / "home")
    return Installation(home, None, Settings(home.path, "postgresql://nowhere/none"))


def unwrapped(said: str) -> str:
    return " ".join(said.split())


@contextmanager
def as_stranger() -> Iterator[None]:
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)


@only_root
def test_somebody_elses_home_is_a_sentence(installation: Installation) -> None:
    """Root's is nobody else's to end, and that of somebody with a database is not root's."""
    installation.home.make()
    (installation.home.path / "pg").mkdir()
    os.chown(installation.home.path, STRANGER, STRANGER)
    path = installation.home.path
    words = f"{path} belongs to {STRANGER}: it can be brought down by {STRANGER} alone"
    with pytest.raises(Forbidden, match=words):
        down.down(installation)
    with pytest.raises(Forbidden, match="brought up"):
        up_detached(installation, lambda: None, [], print)
    with pytest.raises(Forbidden, match="restored"), installation.sole("restore"):
        pass
    (installation.home.path / "pg").rmdir()
    installation.mine("up")
    os.chown(installation.home.path, 0, 0)
    installation.mine("down")


@only_root
def test_a_home_that_may_not_be_entered_is_a_sentence() -> None:
    """Exit code 3 and whose home it is, not a path with "Permission denied"."""
    with TemporaryDirectory(prefix="jedi-") as directory:
        above = Path(directory)
        above.chmod(0o755)
        home = above / "home"
        Home(home).make()
        profiles = str(above / "profiles.json")
        shell = Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL="", JEDI_PROFILES=profiles)
        said = f"You may not enter JEDI's home {home}: it belongs to root."
        with as_stranger():
            for words in (["status"], ["up", "--detach"]):
                assert said in unwrapped(shell.run(*words, code=3))
            told = unwrapped(shell.run("config", "list", code=3))
            assert f"You may not enter JEDI's home {home} (Permission denied)" in told
        above.chmod(0o700)
        with as_stranger():
            assert f"{above} belongs to root." in unwrapped(shell.run("status", code=3))


@only_root
def test_a_database_that_lets_in_another_account_is_a_sentence(tmp_path: Path) -> None:
    """Root, too, may not use the database of an ordinary account's home."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "pg_ident.conf").write_text('jedi "bob" postgres\njedi "bob" all\n')
    shell = Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL="")
    for words in (["status"], ["check"]):
        said = unwrapped(shell.run(*words, code=3))
        assert "The database of this home lets in only the account bob." in said


def test_a_home_that_is_not_there_is_nobodys(installation: Installation) -> None:
    installation.mine("up")
    assert not down.down(installation)


def test_storage_that_leads_nowhere_is_refused(installation: Installation, tmp_path: Path) -> None:
    installation.home.make()
    installation.home.storage.symlink_to(tmp_path / "not-mounted")
    with pytest.raises(Refused, match=r"is a link to .*not-mounted.* Mount it") as caught:
        up_detached(installation, lambda: None, [], print)
    assert caught.value.code == "storage_unwritable"
    (tmp_path / "not-mounted").mkdir()
    installation.check_storage()


@only_root
def test_storage_that_cannot_be_written_is_refused() -> None:
    """Today jobs run and lose their results. That of other endpoints is only told."""
    home = Home(Path(f"/var/tmp/jedi-test-{os.getpid()}"))
    installation = Installation(home, None, Settings(home.path, "postgresql://nowhere/none"))
    home.storage.mkdir(parents=True)
    try:
        home.path.chmod(0o755)
        home.storage.chmod(0o755)
        installation.check_storage()
        assert up._unwritable({"DISK": str(home.storage), "FAR": "/not/here"}) == []
        with as_stranger():
            with pytest.raises(Refused, match=f"{home.storage} can't be written by {STRANGER}"):
                installation.check_storage()
            (said,) = up._unwritable({"DISK": str(home.storage), "FAR": "/not/here"})
        assert said.startswith(f"The storage of DISK, {home.storage}, can't be written")
    finally:
        home.storage.rmdir()
        home.path.rmdir()


def test_one_home_serves_a_database(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "`jedi up` refuses or says where … another home serves the same database\""""
    monkeypatch.setattr(serving, "LEASE_S", 1.0)
    monkeypatch.setattr(serving, "PROLONG_S", 0.2)
    one, other, late = (
        Serving(engine, Home(tmp_path / name), setup("test")) for name in ("one", "other", "late")
    )
    one.begin()
    one.begin()  # its own is no other
    one.go_on()
    with pytest.raises(Refused, match=f"home {tmp_path}/one on .* serves this database") as caught:
        other.begin()
    assert caught.value.code == "other_home"
    one.end()
    other.begin()
    late.begin()  # the other one was killed, say: it does not prolong
    late.end()


def test_that_it_migrated_is_told(server: str, tmp_path: Path) -> None:
    url = new_database(server)
    engine = connect(url)
    installation = Installation(Home(tmp_path / "home"), None, Settings(tmp_path / "home", url))
    try:
        assert up._prepare(engine, installation, None) == []  # it was empty
        assert up._prepare(engine, installation, None) == []
        migrate.downgrade(engine, "-1")
        before, after = migrate.current(engine), migrate.head()
        assert before != after
        assert up._prepare(engine, installation, None) == [
            f"JEDI migrated the schema from {before} to {after}."
        ]
    finally:
        engine.dispose()
        drop_database(server, url)


def test_the_home_of_the_docs_is_no_package(request: pytest.FixtureRequest) -> None:
    """A home ~/jedi would lie where `import jedi` may find it."""
    root = request.config.rootpath
    texts = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("jedi/cli/*.py")]
    wrong = [path.name for path in texts if re.search(r"~/jedi(?![-\w.])", path.read_text())]
    assert wrong == []
