"""The address of web pages where the service has no other one: a port of the loopback interface,
which serves pages alone. Everybody on the machine reaches it; only a session sees more than the
login."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from zlib import crc32

from starlette.exceptions import HTTPException
from starlette.requests import Request

from jedi.api.connections import QUEUE
from jedi.api.routing import HttpRoute
from jedi.core.addresses import loopback
from jedi.host.home import Home, write_file

_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine in the addresses of browsers."""


OTHERS = 1_000
"""Ports after that of the knob, one of which a home takes if that is taken."""


def listen(address: str, home: Home) -> socket.socket | None:
    """Listen at a loopback address: at the port that the home had last, so that links stay; if that
    is taken at that of the address, at one of the home's own, or at any. None: the address is
    empty. BadInput."""
    if not address:
        return None
    host, port = loopback("api.page", address)
    own = port + 1 + crc32(bytes(home.path)) % OTHERS
    found = _first_free(host, (_last_port(home, address) or port, port, own if own < 65_536 else 0))
    write_file(home.page_port, f"{address} {found.getsockname()[1]}\n")
    return found


def _first_free(host: str, ports: Sequence[int]) -> socket.socket:
    for one in ports:
        with suppress(OSError):
            return socket.create_server((host, one), backlog=QUEUE)
    return socket.create_server((host, 0), backlog=QUEUE)


def _last_port(home: Home, address: str) -> int | None:
    """The port that the home had last for this value of the knob; None: it had none."""
    with suppress(OSError, ValueError):
        knob, port = home.page_port.read_text().split()
        return int(port) if knob == address and 0 < int(port) < 65_536 else None
    return None


def url(at: tuple[str, int] | None, address: str, secure: bool) -> str | None:
    """The URL of the pages: at an address for them alone, or that of the service. None: they have
    none."""
    if address:
        return f"{'https' if secure else 'http'}://{address}"
    return f"http://{at[0]}:{at[1]}" if at else None


@contextmanager
def noted(place: Path, found: str | None) -> Iterator[None]:
    """Keep the URL of the pages in a file until the end."""
    place.unlink(missing_ok=True)
    if found is None:
        yield
        return
    fresh = place.with_name(f"{place.name}.new")
    fresh.write_text(f"{found}\n")
    fresh.rename(place)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def must_be_page(request: Request, route: HttpRoute) -> None:
    """HTTPException: the route is no page, or the browser means another machine. A name that some
    other site has turned to this machine is refused thus."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower() not in (*_NAMES, request.scope["server"][0]):
        raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, "This machine has no such name")
    if not route.for_browsers:
        raise HTTPException(HTTPStatus.NOT_FOUND, "This address serves pages alone")
