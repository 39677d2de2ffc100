"""The pilot's connections to the service: kept, closed meanwhile by the service, replaced."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.pilot_world import DEADLINE_S
from support.receivers import serving

from jedi.pilot.base import Stop
from jedi.pilot.wire import Wire


class ClosingService(ThreadingHTTPServer):
    """Closes each connection after one answer, and does not announce that: so does a service whose
    connection was not used for some seconds."""

    def __init__(self) -> None:
        super().__init__(("localhost", 0), OneAnswer)
        self.heard = 0
        self.closed = threading.Semaphore(0)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()


class OneAnswer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ClosingService

    def do_POST(self) -> None:
        self.server.heard += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_closed_connection_costs_no_heartbeat(tmp_path: Path, scheme: str) -> None:
    """A heartbeat is one exchange, which nobody repeats. Expected: each of five is answered, though
    the service has closed the connection of the one before; none comes twice."""
    file = tmp_path / "service.crt"
    with ClosingService() as server:
        if scheme == "https":
            certificate = trustme.CA().issue_cert("localhost")
            shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(shown)
            certificate.cert_chain_pems[0].write_to_path(str(file))
            server.socket = shown.wrap_socket(server.socket, server_side=True)
        with serving(server):
            url = f"{scheme}://localhost:{server.server_address[1]}"
            wire = Wire(url, "token", Stop(), 0.0, str(file) if scheme == "https" else None)
            for _ in range(5):
                assert wire.ask("heartbeat", {"beats": []}) == {}
                assert server.closed.acquire(timeout=DEADLINE_S)
    assert server.heard == 5
