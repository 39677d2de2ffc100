"""Real servers on this machine that take messages; they can be away and come back."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


class Relay(Receiver):
    """An SMTP server, as far as it is needed; whoever is `refused` gets no mail."""

    refused = ""

    @contextmanager
    def up(self) -> Iterator[None]:
        relay = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.say("220 here")
                while line := self.rfile.readline().decode().strip():
                    match line.split()[0].upper():
                        case "DATA":
                            self.say("354 go on")
                            read = iter(self.rfile.readline, b".\r\n")
                            relay.got.append(({}, b"".join(read)))
                            self.say("250 taken")
                        case "QUIT":
                            self.say("221 bye")
                            return
                        case "RCPT" if relay.refused and relay.refused in line:
                            self.say("550 unknown")
                        case _:
                            self.say("250 fine")

            def say(self, line: str) -> None:
                self.wfile.write(f"{line}\r\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        with Server(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            with serving(server):
                yield


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
