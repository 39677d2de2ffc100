"""JSON over HTTP to the service, by unix socket or TCP; patient while it is away."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .base import Stop

TIMEOUT_S = 20.0  # of one exchange
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 30.0
_BUSY = (408, 429)
_CLOSED = (ConnectionError, http.client.BadStatusLine, ssl.SSLError)  # by the other side, meanwhile
_PARTIAL_CHAIN = 0x80000  # a certificate is trusted without its issuer; named since Python 3.10

T = TypeVar("T")
ServiceAnswer = dict[str, Any]


class ServiceUnreachable(Exception):
    """The service did not answer, however long we tried."""


class ServiceRefusal(Exception):
    """The service refused: another try would not help."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


class Wire:
    """The four verbs and the sandbox. Each thread keeps its connection as long as both sides do."""

    def __init__(
        self, url: str, token: str, stop: Stop, retry_s: float, certificate: str | None = None
    ) -> None:
        """`url` is unix:/path/to/socket, http:// or https://host:port; ValueError for anything
        else. `certificate` is a file with one that is trusted besides this machine's; OSError if it
        can't be read."""
        self._connect = _connector(url, certificate)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._stop = stop
        self._retry_s = retry_s
        self._trusted = False
        self._kept = threading.local()

    def ask(self, verb: str, body: ServiceAnswer) -> ServiceAnswer:
        """POST once. Raises Away, Refused."""
        return self._exchange("POST", f"/v1/pilot/{verb}", json.dumps(body), json.loads)

    def insist(self, verb: str, body: ServiceAnswer, grace_s: float = 0.0) -> ServiceAnswer:
        """POST until answered, with back-off for `retry_s`; once the pilot is ending, `grace_s`."""
        return self._insist(lambda: self.ask(verb, body), grace_s)

    def sandbox(self, sha256: str) -> bytes:
        """GET an archive, with the same patience."""
        return self._insist(
            lambda: self._exchange("GET", f"/v1/sandbox/{sha256}", None, bytes), grace_s=0.0
        )

    def _insist(self, attempt: Callable[[], T], grace_s: float) -> T:
        wait, end = _FIRST_WAIT_S, time.monotonic() + self._retry_s
        while True:
            try:
                return attempt()
            except ServiceUnreachable:
                end = min(end, self._stop.terminated_at + grace_s)
                left = end - time.monotonic()
                if left <= 0:
                    raise
            self._stop.wait(min(left, wait * random.uniform(0.5, 1.0)))
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _exchange(self, method: str, path: str, body: str | None, read: Callable[[bytes], T]) -> T:
        try:
            status, content = self._answer(method, path, body)
            self._trusted = True
            if status == 200:
                return read(content)
        except ssl.SSLCertVerificationError as error:
            # one that was good is being renewed, and what a job has made can wait for that
            raise (ServiceUnreachable if self._trusted else ServiceRefusal)(
                f"{path}: {error}"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServiceUnreachable(f"{path}: {error!r}") from error
        answered = f"{path}: HTTP {status} {content[:500].decode('utf-8', 'replace')}"
        away = status >= 500 or status in _BUSY
        raise (ServiceUnreachable if away else ServiceRefusal)(answered)

    def _answer(self, method: str, path: str, body: str | None) -> tuple[int, bytes]:
        """Status and content of an answer. The service closes connections that were not used for
        some seconds: an exchange that fails on a kept one is repeated on a new one."""
        connection = self._kept.__dict__.pop("connection", None)
        if connection is not None:
            with contextlib.suppress(*_CLOSED):
                return self._exchange_on(connection, method, path, body)
        return self._exchange_on(self._connect(), method, path, body)

    def _exchange_on(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: str | None
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._kept.connection = connection
        return response.status, content


def _connector(url: str, certificate: str | None) -> Callable[[], http.client.HTTPConnection]:
    scheme, _, path = url.partition(":")
    if scheme == "unix" and path.startswith("/"):
        return lambda: _UnixConnection(path)
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port
    if scheme == "http" and host:
        return lambda: http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    if scheme == "https" and host:

        def connect() -> http.client.HTTPConnection:
            """The certificate is read anew each time: a pilot may outlive it."""
            context = ssl.create_default_context()
            if certificate:
                context.load_verify_locations(certificate)
                context.verify_flags |= _PARTIAL_CHAIN
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)

        connect()  # an unreadable file fails at once
        return connect
    raise ValueError(f"{url!r} is not unix:/path/to/socket, http:// or https://host:port")


def verdict(answer: ServiceAnswer) -> str:
    """The service's verdict on one report: accepted or stale."""
    word: str = answer["results"][0]["verdict"]
    return word
