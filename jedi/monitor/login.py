"""Beginning and end of a browser's session: by a link of `jedi open`, by the identity provider, or
by a token. Each way ends in a new token, with no more rights, which the browser keeps in a cookie.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message

from jedi.api.application import Application
from jedi.api.bodies import Bodies
from jedi.api.errors import FORESEEN
from jedi.api.operations import OperationDoor
from jedi.api.rates import WrongTokens
from jedi.core.errors import Forbidden, JediError, Unreachable
from jedi.monitor import sessions
from jedi.monitor.code_flow import CALLBACK, FLOW_S, CodeFlow, read_flow
from jedi.monitor.frame import frame
from jedi.monitor.render import render
from jedi.monitor.routes import Rendered, error_page, respond
from jedi.monitor.sessions import FLOW_COOKIE, LoginNeeded, safe_target, visitor_of
from jedi.service.operations.table import KnownCaller
from jedi.service.users import sessions as users_sessions
from jedi.taskbuffer.users.access import ID_LENGTH
from jedi.taskbuffer.users.users import token_hash

FORM_MAX = 16 * 2**10
NAME = "browser"
"""The name of sessions among the tokens of their user."""

HOUR_S = 3600.0


class LoginWays:
    """The ways into a session, and out of it."""

    def __init__(
        self, door: OperationDoor, flow: CodeFlow, wrong_tokens: WrongTokens, log: Any
    ) -> None:
        self._door, self._flow, self._log = door, flow, log
        self._wrong_tokens = wrong_tokens
        self._bodies = Bodies()

    def add_to(self, app: Application) -> None:
        """Add their routes."""
        for method, path, name, way in (
            ("GET", "/login", "page login", self._form),
            ("POST", "/login", "page begin", self._by_token),
            ("GET", "/login/link", "page link", self._by_link),
            ("GET", "/login/oidc", "page to provider", self._to_provider),
            ("GET", CALLBACK, "page from provider", self._from_provider),
            ("POST", "/logout", "page end", self._out),
        ):
            app.route(method, path, name)(partial(self._answer, way))

    async def _answer(
        self, way: Callable[[Request], Awaitable[Response]], request: Request
    ) -> Response:
        """Go a way; a refusal leads back to the form."""
        try:
            return await way(request)
        except (Forbidden, Unreachable) as error:
            status = 503 if isinstance(error, Unreachable) else 403
            return await self._form(request, error.sentence, status)
        except FORESEEN as error:
            return await error_page(request, error, self._log)

    async def _form(self, request: Request, sentence: str = "", status: int = 200) -> Response:
        facts = {
            **frame("Log in", "/login"),
            "sentence": sentence,
            "provider": await self._flow.is_on(),
            "target": safe_target(request.query_params.get("next")),
        }
        return respond(request, Rendered(render("login.html", facts)), status=status)

    async def _fields(self, request: Request) -> dict[str, str]:
        async with self._bodies.taken(request, FORM_MAX) as body:
            given = parse_qs(body.decode("utf-8", "replace"))
        return {name: one[0] for name, one in given.items()}

    async def _by_token(self, request: Request) -> Response:
        given = await self._fields(request)
        _must_be_from_here(request)
        caller = await _caller(request, self._door, given.get("token", "").strip())
        return await _begin(request, self._door, caller, given.get("next"))

    async def _by_link(self, request: Request) -> Response:
        given = request.query_params
        code = given.get("code", "")
        take = partial(to_thread.run_sync, _taken, self._door, code)
        caller = await self._wrong_tokens.identify(request, code, take)
        return await _begin(request, self._door, caller, given.get("next"))

    async def _to_provider(self, request: Request) -> Response:
        place, begun = await self._flow.begin(request, request.query_params.get("next", "/"))
        answer = RedirectResponse(place, 303, _UNKEPT)
        sessions.begin(answer, request, begun.written(), FLOW_S, FLOW_COOKIE)
        return answer

    async def _from_provider(self, request: Request) -> Response:
        kept = request.cookies.get(sessions.cookie_name(request, FLOW_COOKIE), "")
        begun = read_flow(kept)
        code = request.query_params.get("code", "")
        finish = partial(self._flow.finish, request, begun)
        token = await self._wrong_tokens.identify(request, code, finish)
        caller = await _caller(request, self._door, token)
        answer = await _begin(request, self._door, caller, begun.target if begun else None)
        sessions.end(answer, request, FLOW_COOKIE)
        return answer

    async def _out(self, request: Request) -> Response:
        answer = RedirectResponse("/login", 303, _UNKEPT)
        try:
            visitor = await visitor_of(request, self._door)
        except LoginNeeded:
            return answer
        sign = (await self._fields(request)).get("sign", "")
        sessions.must_be_ours(request, visitor, sign)
        await to_thread.run_sync(_revoke, self._door, visitor.caller, request)
        sessions.end(answer, request)
        return answer


_UNKEPT: Mapping[str, str] = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def _must_be_from_here(request: Request) -> None:
    if not sessions.is_same_origin(request):
        raise Forbidden("This form is of another site.", code="foreign_form")


async def _caller(request: Request, door: OperationDoor, token: str) -> KnownCaller:
    """The user behind a token. Forbidden; TooManyCalls."""

    async def no_body() -> Message:  # the form is read already
        return {"type": "http.request", "body": b"", "more_body": False}

    bearer = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
    others = [one for one in request.scope["headers"] if one[0] == b"x-forwarded-for"]
    trial = Request({**request.scope, "headers": [*others, bearer]}, no_body)
    try:
        return await door.let_in(trial)
    except Forbidden as error:
        said = error.sentence if token.count(".") == 2 else ""
        raise Forbidden(
            said or "The token is unknown, expired or revoked.", code=error.code
        ) from None


def _taken(door: OperationDoor, code: str) -> KnownCaller:
    with door.here.world.engine.begin() as tx:
        return users_sessions.take_link(tx, code)


async def _begin(
    request: Request, door: OperationDoor, caller: KnownCaller, target: str | None
) -> Response:
    """Give a browser a token of its own, which the audit notes."""
    request.state.caller = caller.user_name
    hours = door.knobs().api.session_h
    given = {"name": NAME, "scope": caller.scope, "days": hours / 24}
    made = await to_thread.run_sync(door.perform, "token.create", caller, request, given)
    assert isinstance(made, bytes)
    answer = RedirectResponse(safe_target(target), 303, _UNKEPT)
    sessions.begin(answer, request, json.loads(made)["token"], hours * HOUR_S)
    return answer


def _revoke(door: OperationDoor, caller: KnownCaller, request: Request) -> None:
    """Revoke the token of a session."""
    token_id = token_hash(sessions.token_of(request))[:ID_LENGTH]
    try:
        door.perform("token.revoke", caller, request, {"token_id": token_id})
    except JediError:
        return  # it is gone, or is none of ours
