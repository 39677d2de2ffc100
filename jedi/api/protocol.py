"""HTTP for uvicorn: parsed by httptools, in the service's own bounds."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from jedi.api.connections import (
    BODY,
    HEADERS,
    NOTHING,
    UNIX,
    ConnectionLimits,
    PeerSocket,
    peer_uid,
)
from jedi.api.problems import NO_HTTP, PROBLEM

HEAD_MAX = 2**16
"""Bytes of a request before its body, between its parts and after it."""

PIPELINED_MAX = 16
"""Requests of a connection that wait for the answers to earlier ones."""

LINGER_S = 1.0
LINGER_MAX = 2**20
"""Seconds and bytes of what follows a request that is no HTTP: closing while data arrive resets the
connection, and its sender does not get the answer."""

_BODIES = (b"content-length", b"transfer-encoding")

_REFUSAL = (
    f"HTTP/1.1 400 Bad Request\r\ncontent-type: {PROBLEM}\r\n"
    f"content-length: {len(NO_HTTP)}\r\nconnection: close\r\n\r\n"
).encode() + NO_HTTP


class BoundedProtocol(HttpToolsProtocol):
    """HTTP for uvicorn, with the bounds of the connections behind `gate`."""

    gate: ConnectionLimits
    visit: PeerSocket | None = None
    refused_bytes: int | None = None
    """Bytes after a request that was no HTTP."""

    part = HEADERS
    head_bytes = 0
    moved = False
    """The bytes that came last held a part of a body, or the end of a request."""

    running: RequestResponseCycle | None = None
    """The request in hand; `cycle` is the last one that came."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        found = transport.get_extra_info("socket")
        self.visit = self.gate.visit(found.fileno()) if found else None
        if self.visit:
            self.visit.transport = transport
        if found and found.family == socket.AF_UNIX:
            self.client = (UNIX, peer_uid(found))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.running and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self.refused_bytes is not None:
            self.refused_bytes += len(data)
            if self.refused_bytes > LINGER_MAX:
                self.transport.close()
            return
        self.moved = False
        super().data_received(data)
        self.head_bytes += len(data)
        if self.moved:
            self.head_bytes = 0
        elif self.head_bytes > HEAD_MAX and self.refused_bytes is None:
            self.send_400_response("")
        self._watch()

    def on_message_begin(self) -> None:
        """ValueError, hence 400: too many requests wait for earlier answers."""
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests at once")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Fields after a body are no headers (RFC 9110, 6.5.1)."""
        if self.part == HEADERS:
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """ValueError, hence 400: the request names no host, or several, or it has a body and offers
        another protocol: the parser takes the body for that protocol's bytes."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            raise ValueError("a request of HTTP/1.1 names one host")
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in _BODIES and value != b"0" for name, value in self.headers):
            raise ValueError("a request with a body offers no other protocol")
        super().on_headers_complete()
        self.part = BODY
        if upgrade:  # bytes of another protocol may follow
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.moved = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.part, self.moved = HEADERS, True

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """Answer in the one form of errors; end the connection a little later. At once, if an
        answer is due before, on its way or given: nobody may take this one for it."""
        due = self.cycle and not self.cycle.response_complete
        answered = self.part == BODY and not due
        if (
            answered
            or self.pipeline
            or (due and (self.part == HEADERS or self.cycle.response_started))
        ):
            self.transport.close()
            return
        if due:  # its body is broken
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(_REFUSAL)
        self.refused_bytes = 0
        self.loop.call_later(LINGER_S, self.transport.close)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Limit the wait for a part of a request; none, while an answer is due."""
        if self.visit is None or self.visit.gate is None:
            return
        bounds, due = self.gate.bounds(), self.cycle and not self.cycle.response_complete
        if self.part == BODY:
            self.visit.expect(BODY, bounds.body_s)
        elif due or self.refused_bytes is not None:
            self.visit.expect(NOTHING, 0)
        else:
            self.visit.expect(HEADERS, bounds.headers_s)


def protocol(gate: ConnectionLimits) -> type[BoundedProtocol]:
    """The protocol of the connections behind a gate."""
    return type("GatedProtocol", (BoundedProtocol,), {"gate": gate})
