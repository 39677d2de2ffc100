"""The service's process, as tests start it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import structlog
import uvicorn
from sqlalchemy import Engine

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.connections import ConnectionLimits, Listener, PeerLimits
from jedi.api.protocol import protocol
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.host.home import Home
from jedi.server.app import create_app
from jedi.server.serving import Server, listen_unix
from jedi.taskbuffer.db import knobs

_SERVICE = """
import sys
from pathlib import Path
from jedi.core import loading
loading.begin()
from jedi.server.serving import serve
from jedi.core.settings import Settings
serve(Settings(Path(sys.argv[1]), sys.argv[2]), lambda: print("ready", flush=True))
"""

_LIVES = """
import os, sys
from pathlib import Path
from jedi.core import loading
loading.begin()
from jedi.server.serving import serve
from jedi.core.settings import Settings
while True:
    life = os.fork()
    if not life:
        serve(Settings(Path(sys.argv[1]), sys.argv[2]), lambda: print(os.getpid(), flush=True))
        os._exit(0)
    os.waitpid(life, 0)
"""


def bare_world(engine: Engine, home: Path) -> World:
    """A world without sites and queues, on the database of `engine`."""
    settings = Settings(home, engine.url.render_as_string(hide_password=False))
    world = World(engine, settings, knobs.load, factory.load)
    world.refresh()
    return world


@contextmanager
def served(
    world: World, app: Application | None = None, *listening: socket.socket
) -> Iterator[None]:
    """The service in a thread of this process, at the unix socket of the world's home and at these
    sockets: quicker to start than a process, for tests of its clients. Its log stays out of what
    they print."""
    world = replace(world, log=structlog.wrap_logger(structlog.PrintLogger(sys.__stderr__)))
    home = Home(world.settings.home)
    home.prepare()
    limits = ConnectionLimits(512, lambda: PeerLimits(512, 10.0, 60.0))
    config = uvicorn.Config(
        app or create_app(world, limits.count),
        http=protocol(limits),
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        ws="none",
    )
    server = Server(config)
    server.linger_s = 0.0
    sockets = [listen_unix(home.api_socket), *listening]
    listeners = [Listener.behind(limits, one) for one in sockets]
    thread = threading.Thread(target=server.run, args=(listeners,))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        for listener in listeners:
            listener.close()


@contextmanager
def running(world: World, log: list[str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """The service's process, listening; the lines of its log go to `log`. A pipe that nobody read
    would stop the service once it is full."""
    process = start(world)
    assert process.stdout and process.stderr
    lines = [] if log is None else log
    reader = threading.Thread(
        target=lambda pipe: lines.extend(iter(pipe.readline, "")), args=(process.stderr,)
    )
    reader.start()
    try:
        assert process.stdout.readline() == "ready\n", lines
        yield process
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        process.stderr.close()


@contextmanager
def reborn(world: World, **environment: str) -> Iterator[Callable[[], int]]:
    """The service, as a supervisor keeps it: a new process whenever one has died, which costs no
    new imports. Yields the number of the next process that is ready."""
    words = [sys.executable, "-c", _LIVES, str(world.settings.home), world.settings.database_url]
    process = subprocess.Popen(
        [*map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    assert process.stdout
    lives = process.stdout
    try:
        yield lambda: int(lives.readline())
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        lives.close()


def start(world: World) -> subprocess.Popen[str]:
    database = world.settings.database_url or ""
    return subprocess.Popen(
        [sys.executable, "-c", _SERVICE, str(world.settings.home), database],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def over(home: Home) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(home.api_socket))
    return httpx2.Client(transport=transport, base_url="http://jedi")
