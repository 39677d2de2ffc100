"""Beginning and end of a browser's session."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from jedi.api.application import Application
from jedi.api.bodies import Bodies
from jedi.api.operations import OperationDoor
from jedi.core.errors import Forbidden
from jedi.monitor import sessions
from jedi.monitor.all_pages import PAGES
from jedi.monitor.render import render
from jedi.monitor.routes import Rendered, respond
from jedi.monitor.sessions import LoginNeeded, safe_target, visitor_of

FORM_MAX = 16 * 2**10


def add_login(app: Application, door: OperationDoor) -> None:
    """Add the page where sessions begin, and the end of sessions."""
    bodies = Bodies()

    @app.route("GET", "/login", "page login")
    async def form(request: Request) -> Response:
        return _form(request, request.query_params.get("next"))

    @app.route("POST", "/login", "page begin")
    async def begin(request: Request) -> Response:
        async with bodies.taken(request, FORM_MAX) as body:
            given = {
                name: one[0] for name, one in parse_qs(body.decode("utf-8", "replace")).items()
            }
        token = given.get("token", "").strip()
        if not sessions.is_same_origin(request):
            raise Forbidden("This form is of another site.", code="foreign_form")
        trial = {**request.scope, "headers": [(b"cookie", f"{sessions.COOKIE}={token}".encode())]}
        try:
            await visitor_of(Request(trial, request.receive), door)
        except LoginNeeded:
            said = "The token is unknown, expired or revoked."
            return _form(request, given.get("next"), said, 403)
        answer = RedirectResponse(safe_target(given.get("next")), 303)
        sessions.begin(answer, request, token)
        return answer


def _form(request: Request, target: str | None, sentence: str = "", status: int = 200) -> Response:
    facts: dict[str, Any] = {
        "title": "Log in", "page": None, "menu": {} if status else PAGES, "visitor": None,
        "path": "/login", "given": {}, "target": safe_target(target), "sentence": sentence,
    }  # fmt: skip
    return respond(request, Rendered(render("login.html", facts)), status=status)
