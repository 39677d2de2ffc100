"""Connections to a service: the unix socket, HTTP, and HTTPS with an authority or a pin."""

from __future__ import annotations

import hashlib
import http.client
import secrets
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from jedi_client.errors import Forbidden
from jedi_client.profiles import Profile, socket_of


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("jedi", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        path = Path(self._path)
        # a home that began after this client may name another directory
        self.sock.connect(str(path if path.exists() else socket_of(path.parent)))


class _PinnedConnection(http.client.HTTPSConnection):
    """HTTPS with a server that has one certificate and no other."""

    def __init__(self, host: str, port: int | None, pin: str, timeout_s: float) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the pin says more than a chain of signatures
        super().__init__(host, port, timeout=timeout_s, context=context)
        self._pin = pin.replace(":", "").lower()

    def connect(self) -> None:
        super().connect()
        shown = self.sock.getpeercert(binary_form=True) or b""
        if not secrets.compare_digest(hashlib.sha256(shown).hexdigest(), self._pin):
            self.close()
            raise Forbidden(
                f"{self.host} shows another certificate than the pinned one: do not trust it, or "
                "log in again with --pin.",
                code="wrong_certificate",
            )


def connection_to(profile: Profile, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to the service of a profile, not yet open."""
    if profile.url.startswith("unix:"):
        return _UnixConnection(profile.url.removeprefix("unix:"), timeout_s)
    url = urlsplit(profile.url)
    host = url.hostname or ""
    if url.scheme == "http":
        return http.client.HTTPConnection(host, url.port, timeout=timeout_s)
    if profile.pin:
        return _PinnedConnection(host, url.port, profile.pin, timeout_s)
    context = ssl.create_default_context(cafile=profile.ca)
    return http.client.HTTPSConnection(host, url.port, timeout=timeout_s, context=context)
