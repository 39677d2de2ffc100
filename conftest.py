"""A private PostgreSQL for the session, a fresh migrated database and a small world for each test.

JEDI_TEST_DATABASE_URL names a server to use instead (PostgreSQL 14 or newer, a role that may create
databases). Every pytest-xdist worker is a session of its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from sqlalchemy import Engine
from support.databases import (
    drop_database,
    drop_ended,
    drop_later,
    leave,
    new_database,
    tablespace_in_memory,
)
from support.dogs import START
from support.helpers import make_world
from support.seen import (  # noqa: F401 - pytest finds its hooks here
    keep,
    note,
    pytest_configure,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_unconfigure,
)
from support.service_process import bare_world, served

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.settings import caller
from jedi.host.home import SERVICE_ROOTS
from jedi.standalone import scratch
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.users.users import PUT_USER

# Else each process that a test starts compiles all of JEDI anew, in 0.4 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Speed is shown by benchmarks: a busy machine breaks no rule.
settings.register_profile("jedi", deadline=None)
settings.load_profile("jedi")
# Tracebacks with colours and local variables took an eighth of the time of some tests.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests begin first: else one worker would end minutes after the others."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server where databases may be created."""
    if given := os.environ.get("JEDI_TEST_DATABASE_URL"):
        yield given
        leave(given)
        return
    with scratch.server(shared_buffers="128MB", **scratch.CARELESS) as url:
        yield url
        leave(url)


@pytest.fixture(autouse=True, scope="session")
def no_home_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Root's service roots of the homes of these tests are removed with them."""
    yield
    ours = str(tmp_path_factory.getbasetemp())
    for home in SERVICE_ROOTS.glob("*/home"):
        if ours in home.read_text():
            shutil.rmtree(home.parent, ignore_errors=True)


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """What makes a world logs to standard error from then on, which is another one in each test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def empty_url(server: str) -> Iterator[str]:
    """The URL of an empty database."""
    url = new_database(server)
    yield url
    drop_database(server, url)


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """The URL of a migrated database that is only copied."""
    url = new_database(server)
    engine = connect(url)
    migrate.upgrade(engine)
    keep(engine)
    engine.dispose()
    yield url
    drop_database(server, url)


@pytest.fixture(scope="session")
def tablespace(server: str) -> Iterator[str | None]:
    """Where copies of the template lie, if not in the server's own directory."""
    if os.environ.get("JEDI_TEST_DATABASE_URL"):
        yield None
        drop_ended(server)
        return
    with tablespace_in_memory(server) as name:
        yield name
        drop_ended(server)


@pytest.fixture
def database_url(server: str, template: str, tablespace: str | None) -> Iterator[str]:
    """The URL of a migrated database with no rows of tasks, sites or queues."""
    url = new_database(server, template, tablespace)
    yield url
    note(url)
    drop_later(server, url)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Connections to `database_url`."""
    engine = connect(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def operators(engine: Engine) -> None:
    """Those in whose name tests steer the system, and whoever runs them."""
    with engine.begin() as tx:
        for name in ("me", "you", "root", caller()):
            PUT_USER.run(tx, user=name, role="operator", gridpref=None, cap=None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """JEDI_HOME, fresh and empty."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("JEDI_HOME", str(home))
    return home


@pytest.fixture
def world(engine: Engine, home: Path) -> World:
    """SITE_A and SITE_B, each with 4 slots, a live pilot and the endpoint <SITE>_DATADISK, and
    work queues for the labels user and managed of vo local."""
    return make_world(engine, home)


@pytest.fixture
def at() -> Iterator[Callable[[float], None]]:
    """Turns the clock to so many seconds after START, where it stands when a test begins."""
    clock.turn_to(START)
    yield lambda seconds: clock.turn_to(START + timedelta(seconds=seconds))
    clock.turn_to(None)


@pytest.fixture
def service(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The world's service, which commands of JEDI_HOME ask."""
    monkeypatch.setenv("JEDI_HOME", str(world.settings.home))
    with served(world):
        yield


@pytest.fixture
def bare_service(engine: Engine, home: Path) -> Iterator[None]:
    """The service of JEDI_HOME, on a migrated database with nothing in it."""
    with served(bare_world(engine, home)):
        yield
