"""Each request has an id, is counted and timed, and leaves one line in the log."""

from __future__ import annotations

import re
import secrets
from typing import Any

from starlette.types import Message, Scope, Send

from jedi.api.knobs import CurrentKnobs
from jedi.api.metrics import AnsweredRequest, Metrics
from jedi.core import clock

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNKNOWN = "unknown"
"""The operation of a request that no route takes."""


class Observation:
    """Counts, times and logs requests. Their answers have the request's id as X-Request-Id."""

    def __init__(self, metrics: Metrics, knobs: CurrentKnobs, log: Any) -> None:
        self._metrics = metrics
        self._knobs = knobs
        self._log = log

    def begin(self, scope: Scope, send: Send) -> SeenAnswer:
        """Begin with a request; its answer goes through `send` of the returned value."""
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(scope)
        self._metrics.in_hand.inc()
        return SeenAnswer(state["request_id"], send)

    def end(self, scope: Scope, seen: SeenAnswer) -> None:
        """Count and log a request."""
        self._metrics.in_hand.dec()
        seconds = clock.monotonic() - seen.since
        state, route = scope["state"], scope.get("route")
        code = state.get("code")
        operation = getattr(route, "name", UNKNOWN)
        self._metrics.note(
            AnsweredRequest(operation, seen.status, seconds, seen.length, code, seen.streamed)
        )
        if self._knobs().api.access_log == "off":
            return
        line = {
            "method": scope["method"],
            "route": getattr(route, "path", UNKNOWN),
            "status": seen.status,
            "ms": round(seconds * 1e3, 2),
            "bytes": seen.length,
            "caller": state.get("caller"),
            "request_id": state["request_id"],
        }
        self._log.info("request", **(line | {"code": code} if code else line))


class SeenAnswer:
    """The answer on its way."""

    def __init__(self, request_id: str, send: Send) -> None:
        self._request_id = request_id.encode()
        self._send = send
        self.since = clock.monotonic()
        self.began = False
        self.status = 500  # if none is on its way at the end
        self.length = 0
        self.streamed = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.began, self.status = True, message["status"]
            headers = message.get("headers", ())
            self.streamed = any(
                name == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in headers
            )
            message["headers"] = [*headers, (b"x-request-id", self._request_id)]
        elif message["type"] == "http.response.body":
            self.length += len(message.get("body", b""))
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's own, if it is in order."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(given := value.decode("latin-1")):
            return str(given)
    return secrets.token_hex(8)
