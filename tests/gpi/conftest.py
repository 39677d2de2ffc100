"""A home of the client for each test, with fresh registries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.gpi.interfaces import Store
from jedi_client.gpi.local.backend import LocalBackend
from jedi_client.gpi.session import SESSION
from jedi_client.gpi.store.remote import RemoteStore
from jedi_client.gpi.store.sqlite_store import SqliteStore
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from support.bench import RUNNERS, BenchRunner
from support.databases import drop_database, new_database
from support.local_jobs import helper_of, wait
from support.service_process import bare_world, served
from support.stores import Opens

from jedi.host.home import Home
from jedi.taskbuffer.db.engine import connect


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """JEDI_CLIENT_HOME of the test; the session's registries are there, and empty."""
    place = tmp_path / "home"
    monkeypatch.setenv("JEDI_CLIENT_HOME", str(place))
    monkeypatch.delenv("JEDI_CLIENT_BACKEND", raising=False)
    SESSION.close()
    yield place
    SESSION.close()


@pytest.fixture
def local(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    """Backend Local, whose helpers end soon; the test waits for their ends."""
    monkeypatch.setenv("JEDI_HELPER_IDLE_S", "0.3")
    yield LocalBackend(home=home)
    wait(lambda: helper_of(home) is None)


@pytest.fixture
def runner(home: Path) -> Iterator[BenchRunner]:
    """A backend of the tests' own with real bulk: Bench()."""
    RUNNERS[""] = BenchRunner()
    yield RUNNERS[""]
    RUNNERS.clear()


@pytest.fixture
def emulated(runner: BenchRunner) -> BenchRunner:
    """The same backend with an emulated bulk."""
    runner.bulk = False
    return runner


@pytest.fixture(scope="module")
def socket_of_service(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The socket of a service; each test has a registry of its own."""
    url = new_database(server, template)
    engine, home = connect(url), tmp_path_factory.mktemp("service")
    world = bare_world(engine, home)
    with served(world):
        yield Home(home).api_socket
    Home(home).discard()
    engine.dispose()
    drop_database(server, url)


@pytest.fixture(params=["sqlite", "remote"])
def opens(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opens]:
    """Open a session of one registry; several sessions may be open. Sessions of a remote one use
    one lease here: tests/gpi/test_gpi_remote_store.py has its rules."""
    opened: list[Store] = []
    name = request.node.name[:200]
    place = request.getfixturevalue("socket_of_service") if request.param == "remote" else tmp_path

    def open_session(*, read_only: bool = False) -> Store:
        if request.param == "sqlite":
            opened.append(SqliteStore(tmp_path / "registry.db", read_only=read_only))
            return opened[-1]
        made = RemoteStore(lambda: Client(Profile(f"unix:{place}")), name=name, read_only=True)
        opened.append(made)
        if not read_only:
            leases = [one._lease for one in opened[:-1] if isinstance(one, RemoteStore)]
            if held := [lease for lease in leases if lease]:
                assert made.read_only
                made._hold(held[0])
            else:
                made.take_over()
        return made

    yield open_session
    for one in opened:
        one.close()
