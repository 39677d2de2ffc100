"""Real servers on this machine that take messages; they can be away and come back."""

from __future__ import annotations

import asyncio
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword


class Receiver:
    """An HTTP server that keeps what is posted to it, and answers `status` after `slow_s`."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status, self.port, self.slow_s = 204, 0, 0.0
        self.location = ""

    @contextmanager
    def up(self) -> Iterator[None]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                threading.Event().wait(receiver.slow_s)
                self.send_response(receiver.status)
                if receiver.location:
                    self.send_header("location", receiver.location)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_port
            with serving(server):
                yield

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/jedi?of=me"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


class Relay:
    """An SMTP server. Whoever is `refused` gets no mail; with a `tls` context it takes mail only
    after STARTTLS, or if `implicit` only in TLS, of those who log in as `user` (name, password)."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, implicit: bool = False) -> None:
        self.got: list[bytes] = []
        self.refused, self.port, self.user = "", 0, ("", "")
        self._tls, self._implicit = tls, implicit

    async def handle_RCPT(
        self, _server: SMTP, _session: object, envelope: Envelope, address: str, _options: object
    ) -> str:
        if self.refused and self.refused in address:
            return "550 unknown"
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: Envelope) -> str:
        self.got.append(envelope.original_content or b"")
        return "250 taken"

    def _login(
        self, _server: SMTP, _session: object, _envelope: object, _how: str, given: LoginPassword
    ) -> AuthResult:
        known = (given.login.decode(), given.password.decode()) == self.user
        return AuthResult(success=known, handled=False)

    def _smtp(self) -> SMTP:
        starttls = None if self._implicit else self._tls
        return SMTP(
            self,
            hostname="relay",
            tls_context=starttls,
            require_starttls=bool(starttls),
            auth_required=bool(self._tls),
            auth_require_tls=not self._implicit,  # it does not see TLS that was there before it
            authenticator=self._login,
        )

    @contextmanager
    def up(self) -> Iterator[None]:
        loop = asyncio.new_event_loop()
        around = self._tls if self._implicit else None
        server = loop.run_until_complete(
            loop.create_server(self._smtp, "127.0.0.1", self.port, ssl=around)
        )
        self.port = server.sockets[0].getsockname()[1]
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield
        finally:
            server.close()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class Dripper:
    """A server that takes a connection and then says its answer byte by byte, for ever."""

    def __init__(self) -> None:
        self.url, self.hung_up = "", threading.Event()

    @contextmanager
    def up(self) -> Iterator[None]:
        hung_up = self.hung_up

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    self.request.sendall(b"HTTP/1.1 204 ")
                    while not hung_up.wait(0.05):
                        self.request.sendall(b"x")
                hung_up.set()

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_address[1]}/"
            try:
                with serving(server):
                    yield
            finally:
                hung_up.set()


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
