"""The home's paths and accounts, on the real file system, as root or as an ordinary user."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jedi.core.errors import JediError
from jedi.host.home import DATABASE_IDS, PAYLOAD_IDS, SERVICE_ROOTS, Home, SystemAccount, exclusive
from jedi.pilot import procs

IS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    tmp_path.chmod(0o700)
    home = Home(tmp_path / "home")
    yield home
    home.discard()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_home_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_HOME", str(tmp_path / "x" / ".." / "y"))
    assert Home.current() == Home(tmp_path / "y")
    monkeypatch.setenv("JEDI_HOME", "")
    assert Home.current().path == (Path.home() / ".jedi").resolve()


def test_prepare_makes_the_directories_and_leaves_the_parents_alone(
    home: Home, tmp_path: Path
) -> None:
    umask = os.umask(0o077)
    try:
        home.prepare()
        home.prepare()
    finally:
        os.umask(umask)
    assert mode(tmp_path) == 0o700
    assert mode(home.socket_dir) == 0o700
    assert mode(home.work) == 0o755
    assert home.logs.is_dir() and home.storage.is_dir()
    assert not home.pg.exists()
    if not IS_ROOT:
        assert home.root == home.path
        assert not (home.path / "where").exists()


@pytest.mark.parametrize("given", [0o700, 0o750, 0o755])
def test_logs_and_storage_are_no_more_readable_than_the_home(
    home: Home, tmp_path: Path, given: int
) -> None:
    """Also those of an older release; what a link leads to is somebody's own matter."""
    elsewhere = tmp_path / "elsewhere"
    for directory in (home.path, home.logs, elsewhere):
        directory.mkdir()
        directory.chmod(0o755)
    home.path.chmod(given)
    home.storage.symlink_to(elsewhere)
    home.prepare()
    assert (mode(home.path), mode(home.logs), mode(elsewhere)) == (given, given, 0o755)
    home.storage.unlink()
    home.prepare()
    assert mode(home.storage) & ~given == 0


def test_a_home_that_jedi_makes_is_its_owners_alone(home: Home) -> None:
    home.prepare()
    assert [mode(p) for p in (home.path, home.logs, home.storage)] == [0o700] * 3


@only_root
def test_roots_service_root_is_open_and_named_in_where(home: Home) -> None:
    home.prepare()
    assert home.root.parent == SERVICE_ROOTS
    assert re.fullmatch(r"[0-9a-f]{8}", home.root.name)
    assert (home.path / "where").read_text() == f"{home.root}\n"
    assert mode(home.root) == 0o755
    account = home.database_account()
    assert account is not None
    assert home.socket_dir.stat().st_uid == account.uid != 0


@only_root
def test_a_vanished_or_foreign_service_root_is_chosen_anew(home: Home, tmp_path: Path) -> None:
    home.prepare()
    chosen = home.root
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, 1, 1)
    for wrong in (foreign, tmp_path / "vanished"):
        (home.path / "where").write_text(f"{wrong}\n")
        home.prepare()
        assert home.root == chosen


@only_root
def test_the_database_has_an_account_that_no_payload_can_have(home: Home) -> None:
    """docs/reference/payload-and-processes.md#payload: never the account of the database; they have
    any account but root's, `nobody` by default. So the database's has no name, and a number of its
    own."""
    account = home.database_account()
    assert account is not None and account.uid in DATABASE_IDS
    with pytest.raises(KeyError):
        pwd.getpwuid(account.uid)
    assert list(procs.DATABASE_IDS) == list(DATABASE_IDS)
    assert not set(DATABASE_IDS) & {0, 65534, *PAYLOAD_IDS}
    accounts = {home.payload_account(f"pilot{n}") for n in range(5000)}
    assert len(accounts) > 900
    assert not {account, SystemAccount(0, 0), None} & accounts


@only_root
@pytest.mark.parametrize("owner", ["nobody", "64123", "1000"])
def test_data_that_belong_to_an_account_of_payloads_are_refused(home: Home, owner: str) -> None:
    uid = int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
    home.prepare()
    home.pg.mkdir()
    os.chown(home.pg, uid, uid)
    with pytest.raises(JediError, match=f"chown -R 63999:63999 {home.pg}") as caught:
        home.prepare()
    assert caught.value.code == "database_account"
    os.chown(home.pg, 63999, 63999)
    home.prepare()
    assert home.socket_dir.stat().st_uid == 63999


@only_root
def test_data_of_the_systems_own_account_stay_with_it(home: Home) -> None:
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("there is no account postgres")
    home.prepare()
    home.pg.mkdir()
    os.chown(home.pg, entry.pw_uid, entry.pw_gid)
    assert home.database_account() == SystemAccount(entry.pw_uid, entry.pw_gid)


@pytest.mark.skipif(IS_ROOT, reason="needs an ordinary user")
def test_an_ordinary_user_works_as_itself(home: Home) -> None:
    assert home.database_account() is None
    assert home.payload_account("pilot") is None


@pytest.mark.parametrize("name", ["deep/" * 20, "odd , 'name\""])
def test_sockets_get_a_short_plain_path_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = Home(tmp_path / name)
    if IS_ROOT:  # whose service root would do: let it be this one
        home.path.mkdir(parents=True)
        (home.path / "where").write_text(f"{home.path}\n")
    home.prepare()
    again = Home(home.path)
    again.prepare()
    base = home.api_socket.parent
    assert again.socket_dir == home.socket_dir == base / "s"
    assert base != home.root and mode(base) == 0o755
    assert len(str(home.socket_dir)) < 60
    home.discard()
    assert not base.exists() and not home.path.exists()


def test_the_lock_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with lock.open("a") as other:
        with exclusive(lock), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@only_root
def test_a_home_made_again_at_its_path_is_refused_its_old_database(home: Home) -> None:
    home.prepare()
    home.pg.mkdir()
    home.prepare()
    shutil.rmtree(home.path)
    with pytest.raises(JediError, match="was once at this path"):
        home.prepare()
    assert not (home.path / "where").exists()
    home.discard()
    assert not home.root.exists()
