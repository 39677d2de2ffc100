"""The service's process, as tests start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from jedi.agent.base import World
from jedi.host.home import Home

_SERVICE = """
import sys
from pathlib import Path
from jedi.api.server import serve
from jedi.core.settings import Settings
serve(Settings(Path(sys.argv[1]), sys.argv[2]), lambda: print("ready", flush=True))
"""


@contextmanager
def running(world: World) -> Iterator[subprocess.Popen[str]]:
    """The service's process, listening."""
    process = start(world)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def start(world: World) -> subprocess.Popen[str]:
    database = world.settings.database_url or ""
    return subprocess.Popen(
        [sys.executable, "-c", _SERVICE, str(world.settings.home), database],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def over(home: Home) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(home.api_socket))
    return httpx.Client(transport=transport, base_url="http://jedi")
