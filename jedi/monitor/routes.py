"""The routes of the monitor: pages, their files and their stream.

A request passes in this order: session, arguments, page (one read-only transaction), template. A
browser gets errors as pages, too; a script that sends a token gets what the service's other routes
send.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from jedi.api.application import Application
from jedi.api.bodies import must_be_storable, problems_of
from jedi.api.errors import FORESEEN, answer_of
from jedi.api.operations import OperationDoor, checked, is_list, must_be_utf8
from jedi.api.routing import HttpRoute
from jedi.core.errors import BadInput, NotFound
from jedi.monitor import static_files
from jedi.monitor.all_pages import PAGES
from jedi.monitor.frame import frame
from jedi.monitor.keeping import kept
from jedi.monitor.live import LiveChanges
from jedi.monitor.render import render
from jedi.monitor.sessions import LoginNeeded, Visitor, visitor_of
from jedi.monitor.table import RESERVED, Ask, Page, View

FRAGMENT = "hx-request"
"""The header of a request for the part of a page that changes."""

PACKED_LEAST = 1_000
"""Bytes of a page that is worth packing."""

FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page or an export of it: its content, its type, and the name of a file to keep it in."""

    content: bytes
    media_type: str = "text/html; charset=utf-8"
    file_name: str | None = None


def add_monitor(app: Application, door: OperationDoor, log: Any) -> None:
    """Add the pages to an application."""
    live = LiveChanges(door, log)
    app.streams.append(live)
    app.answer_error = error_page
    for one in PAGES.values():
        app.routes.add(HttpRoute(f"page {one.name}", "GET", one.path, _endpoint(one, door, log)))

    @app.route("GET", "/live", "page changes")
    async def changes(request: Request) -> Response:
        try:
            return live.respond(request, await visitor_of(request, door))
        except LoginNeeded:
            return Response(status_code=401)

    for path, name in (("{name}", "file"), ("vendor/{name}", "vendored file")):
        app.routes.add(HttpRoute(f"page {name}", "GET", f"/static/{{version}}/{path}", _file))


async def _file(request: Request) -> Response:
    """A file that pages need; strangers may read it."""
    name = request.path_params["name"]
    if "/vendor/" in request.url.path:
        name = f"vendor/{name}"
    found = static_files.find(name)
    fits = request.path_params["version"] == found.version
    headers = {**SECURITY, **(FOREVER if fits else {"Cache-Control": "no-cache"})}
    if "gzip" in request.headers.get("accept-encoding", ""):
        packed = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return Response(found.packed, headers=headers | packed, media_type=found.media_type)
    return Response(found.content, headers=headers, media_type=found.media_type)


def _endpoint(
    page: Page, door: OperationDoor, log: Any
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            visitor = await visitor_of(request, door)
            found = await door.working.done(request, partial(_made, page, door, visitor, request))
        except LoginNeeded:
            return to_login(request)
        except FORESEEN as error:
            return await error_page(request, error, log)
        return respond(request, found)

    return endpoint


def to_login(request: Request) -> Response:
    """Send a browser to the page where sessions begin, and back afterwards."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method != "GET":
        target = "/"
    place = f"/login?next={quote(target, safe='')}"
    if FRAGMENT in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": place})
    return RedirectResponse(place, 303)


async def error_page(request: Request, error: Exception, log: Any) -> Response:
    """The answer to an error: a page for browsers, else the service's own form. Raises an error
    that nobody foresaw."""
    answer = answer_of(request, error, log)
    if answer is None:
        raise error
    if "text/html" not in request.headers.get("accept", ""):
        return answer
    said = json.loads(bytes(answer.body))
    facts = {**frame(said["title"], ""), "error": said, "menu": PAGES}
    found = Rendered(render("error.html", facts, fragment=FRAGMENT in request.headers))
    page = respond(request, found, status=answer.status_code)
    if wait_s := answer.headers.get("retry-after"):
        page.headers["Retry-After"] = wait_s
    return page


def _made(page: Page, door: OperationDoor, visitor: Visitor, request: Request) -> Rendered:
    """The page for a request. For threads."""
    form, given = _arguments(page, request)
    with door.call(visitor.caller, request.state.request_id) as call:
        view = page(Ask(call, checked, door.place), given)
        role = call.role
    match form:
        case "csv":
            return _as_csv(page, view, request)
        case "json":
            rows = {one.name: one.plain() for one in view.sheets}
            return Rendered(json.dumps(rows).encode(), "application/json", f"{page.name}.json")
    facts = {
        **view.facts,
        **frame(view.title, request.url.path, visitor, role),
        "view": view,
        "page": page,
        "given": {name: one for name, one in given.items() if name not in page.in_path},
    }
    if form == "file":
        content, name = kept(page, view, facts, request)
        return Rendered(content, file_name=name)
    return Rendered(render(page.template, facts, fragment=FRAGMENT in request.headers))


def _as_csv(page: Page, view: View, request: Request) -> Rendered:
    name = request.query_params.get("table") or next((one.name for one in view.sheets), "")
    sheet = view.sheet(name)
    if sheet is None:
        known = ", ".join(one.name for one in view.sheets) or "none"
        raise NotFound(f"This page has no table {name[:80]}; it has: {known}.", table=name[:80])
    return Rendered(sheet.as_csv().encode(), "text/csv; charset=utf-8", f"{name}.csv")


def _arguments(page: Page, request: Request) -> tuple[str, dict[str, Any]]:
    """The form of a page, and its arguments. BadInput: all mistakes. Empty fields of a form do not
    count."""
    must_be_utf8(request)
    found: dict[str, Any] = {**request.path_params}
    for name in request.query_params:
        values = [one for one in request.query_params.getlist(name) if one]
        if name not in RESERVED and values:
            many = name in page.hints and is_list(page.hints[name])
            found[name] = values if many or len(values) > 1 else values[0]
    must_be_storable(found)
    try:
        model = page.arguments.model_validate(found)
    except ValidationError as error:
        raise BadInput(problems_of(error)) from None
    given = {name: getattr(model, name) for name in page.parameters}
    return request.query_params.get("as", "html"), given


def respond(request: Request, found: Rendered, *, status: int = 200) -> Response:
    """Send a page, packed if the browser takes that; 304 if the browser has it already."""
    headers = {
        **SECURITY,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Cookie, HX-Request",
        "ETag": f'W/"{hashlib.sha256(found.content).hexdigest()[:32]}"',
    }
    if found.file_name:
        headers["Content-Disposition"] = f'attachment; filename="{found.file_name}"'
    if status == 200 and headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    content = found.content
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    if accepts and len(content) >= PACKED_LEAST:
        content = gzip.compress(content, 4, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, status, headers, found.media_type)
