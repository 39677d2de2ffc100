"""An error as the wire shows it: a status, and {code, sentence, facts}."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route

from jedi.api.problems import PROBLEM, problem
from jedi.api.rates import TooManyCalls
from jedi.core.errors import (
    BadInput,
    Forbidden,
    JediError,
    NoSpace,
    NotFound,
    Refused,
    Unreachable,
    VersionTooOld,
)
from jedi.taskbuffer.db.engine import is_away


class TooLarge(JediError):
    """A request is longer than its route takes."""

    code = "http_413"


class Busy(JediError):
    """The service has as much in hand as it may hold: later."""

    code = "busy"


_STATUS = {
    BadInput: 422,
    Forbidden: 403,
    NotFound: 404,
    NoSpace: 507,  # before Refused, whose kind it is
    Refused: 409,
    VersionTooOld: 410,
    TooLarge: 413,
    TooManyCalls: 429,
    Unreachable: 503,
    Busy: 503,
}
_UNKNOWN_CALLER = ("no_token", "bad_token")
AWAY = "JEDI's database does not answer at the moment. Try again."


def handle_errors(app: FastAPI, log: Any) -> None:
    """Answer every error in the one form."""

    @app.exception_handler(JediError)
    async def refuse(request: Request, error: JediError) -> JSONResponse:
        return _answer(request, _status(error), error)

    @app.exception_handler(HTTPException)
    async def decline(request: Request, error: HTTPException) -> JSONResponse:
        sentence = f"{request.method} {request.url.path}: {error.detail}."
        said = JediError(sentence, code=f"http_{error.status_code}")
        answer = _answer(request, error.status_code, said)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = ", ".join(sorted(_methods(app, request)))
        return answer

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, _error: ClientDisconnect) -> JSONResponse:
        return _answer(request, 400, JediError("The request ended early.", code="cut_off"))

    @app.exception_handler(NoConnection)
    @app.exception_handler(DBAPIError)
    async def away(request: Request, error: DBAPIError | NoConnection) -> JSONResponse:
        if isinstance(error, DBAPIError) and not is_away(error):
            raise error  # `broken` takes it
        why = str(getattr(error, "orig", error))[:500]
        known = request.state.request_id
        log.error("database away", path=request.url.path, request_id=known, error=why)
        return _answer(request, 503, Unreachable(AWAY))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        known = request.state.request_id
        log.error("request failed", path=request.url.path, request_id=known, exc_info=error)
        said = f"The service failed; its log has the reason, at request {known}. Try again."
        answer = _answer(request, 500, JediError(said, code="internal"))
        answer.headers["X-Request-Id"] = known  # this answer passes nothing that would add it
        return answer


def _methods(app: FastAPI, request: Request) -> set[str]:
    """The methods of all routes with the request's path; Starlette names those of one."""
    routes = [one for one in app.routes if isinstance(one, Route)]
    fitting = [one for one in routes if one.path == request.url.path] or [
        one for one in routes if one.matches(request.scope)[0] is not Match.NONE
    ]
    return {method for one in fitting for method in one.methods or ()}


def _status(error: JediError) -> int:
    if error.code in _UNKNOWN_CALLER:
        return 401
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def _answer(request: Request, status: int, error: JediError) -> JSONResponse:
    """Return the answer to an error. The connection ends if a part of the request was not read: no
    request can follow that part."""
    request.state.code = error.code
    body = problem(status, error)
    headers = {"Connection": "close"} if getattr(request.state, "unread", False) else {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="jedi"'
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    if "retry_after_s" in error.facts:
        headers["Retry-After"] = str(ceil(error.facts["retry_after_s"]))
    return JSONResponse(jsonable_encoder(body), status, headers, PROBLEM)
