"""Requests over the unix socket, HTTP or HTTPS, on one kept connection, and their errors.

A change carries an Idempotency-Key of its own: if its answer is lost, it is repeated for REPEAT_S,
and happens once all the same. A question is repeated once.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from jedi_client.errors import (
    BadInput,
    Forbidden,
    JediError,
    NotFound,
    Problem,
    Refused,
    Unreachable,
    VersionTooOld,
)
from jedi_client.profiles import Profile
from jedi_client.typed import typed

ANSWER_S = 120.0
PATIENCE_S = 60
"""Longest wait of a caller who asks more often than the service lets him."""

REPEAT_S = 20.0
"""Seconds for which a change is repeated if its answer was lost: a service that died is back
soon."""

SHORTEST_S, LONGEST_S = 0.1, 2.0
"""Seconds between these tries."""

SILENCE_S = 45.0
"""Seconds of silence after which a stream counts as broken; the service speaks every 15 s."""

PIECE = 2**18
"""Bytes read at a time."""

_KINDS: Mapping[int, type[JediError]] = {
    401: Forbidden, 403: Forbidden, 404: NotFound, 409: Refused, 410: VersionTooOld,
    503: Unreachable,
}  # fmt: skip
_PROXYS = (502, 503, 504)
_LOST = (http.client.HTTPException, ConnectionError, TimeoutError, OSError)

Response = AbstractContextManager[http.client.HTTPResponse]
"""A response that is read within a `with` block."""

T = TypeVar("T")


@dataclass(frozen=True)
class Event(Generic[T]):
    """An event of a stream, with the version to resume from; None: it has none, or no data."""

    version: str | None
    data: T | None


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("jedi", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _PinnedConnection(http.client.HTTPSConnection):
    """HTTPS with a server that has one certificate and no other."""

    def __init__(self, host: str, port: int | None, pin: str) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the pin says more than a chain of signatures
        super().__init__(host, port, timeout=ANSWER_S, context=context)
        self._pin = pin.replace(":", "").lower()

    def connect(self) -> None:
        super().connect()
        shown = self.sock.getpeercert(binary_form=True) or b""
        if not secrets.compare_digest(hashlib.sha256(shown).hexdigest(), self._pin):
            self.close()
            raise Forbidden(
                f"{self.host} shows another certificate than the pinned one: do not trust it, or "
                "log in again with --pin.", code="wrong_certificate",
            )  # fmt: skip


class Transport:
    """A connection to a service, opened by the first request. `until`: the time, of the monotonic
    clock, at which its streams end."""

    def __init__(self, profile: Profile, until: float | None = None) -> None:
        self.profile = profile
        self._until = until
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def call(
        self, method: str, path: str, names: Mapping[str, object], arguments: Mapping[str, Any],
        answer: type[T] | Any, data: bytes | None = None,
    ) -> T:  # fmt: skip
        """Ask for an operation: `names` fill its path, None in `arguments` is left out; `data` is
        the body as it is. The answer as a value of type `answer`."""
        given = {key: value for key, value in arguments.items() if value is not None}
        place = _place(path, names)
        if data is not None:
            kind = {"Content-Type": "application/octet-stream"}
            body, headers = data, {**kind, "Idempotency-Key": secrets.token_hex(16)}
            place = _with_query(place, given)
        elif method == "GET":
            body, headers = b"", {}
            place = _with_query(place, given)
        else:
            body = json.dumps(given).encode()
            headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16)}
        with self.request(method, place, body or None, headers) as response:
            try:
                content = response.read()
            except _LOST as error:
                raise self._away(error, unsure=method != "GET") from error
        found: T = typed(answer, json.loads(content or b"null"))
        return found

    def stream(
        self, path: str, names: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> Response:
        """The content of a file, to be read within a `with` block."""
        return self.request("GET", _place(path, names), None, headers)

    def events(
        self, path: str, names: Mapping[str, object], arguments: Mapping[str, Any],
        kind: type[T] | Any,
    ) -> Iterator[Event[T]]:  # fmt: skip
        """The server-sent events of a stream until it ends, on a connection of its own; a comment
        is an event without data. Any JediError that the service answers; Unreachable, if the
        connection breaks."""
        place = _with_query(_place(path, names), arguments)
        headers = {"Accept": "text/event-stream"}
        with (
            Transport(self.profile) as own,
            own.request("GET", place, None, headers) as lines,
        ):
            if "text/event-stream" not in (lines.getheader("Content-Type") or ""):
                raise JediError(f"{self.profile.url} has no stream at {path}.", code="no_stream")
            try:
                own._expect(self._until)
                for event in _events(lines, kind):
                    yield event
                    own._expect(self._until)
            except _LOST as error:
                if self._until is None or time.monotonic() < self._until:
                    raise self._away(error) from error

    def _expect(self, until: float | None) -> None:
        """Wait for the next event until then, or as long as the service may be silent."""
        left_s = SILENCE_S if until is None else min(SILENCE_S, until - time.monotonic())
        if self._connection and self._connection.sock:
            self._connection.sock.settimeout(max(left_s, 0.001))

    @contextmanager
    def request(
        self, method: str, place: str, body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:  # fmt: skip
        """The response to a request, to be read within the block. Any JediError that the service
        answers; Unreachable."""
        known = {"Accept": "application/json", **(headers or {})}
        if self.profile.session:
            from jedi_client.device import renewed

            self.profile = renewed(self.profile)
        if self.profile.token:
            known["Authorization"] = f"Bearer {self.profile.token}"
        response = self._allowed(method, place, body, known)
        try:
            if response.status >= 400:
                raise error_of(response.status, response.read(), self.profile.url)
            yield response
        finally:
            if not response.isclosed() or response.will_close:
                self.close()

    def _allowed(
        self, method: str, place: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """The response once this caller has calls left; for PATIENCE_S the client waits for it."""
        waited_s = 0
        while True:
            response = self._repeated(method, place, body, headers)
            pause = response.getheader("Retry-After", "")
            if response.status != 429 or not pause.isdecimal() or waited_s >= PATIENCE_S:
                return response
            response.read()
            if response.will_close:
                self.close()
            time.sleep(max(1, int(pause)))
            waited_s += max(1, int(pause))

    def _repeated(
        self, method: str, place: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """The response; where none comes to a request that may have arrived, that to the same
        request again. Unreachable."""
        end, pause_s = time.monotonic() + (REPEAT_S if method != "GET" else 0.0), SHORTEST_S
        lost: Exception | None = None
        while True:
            last = lost is not None and time.monotonic() >= end
            fresh = self._connection is None
            try:
                response = self._once(method, place, body, headers)
                if last or not _from_proxy(response):
                    return response
                lost = error_of(response.status, response.read(), self.profile.url)
            except ssl.SSLCertVerificationError as error:
                raise self._untrusted(error) from error
            except _LOST as error:
                if last or (lost is None and not _may_have_arrived(error, fresh)):
                    self.close()
                    raise self._away(error, unsure=method != "GET" and lost is not None) from error
                lost = error
            self.close()
            if not fresh:
                continue  # a kept connection had ended: no pause
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_S)

    def _once(
        self, method: str, place: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection is None:
            self._connection = _connection(self.profile)
        self._connection.request(method, place, body, dict(headers))
        return self._connection.getresponse()

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> Unreachable:
        return Unreachable(
            f"{self.profile.url} has a certificate that no known authority signed "
            f"({error.verify_message}). Log in with --ca FILE or --pin SHA256.",
            code="bad_certificate",
        )

    def _away(self, error: Exception, *, unsure: bool = False) -> Unreachable:
        url = self.profile.url
        if unsure:
            return Unreachable(
                f"The connection to JEDI at {url} broke during a request, and JEDI does not "
                "answer. It may have done the work: check that before you repeat the request.",
                code="answer_lost",
            )
        if isinstance(error, PermissionError):
            return Unreachable(
                f"You may not open {url.removeprefix('unix:')}: ask its owner (knob "
                "api.socket_group), or log in at the service's URL with jedi-task login.",
                code="socket_closed",
            )
        here = "Start it with `jedi up`, or name a service elsewhere: jedi-task login URL"
        remedy = here if url.startswith("unix:") else "Ask its operators"
        why = getattr(error, "strerror", None) or type(error).__name__
        return Unreachable(f"JEDI does not answer at {url} ({why}). {remedy}.")


def _may_have_arrived(error: Exception, fresh: bool) -> bool:
    """Return True if the service may have seen a request that ended so; `fresh`: its connection was
    opened for it."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | PermissionError):
        return False
    return not fresh or isinstance(error, ConnectionError | http.client.HTTPException)


def _from_proxy(response: http.client.HTTPResponse) -> bool:
    """Return True if a proxy answers that it has lost the service, or has none."""
    ours = "json" in (response.getheader("Content-Type") or "")
    return response.status in _PROXYS and not ours


def _place(path: str, names: Mapping[str, object]) -> str:
    return path.format(**{key: quote(str(one), safe="") for key, one in names.items()})


def _with_query(place: str, arguments: Mapping[str, Any]) -> str:
    given = {key: _in_query(value) for key, value in arguments.items() if value is not None}
    return f"{place}?{urlencode(given, doseq=True)}" if given else place


def _events(lines: Iterable[bytes], kind: Any) -> Iterator[Event[Any]]:
    """The events of a stream; see EventSource in the HTML standard."""
    version: str | None = None
    data: list[str] = []
    begun = False
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if not line:
            if begun:
                found = typed(kind, json.loads("\n".join(data))) if data else None
                yield Event(version, found)
            data, begun = [], False
            continue
        begun = True
        name, _, value = line.partition(":")
        match name:
            case "id":
                version = value.removeprefix(" ")
            case "data":
                data.append(value.removeprefix(" "))


def _in_query(value: Any) -> Any:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return [_in_query(one) for one in value]
        case _:
            return value


def _connection(profile: Profile) -> http.client.HTTPConnection:
    if profile.url.startswith("unix:"):
        return _UnixConnection(profile.url.removeprefix("unix:"))
    url = urlsplit(profile.url)
    host = url.hostname or ""
    if url.scheme == "http":
        return http.client.HTTPConnection(host, url.port, timeout=ANSWER_S)
    if profile.pin:
        return _PinnedConnection(host, url.port, profile.pin)
    context = ssl.create_default_context(cafile=profile.ca)
    return http.client.HTTPSConnection(host, url.port, timeout=ANSWER_S, context=context)


def error_of(status: int, body: bytes, url: str) -> JediError:
    """The error that an answer stands for."""
    try:
        found = json.loads(body)
        code, sentence, facts = found["code"], found["sentence"], found["facts"]
    except (ValueError, KeyError, TypeError):
        if status in _PROXYS:
            return Unreachable(
                f"The proxy at {url} reaches no service of JEDI (status {status}). Ask its "
                "operators, or try again.", code="no_service", status=status,
            )  # fmt: skip
        return Unreachable(
            f"{url} answers with status {status} and not as JEDI does: is it the right server?",
            code="not_jedi", status=status,
        )  # fmt: skip
    if problems := facts.get("problems"):
        return BadInput([Problem(p["path"], p["value"], p["rule"], p.get("remedy", ""))
                         for p in problems])  # fmt: skip
    facts = {key: value for key, value in facts.items() if key not in ("code", "sentence")}
    return _KINDS.get(status, JediError)(sentence, code=code, **facts)
