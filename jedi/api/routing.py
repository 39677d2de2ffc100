"""Routes by method and path. A request finds its route by one look-up for each part of its path,
however many routes there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

RouteFunction = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class HttpRoute:
    """A route: its name in figures, its method, its path with arguments in braces, and the entry
    of the OpenAPI document; None: it has none."""

    name: str
    method: str
    path: str
    endpoint: RouteFunction
    entry: Callable[[], dict[str, Any]] | None = None

    @property
    def for_browsers(self) -> bool:
        """True for pages, and for all that they need."""
        return self.name.startswith("page ")


@dataclass(slots=True)
class _PathPart:
    """A part of paths: routes that end here by method, and the parts that may follow."""

    routes: dict[str, tuple[HttpRoute, list[str]]] = field(default_factory=dict)
    literal: dict[str, _PathPart] = field(default_factory=dict)
    argument: _PathPart | None = None


class RouteTable:
    """All routes. A literal part of a path comes before an argument that would take it as well."""

    def __init__(self) -> None:
        self._routes: list[HttpRoute] = []
        self._root = _PathPart()

    def __iter__(self) -> Iterator[HttpRoute]:
        return iter(self._routes)

    def add(self, route: HttpRoute) -> None:
        """Add a route. ValueError: there is one of this method and path."""
        place, names = self._root, []
        for part in route.path.split("/"):
            if part.startswith("{"):
                names.append(part.strip("{}"))
                place.argument = place = place.argument or _PathPart()
            else:
                place = place.literal.setdefault(part, _PathPart())
        if route.method in place.routes:
            raise ValueError(f"two routes are {route.method} {route.path}")
        place.routes[route.method] = (route, names)
        self._routes.append(route)

    def find(self, method: str, path: str) -> tuple[HttpRoute, Mapping[str, str]]:
        """The route of a request, and its arguments. HTTPException: no route has this path, or
        only routes of other methods do, which Allow names."""
        allowed: set[str] = set()
        for routes, values in _matches(self._root, path.split("/"), 0, ()):
            if method in routes:
                route, names = routes[method]
                return route, dict(zip(names, values, strict=True))
            allowed |= routes.keys()
            if not values:
                break  # GET /v1/tasks/kill names no task
        if not allowed:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        headers = {"Allow": ", ".join(sorted(allowed))}
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers=headers)


def _matches(
    place: _PathPart, parts: Sequence[str], at: int, values: tuple[str, ...]
) -> Iterator[tuple[dict[str, tuple[HttpRoute, list[str]]], tuple[str, ...]]]:
    if at == len(parts):
        if place.routes:
            yield place.routes, values
        return
    if following := place.literal.get(parts[at]):
        yield from _matches(following, parts, at + 1, values)
    if place.argument and parts[at]:
        yield from _matches(place.argument, parts, at + 1, (*values, parts[at]))
