"""The application: a request passes from its route to its answer, or to the answer of its error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jedi.api.errors import FORESEEN, answer_of, failure
from jedi.api.observation import Observation, SeenAnswer
from jedi.api.pages import must_be_page
from jedi.api.routing import HttpRoute, RouteFunction, RouteTable

ErrorAnswer = Callable[[Request, Exception, Any], Awaitable[Response | None]]
"""The answer to a foreseen error; None: the database refused a statement."""


async def _plain(request: Request, error: Exception, log: Any) -> Response | None:
    return answer_of(request, error, log)


class EndlessAnswers(Protocol):
    """Answers that end with the service alone."""

    def close(self) -> None:
        """End them."""


class Application:
    """The service for ASGI: HTTP without a lifespan."""

    def __init__(self, observation: Observation, log: Any) -> None:
        self.state = State()
        self.routes = RouteTable()
        self.streams: list[EndlessAnswers] = []
        self.pages_at: tuple[str, int] | None = None
        """The address that serves pages alone."""
        self.answer_error: ErrorAnswer = _plain
        """The answer to errors outside of a route's own; browsers get pages."""
        self._observation = observation
        self._log = log

    def route(
        self, method: str, path: str, name: str, entry: dict[str, Any] | None = None
    ) -> Callable[[RouteFunction], RouteFunction]:
        """Make a function the endpoint of a route; `entry`: its part of the OpenAPI document."""

        def add(endpoint: RouteFunction) -> RouteFunction:
            described = None if entry is None else lambda: entry
            self.routes.add(HttpRoute(name, method, path, endpoint, described))
            return endpoint

        return add

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"The service speaks HTTP alone, not {scope['type']}.")
        seen = self._observation.begin(scope, send)
        request = Request(scope, receive, seen.send)
        try:
            await self._answer(request, seen)
        except Exception as error:  # the server's loop goes on with other requests
            answer = failure(request, error, self._log)
            self._observation.end(scope, seen)
            if not seen.began:
                await answer(scope, receive, seen.send)
            raise  # the server ends the connection
        self._observation.end(scope, seen)

    async def _answer(self, request: Request, seen: SeenAnswer) -> None:
        """Send the answer to a request, or to an error that somebody foresaw."""
        scope, receive = request.scope, request.receive
        try:
            found, scope["path_params"] = self.routes.find(scope["method"], scope["path"])
            scope["route"] = found
            if self.pages_at and scope.get("server") == self.pages_at:
                must_be_page(request, found)
            response = await found.endpoint(request)
            await response(scope, receive, seen.send)
        except FORESEEN as error:
            answer = None if seen.began else await self.answer_error(request, error, self._log)
            if answer is None:
                raise
            await answer(scope, receive, seen.send)
