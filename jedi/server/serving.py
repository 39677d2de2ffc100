"""The service's process: uvicorn behind a unix socket that only our own account (and a group) may
use, and behind TCP where knob api.listen says: on the loopback interface, or with TLS on any other.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from jedi.agent import child
from jedi.agent.base import World
from jedi.agent.supervisor import LONGEST_PAUSE_S
from jedi.agent.world import make_world
from jedi.api import pages
from jedi.api.connections import (
    AT_ONCE,
    QUEUE,
    ConnectionLimits,
    Listener,
    PeerLimits,
    raise_descriptors,
)
from jedi.api.protocol import protocol
from jedi.core import clock
from jedi.core.backoff import Backoff
from jedi.core.errors import BadInput, Problem, Refused, Unreachable
from jedi.core.knobs import Knobs
from jedi.core.settings import Settings
from jedi.host.home import Home
from jedi.server.app import create_app
from jedi.taskbuffer.db.engine import reachable
from jedi.taskbuffer.schema.release import SchemaDiffers, this_release

_GRACE_S = 7
"""Seconds for requests in hand after SIGTERM; the supervisor waits for GRACE_S (10)."""

LINGER_S = 1.0
"""Seconds for kept connections to end with an answer: a proxy that sends a request on one at the
very moment of its end can't know whether the service has seen it."""

LOOK_S = 5
"""Seconds between looks at the database."""

_PROBE_S = 5
_UNSET = "jedi config unset api.listen --here"
_UNSET_HERE = "unset JEDI_LISTEN"


def serve(settings: Settings, ready: Callable[[], None] = lambda: None) -> None:
    """Answer requests at the home's unix socket, and at the address of JEDI_LISTEN or knob
    api.listen, until SIGTERM or SIGINT; `ready` is called once connections are accepted. Without
    such an address, pages alone are served at knob api.page.

    Refused if another service listens at the same place. SchemaDiffers, at the start or later: the
    database has the schema of another release.
    """
    world = make_world(settings, "api", lambda knobs: knobs.api.statement_s)
    _wait_for_database(world)
    home, address = Home(settings.home), settings.listen or world.knobs.api.listen
    home.prepare()
    secure = bool(address) and home.certificate.exists()
    if secure:
        _check(home.certificate, home.private_key)
    unset = _UNSET_HERE if settings.listen else _UNSET
    listeners = [listen_tcp(address, secure, unset)] if address else []
    page = None if address else pages.listen(world.knobs.api.page, home)
    listeners += [page] if page else []
    listeners.append(listen_unix(home.api_socket, world.knobs.api.socket_group))
    gate = ConnectionLimits(raise_descriptors(), lambda: _bounds(world.knobs))
    app = create_app(world, gate.count)
    app.pages_at = page.getsockname() if page else None
    config = uvicorn.Config(
        app,
        loop="asyncio",  # uvloop, where somebody installed it, passes the gate by
        http=protocol(gate),
        ws="none",
        backlog=AT_ONCE,
        ssl_certfile=home.certificate if secure else None,
        ssl_keyfile=home.private_key if secure else None,
        log_config=None,
        log_level="critical",  # ours says what happens
        access_log=False,
        proxy_headers=False,  # no header says who the peer is
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_S,
        timeout_notify=LOOK_S,
    )
    server = Server(config)

    def end(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn gives a signal that ended it on to whoever handled it before: not to the default
        signal.signal(number, end)
    url = pages.url(app.pages_at, address, secure)
    world.log.info("listening", at=[*filter(None, [address]), str(home.api_socket)], pages=url)
    with pages.noted(home.page_address, url):
        ready()
        server.run(sockets=[Listener.behind(gate, listener) for listener in listeners])
    if server.misfit:
        world.log.error("the database was migrated: the service ends", why=str(server.misfit))
        raise server.misfit


def _wait_for_database(world: World) -> None:
    """Read the world as soon as the database answers, with growing pauses. SchemaDiffers."""
    backoff = Backoff(LONGEST_PAUSE_S)
    while True:
        try:
            with reachable(world.engine):
                this_release().must_fit_database(world.engine)
                world.refresh()
                return
        except SchemaDiffers:
            raise
        except Unreachable as error:
            backoff.failed(clock.monotonic())
            child.wait_for(error.sentence)
            world.log.warning(
                "waiting for the database", why=error.sentence, again_in_s=backoff.wait_s
            )
        time.sleep(backoff.wait_s)


class Server(uvicorn.Server):
    """Speaks TLS behind TCP alone: the kernel itself vouches for the peers of a unix socket.

    At its end it accepts no connection any more, ends the application's streams, answers what is in
    hand, and then closes. It ends by itself when another release migrates the database: a service
    that can't answer must not stay among those that can.
    """

    linger_s = LINGER_S
    misfit: SchemaDiffers | None = None
    _look: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        given, secure = sockets or [], self.config.ssl
        servers: list[asyncio.base_events.Server] = []
        for behind_tcp in (True, False):
            self.config.ssl = secure if behind_tcp else None
            await super().startup(
                [one for one in given if (one.family != socket.AF_UNIX) is behind_tcp]
            )
            servers += self.servers
        self.servers = servers
        self.config.callback_notify = self._start_look

    async def _start_look(self) -> None:
        """A database that does not answer must not keep uvicorn from its end."""
        if not self._look or self._look.done():
            self._look = asyncio.create_task(self._look_at_database())

    async def _look_at_database(self) -> None:
        app: Any = self.config.app
        try:
            await app.state.database.look()
        except SchemaDiffers as error:
            self.misfit, self.should_exit = error, True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for streams in app.streams:
            streams.close()
        last = (b"connection", b"close")
        self.server_state.default_headers = [*self.server_state.default_headers, last]
        await self._linger()
        await super().shutdown(sockets)
        app.state.database.close()

    async def _linger(self) -> None:
        """Wait until kept connections have ended with their next answer, for a moment."""
        connections: Any = self.server_state.connections
        for connection in connections:
            cycle = connection.cycle
            if cycle and not cycle.response_complete:
                cycle.keep_alive = False
        end = clock.monotonic() + self.linger_s
        while self.server_state.connections and not self.force_exit and clock.monotonic() < end:
            await asyncio.sleep(0.02)


def _bounds(knobs: Knobs) -> PeerLimits:
    return PeerLimits(knobs.api.peer_connections, knobs.api.headers_s, knobs.api.body_s)


def listen_unix(path: Path, group: str = "") -> socket.socket:
    """Listen at `path`, in the place of a socket whose server is dead; for our own account, and the
    members of `group`. BadInput: there is no such group, or we are not of it."""
    if _answers(path):
        raise Refused(
            f"A service answers at {path} already. Stop it first (jedi down).",
            code="service_running",
            path=str(path),
        )
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(fresh))
    fresh.chmod(0o600)
    if group:
        _open_to(fresh, group)
    listener.listen(QUEUE)
    fresh.rename(path)  # whoever connects finds a listening socket, with its final mode
    return listener


def _open_to(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=group)
        path.chmod(0o660)
    except (LookupError, PermissionError) as error:
        rule = f"is no group that this account may open the socket to ({error})"
        raise BadInput(
            [Problem("api.socket_group", group, rule, "Name a group of the service's account")]
        ) from error


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except TimeoutError:
            return True  # it is there, only busy
    return True


def listen_tcp(address: str, secure: bool, unset: str = _UNSET) -> socket.socket:
    """Listen at `host:port`, an IPv4 address or a name of one. What is not `secure` stays on the
    loopback interface. `unset`: the remedy that listens nowhere."""
    host, _, port = address.rpartition(":")
    try:
        ip = ipaddress.IPv4Address(socket.gethostbyname(host))
        if ip.is_unspecified or not host or not (port.isdecimal() and int(port) < 65_536):
            raise ValueError
    except (OSError, ValueError):
        rule = "must be an address of this machine and a port"
        raise BadInput(
            [Problem("api.listen", address, rule, f"Set 127.0.0.1:8765, or {unset}")]
        ) from None
    if not (secure or ip.is_loopback):
        rule = "needs a certificate, since it is not a loopback address"
        remedy = f"Make JEDI_HOME/service.crt and service.key (docs/access.md), or {unset}"
        raise BadInput([Problem("api.listen", address, rule, remedy)])
    try:
        return socket.create_server((str(ip), int(port)), backlog=QUEUE)
    except OSError as error:
        raise Refused(
            f"The service can't listen at {address}: {error.strerror}. Free it, or {unset}.",
            code="address_taken",
            address=address,
        ) from error


def _check(certificate: Path, private_key: Path) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, private_key, password="")  # else it asks a person
    except OSError as error:
        rule = f"it and {private_key.name} are not a certificate with its key ({error})"
        remedy = "Create both again (docs/access.md), or remove both"
        raise BadInput([Problem(certificate.name, None, rule, remedy)]) from error
