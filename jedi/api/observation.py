"""Each request has an id, is counted and timed, and leaves one line in the log."""

from __future__ import annotations

import re
import secrets
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jedi.api.knobs import CurrentKnobs
from jedi.api.metrics import AnsweredRequest, Metrics
from jedi.core import clock

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNKNOWN = "unknown"
"""The operation of a request that no route takes."""


class Observation:
    """Wraps the routes. The answer has the request's id as X-Request-Id."""

    def __init__(self, app: ASGIApp, metrics: Metrics, knobs: CurrentKnobs, log: Any) -> None:
        self._app = app
        self._metrics = metrics
        self._knobs = knobs
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(scope)
        seen = _Seen(state["request_id"], send)
        began = clock.monotonic()
        with self._metrics.in_hand.track_inprogress():
            try:
                await self._app(scope, receive, seen.send)
            finally:
                self._note(scope, seen, clock.monotonic() - began)

    def _note(self, scope: Scope, seen: _Seen, seconds: float) -> None:
        state, route = scope["state"], scope.get("route")
        code = state.get("code") or ("internal" if seen.status == 500 else None)
        operation = getattr(route, "name", UNKNOWN)
        self._metrics.note(
            AnsweredRequest(operation, seen.status, seconds, seen.length, code, seen.streamed)
        )
        if self._knobs().api.access_log == "off":
            return
        line = {
            "method": scope["method"], "route": getattr(route, "path", UNKNOWN),
            "status": seen.status, "ms": round(seconds * 1e3, 2), "bytes": seen.length,
            "caller": state.get("caller"), "request_id": state["request_id"],
        }  # fmt: skip
        self._log.info("request", **(line | {"code": code} if code else line))


class _Seen:
    """The answer on its way."""

    def __init__(self, request_id: str, send: Send) -> None:
        self._request_id = request_id.encode()
        self._send = send
        self.status = 500  # an error that no handler took ends in one
        self.length = 0
        self.streamed = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ())]
            self.streamed = (b"content-type", b"text/event-stream") in (
                (name, value.partition(b";")[0]) for name, value in headers
            )
            message["headers"] = [*headers, (b"x-request-id", self._request_id)]
        elif message["type"] == "http.response.body":
            self.length += len(message.get("body", b""))
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's own, if it is in order."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
