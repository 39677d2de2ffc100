"""Connections: how many there may be, and how long each may keep the service waiting.

A place is never refused while somebody is slow. When a peer, or all together, hold as many as they
may, the one that has kept the service waiting longest makes room: so slow ones end each other, and
whoever asks /health is answered. Counted where a connection is accepted, hence before TLS.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

QUEUE = 2_048
"""Connections that the kernel keeps for us until we take them."""

AT_ONCE = 64
"""Connections taken in one turn of the event loop; those that make room for them close after it."""

_RESERVE = 3 * AT_ONCE
"""Descriptors for those, the database, storage and the log."""

_ENOUGH = 65_536
HEADERS, BODY, NOTHING = "headers", "body", "nothing"
"""Parts of a request that a connection waits for."""

UNIX = "unix"
"""The host of a peer on the unix socket; its port is its uid. No peer can say so itself."""


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits of peers: connections of one peer, and seconds for headers and for a body."""

    of_a_peer: int
    headers_s: float
    body_s: float


def raise_descriptors() -> int:
    """Let this process have as many descriptors as the system allows; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _ENOUGH if soft == resource.RLIM_INFINITY else soft
    with suppress(ValueError, OSError):  # macOS has limits that it does not tell
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class PeerSocket(socket.socket):
    """An accepted connection, in the order of its coming."""

    gate: ConnectionLimits | None = None
    peer: Any = None
    awaited = NOTHING
    timer: asyncio.TimerHandle | None = None
    transport: asyncio.Transport | None = None

    def expect(self, what: str, seconds: float) -> None:
        """Wait for headers or a body no longer than this; a second call for the same changes
        nothing, so that byte by byte takes no longer."""
        if what == self.awaited:
            return
        self.awaited = what
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if what != NOTHING:
            self.timer = asyncio.get_running_loop().call_later(seconds, self.cut)

    def cut(self) -> None:
        """End it now, whatever is on its way."""
        self.leave()
        if self.transport:
            self.transport.abort()
            return
        with suppress(OSError):  # in its handshake: who reads next finds the end
            self.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """It counts no more."""
        self.expect(NOTHING, 0)
        if self.gate:
            self.gate.forget(self)
            self.gate = None

    def close(self) -> None:
        self.leave()
        super().close()


class ConnectionLimits:
    """All visits."""

    def __init__(self, most: int, bounds: Callable[[], PeerLimits]) -> None:
        self._most = most - min(_RESERVE, most // 2)
        self.bounds = bounds
        self._visits: dict[int, PeerSocket] = {}
        self._peers: dict[Any, dict[int, PeerSocket]] = {}

    def enter(self, visit: PeerSocket, peer: Any) -> bool:
        """Count a visit; False: nobody waits who could make room for it."""
        bounds, of_peer = self.bounds(), self._peers.get(peer, {})
        for visits, most in ((of_peer, bounds.of_a_peer), (self._visits, self._most)):
            if len(visits) >= most and not _make_room(visits):
                return False
        number = visit.fileno()
        self._visits[number] = visit
        self._peers.setdefault(peer, {})[number] = visit
        visit.gate, visit.peer = self, peer
        visit.expect(HEADERS, bounds.headers_s)
        return True

    def count(self) -> int:
        """Visits now."""
        return len(self._visits)

    def forget(self, visit: PeerSocket) -> None:
        """Uncount it."""
        number, of_peer = visit.fileno(), self._peers[visit.peer]
        del self._visits[number], of_peer[number]
        if not of_peer:
            del self._peers[visit.peer]

    def visit(self, number: int) -> PeerSocket | None:
        """The one of a descriptor."""
        return self._visits.get(number)


def _make_room(visits: dict[int, PeerSocket]) -> bool:
    slow = next((visit for visit in visits.values() if visit.awaited != NOTHING), None)
    if slow:
        slow.cut()
    return slow is not None


class Listener(socket.socket):
    """A listening socket with a gate."""

    gate: ConnectionLimits

    @classmethod
    def behind(cls, gate: ConnectionLimits, plain: socket.socket) -> Listener:
        """The same, whose connections pass the gate. asyncio sends at once (TCP_NODELAY) only where
        a socket names its protocol; else each answer on a kept connection takes 40 ms more."""
        proto = 0 if plain.family == socket.AF_UNIX else socket.IPPROTO_TCP
        listener = cls(plain.family, plain.type, proto, plain.detach())
        listener.gate = gate
        return listener

    def listen(self, _backlog: int = QUEUE, /) -> None:
        """With our queue: uvicorn's backlog is also how many it takes in one turn."""
        super().listen(QUEUE)

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that may enter; ConnectionAbortedError if it may not."""
        plain, address = super().accept()
        visit = PeerSocket(plain.family, plain.type, plain.proto, plain.detach())
        if not self.gate.enter(visit, _peer(visit, address)):
            visit.close()
            raise ConnectionAbortedError
        return visit, address


def _peer(visit: socket.socket, address: Any) -> Any:
    """An address of the network, or a process of this machine."""
    if visit.family != socket.AF_UNIX:
        return address[0]
    return _credentials(visit)[0] if sys.platform == "linux" else None


def _credentials(peer: socket.socket) -> tuple[int, int, int]:
    """Process, user and group at the other end of a unix socket, as Linux' kernel knows them."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", found)
    return pid, uid, gid


def peer_uid(peer: socket.socket) -> int:
    """The user at the other end of a unix socket, by the kernel."""
    if sys.platform == "linux":
        return _credentials(peer)[1]
    sol_local, local_peercred = 0, 1  # macOS: struct xucred begins with version and uid
    found = peer.getsockopt(sol_local, local_peercred, 128)
    uid: int = struct.unpack_from("2I", found)[1]
    return uid
