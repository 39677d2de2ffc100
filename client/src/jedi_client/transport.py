"""Requests over the unix socket, HTTP or HTTPS, on one kept connection, and their errors.

The client connects before it sends. A request that was sent may have arrived, whatever follows. If
its answer is lost, or the service does not know its outcome, a question is repeated once, and a
change with an Idempotency-Key for REPEAT_S: it happens once all the same. `call` gives each change
a key. A change without one is never repeated. If a proxy reaches no service, a question is repeated
for PROXY_S. The status of its answer does not say whether a change arrived before the service was
lost; the header `Proxy-Status` may.

See docs/operate.md#a-proxy-without-a-service.
"""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

from jedi_client.answers import NO_ROUTE, NO_SERVICE, error_of, of_another_release
from jedi_client.connections import connection_to
from jedi_client.errors import (
    JediError,
    NotReached,
    OutcomeUnknown,
    Unreachable,
)
from jedi_client.profiles import Profile
from jedi_client.release import __version__
from jedi_client.typed import typed

CONNECT_S = 30.0
"""Seconds to connect, TLS included."""

ANSWER_S = 120.0
"""Seconds of silence after which an answer counts as lost."""

PATIENCE_S = 60
"""Longest wait of a caller who asks more often than the service lets him."""

REPEAT_S = 20.0
"""Seconds for which a change is repeated if its answer was lost: a service that died is back
soon."""

PROXY_S = 4.0
"""Seconds for which a question is repeated if a proxy reaches no service: while services restart in
turn, nginx takes up to two seconds to notice one that is back."""

SHORTEST_S, LONGEST_S = 0.1, 2.0
"""Seconds between these tries."""

SILENCE_S = 45.0
"""Seconds of silence after which a stream counts as broken; the service speaks every 15 s."""

PIECE = 2**18
"""Bytes read at a time."""

_LOST = (http.client.HTTPException, OSError)
_CLOSING = (
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    BlockingIOError,
    ssl.SSLEOFError,
)
"""Errors while connecting to a service that ends, or that has a full queue: another try helps."""

Response = AbstractContextManager[http.client.HTTPResponse]
"""A response that is read within a `with` block."""

T = TypeVar("T")


@dataclass(frozen=True)
class Event(Generic[T]):
    """An event of a stream, with the version to resume from; None: it has none, or no data."""

    version: str | None
    data: T | None


class _Request(NamedTuple):
    """A request; `changes`: not only a question; `whole`: its answer is read at once, not in pieces
    by the caller."""

    method: str
    place: str
    body: bytes | None
    headers: Mapping[str, str]
    changes: bool
    whole: bool

    @property
    def repeatable(self) -> bool:
        """True if the request may arrive twice."""
        return not self.changes or "Idempotency-Key" in self.headers

    def repeated_s(self, lost: Exception) -> float:
        """Seconds for which the request is repeated; 0: once."""
        if self.changes:
            return REPEAT_S
        return PROXY_S if getattr(lost, "code", None) == NO_SERVICE else 0.0


class _Answer(NamedTuple):
    """A response, its content if that was read, and the error that it stands for."""

    response: http.client.HTTPResponse
    content: bytes
    error: JediError | None


class Transport:
    """A connection to a service, opened by the first request. `until`: the time, of the monotonic
    clock, at which its streams end."""

    def __init__(self, profile: Profile, until: float | None = None) -> None:
        self.profile = profile
        self.key: str | None = None
        """The key of the next changes, which makes it safe to repeat them; None: a new one each."""
        self._until = until
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def call(
        self,
        method: str,
        path: str,
        names: Mapping[str, object],
        arguments: Mapping[str, Any],
        answer: type[T] | Any,
        data: bytes | None = None,
        *,
        question: bool = False,
    ) -> T:
        """Ask for an operation: `names` fill its path, None in `arguments` is left out; `data` is
        the body as it is. A `question` changes nothing, nor does a dry run. The answer as a value
        of type `answer`."""
        given = {key: value for key, value in arguments.items() if value is not None}
        place = _place(path, names)
        key = self.key or secrets.token_hex(16)
        if data is not None:
            kind = {"Content-Type": "application/octet-stream"}
            body, headers = data, {**kind, "Idempotency-Key": key}
            place = _with_query(place, given)
        elif method == "GET":
            body, headers = b"", {}
            place = _with_query(place, given)
        else:
            body = json.dumps(given).encode()
            headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        changes = method != "GET" and not question and not given.get("dry_run")
        asked = _Request(method, place, body or None, headers, changes, whole=True)
        try:
            content = self._asked(asked).content
        except JediError as error:
            theirs = self._release() if error.code in NO_ROUTE else None
            if theirs is None or theirs == __version__:
                raise
            raise of_another_release(self.profile.url, theirs, f"{method} {path}") from error
        found: T = typed(answer, json.loads(content or b"null"))
        return found

    def stream(
        self, path: str, names: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> Response:
        """The content of a file, to be read within a `with` block."""
        return self.request("GET", _place(path, names), None, headers)

    def events(
        self,
        path: str,
        names: Mapping[str, object],
        arguments: Mapping[str, Any],
        kind: type[T] | Any,
    ) -> Iterator[Event[T]]:
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
        self,
        method: str,
        place: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """The response to a request, to be read within the block. Any JediError that the service
        answers; Unreachable."""
        asked = _Request(method, place, body, headers or {}, method != "GET", whole=False)
        response = self._asked(asked).response
        try:
            yield response
        finally:
            if not response.isclosed() or response.will_close:
                self.close()

    def _asked(self, asked: _Request) -> _Answer:
        known = {"Accept": "application/json", **asked.headers}
        if self.profile.session:
            from jedi_client.device import renewed

            self.profile = renewed(self.profile)
        if self.profile.token:
            known["Authorization"] = f"Bearer {self.profile.token}"
        answer = self._allowed(asked._replace(headers=known))
        if answer.error:
            raise answer.error
        return answer

    def _allowed(self, asked: _Request) -> _Answer:
        """The answer once this caller has calls left; for PATIENCE_S the client waits for it."""
        waited_s = 0
        while True:
            answer = self._repeated(asked)
            pause = answer.response.getheader("Retry-After", "")
            limited = answer.response.status == 429 and pause.isdecimal()
            if not limited or waited_s >= PATIENCE_S:
                return answer
            time.sleep(max(1, int(pause)))
            waited_s += max(1, int(pause))

    def _repeated(self, asked: _Request) -> _Answer:
        """The answer; if it is lost, that to the same request again. Unreachable."""
        begun, pause_s = time.monotonic(), SHORTEST_S
        lost: Exception | None = None
        unsure = False
        while True:
            last = lost is not None and time.monotonic() - begun >= asked.repeated_s(lost)
            fresh, sent = True, False
            try:
                fresh = self._connect()
                sent = True
                answer = self._once(asked)
                if not _is_lost(answer, again=unsure):
                    return answer
                lost, sent = answer.error, not isinstance(answer.error, NotReached)
                again = asked.repeatable or not sent
            except ssl.SSLCertVerificationError as error:
                raise self._untrusted(error) from error
            except _LOST as error:
                lost = error
                again = asked.repeatable and (asked.changes or not _is_silent(error, fresh))
                if not sent:
                    again = unsure or isinstance(error, _CLOSING)
            self.close()
            unsure = unsure or sent
            if last or not again:
                raise self._failure(lost, unsure=unsure and asked.changes) from lost
            if fresh:  # else a kept connection had ended: no pause
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_S)

    def _connect(self) -> bool:
        """Open the connection unless it is open. Return True if it is new."""
        if self._connection is not None and self._connection.sock is not None:
            return False
        connection = connection_to(self.profile, CONNECT_S)
        connection.connect()
        connection.sock.settimeout(ANSWER_S)
        self._connection = connection
        return True

    def _once(self, asked: _Request) -> _Answer:
        assert self._connection is not None
        self._connection.request(asked.method, asked.place, asked.body, dict(asked.headers))
        response = self._connection.getresponse()
        wrong = response.status >= 400
        content = response.read() if wrong or asked.whole else b""
        error = error_of(response, content, self.profile.url) if wrong else None
        if (wrong or asked.whole) and response.will_close:
            self.close()
        return _Answer(response, content, error)

    def _failure(self, lost: Exception | None, *, unsure: bool) -> JediError:
        """The error that a caller sees in place of an answer."""
        url = self.profile.url
        if unsure:
            why = f" ({lost.sentence.rstrip('.')})" if isinstance(lost, JediError) else ""
            return Unreachable(
                f"JEDI at {url} did not confirm a change{why}. It may have done the work: check "
                "that before you repeat the request.",
                code="answer_lost",
            )
        if isinstance(lost, JediError):
            return lost
        return self._away(lost)

    def _release(self) -> str | None:
        """The release of the service, if it answers."""
        asked = _Request("GET", "/openapi.json", None, {}, changes=False, whole=True)
        try:
            return str(json.loads(self._asked(asked).content)["info"]["version"])
        except (JediError, ValueError, KeyError, TypeError):
            return None

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> NotReached:
        return NotReached(
            f"{self.profile.url} has a certificate that no known authority signed "
            f"({error.verify_message}). Log in with --ca FILE or --pin SHA256.",
            code="bad_certificate",
        )

    def _away(self, error: Exception | None) -> NotReached:
        url = self.profile.url
        if isinstance(error, PermissionError):
            return NotReached(
                f"You may not open {url.removeprefix('unix:')}: ask its owner (knob "
                "api.socket_group), or log in at the service's URL with jedi-task login.",
                code="socket_closed",
            )
        here = "Start it with `jedi up`, or name a service elsewhere: jedi-task login URL"
        remedy = here if url.startswith("unix:") else "Ask its operators"
        why = getattr(error, "strerror", None) or type(error).__name__
        return NotReached(f"JEDI does not answer at {url} ({why}). {remedy}.")


def _is_silent(error: Exception, fresh: bool) -> bool:
    """Return True if a service that was just reached does not answer: it would keep a question
    waiting once more."""
    return fresh and isinstance(error, TimeoutError)


def _is_lost(answer: _Answer, *, again: bool) -> bool:
    """Return True if a proxy or the service does not know the outcome of a request, or, `again`,
    can't say it now."""
    error = answer.error
    unknown = isinstance(error, OutcomeUnknown) or (error and error.code == NO_SERVICE)
    return bool(unknown) or (again and isinstance(error, Unreachable))


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
