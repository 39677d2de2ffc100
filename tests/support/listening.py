"""A service behind TCP for the tests of a module, where a request without a token has no
identity."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.users import access, users
from support.databases import drop_database, new_database
from support.helpers import make_world
from support.service_process import running


@dataclass
class Listening:
    """A service, its address, and headers of an operator and of a pilot of SITE_A."""

    world: World
    address: tuple[str, int]
    pid: int
    operator: dict[str, str]
    pilot: dict[str, str]
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    @property
    def socket_path(self) -> str:
        return str(Home(self.world.settings.home).api_socket)

    @contextmanager
    def connected(self, source: str = "127.0.0.1") -> Iterator[socket.socket]:
        """A bare connection from an address of the loopback network."""
        with socket.create_connection(self.address, 10, (source, 0)) as one:
            yield one

    def client(self, headers: dict[str, str] | None = None) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30)

    @property
    def peak_mb(self) -> float:
        """The most memory that the process has had."""
        found = (Path("/proc") / str(self.pid) / "status").read_text()
        return int(found.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def listening(server: str, template: str, place: Path, **settings: Any) -> Iterator[Listening]:
    """The service on a database of its own, with these knobs (`api.body_s` is api_body_s)."""
    url = new_database(server, template)
    engine = connect(url)
    world = make_world(engine, place)
    address = free_address()
    try:
        with engine.begin() as tx:
            for name, value in settings.items():
                knobs.put(tx, name.replace("_", ".", 1), value, "olga")
            knobs.put(tx, "api.listen", f"{address[0]}:{address[1]}", "olga")
            operator, pilot = headers_of(tx)
        log: list[str] = []
        with running(world, log) as process:
            yield Listening(world, address, process.pid, operator, pilot, log)
    finally:
        Home(place).discard()
        engine.dispose()
        drop_database(server, url)


def free_address() -> tuple[str, int]:
    """A free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return "127.0.0.1", free.getsockname()[1]


def headers_of(tx: Connection) -> tuple[dict[str, str], dict[str, str]]:
    """Headers of the operator olga, and of a pilot."""
    users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
    made = (
        access.put_user_token(tx, "olga", None, "all", 60_000.0),
        users.put_token(tx, "pilot", site="SITE_A"),
    )
    operator, pilot = ({"Authorization": f"Bearer {one}"} for one in made)
    return operator, pilot
