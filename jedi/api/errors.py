"""An error as the wire shows it: a status, and {code, sentence, facts}."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import Any

from pydantic_core import to_json
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from jedi.api.problems import PROBLEM, problem
from jedi.api.rates import TooManyCalls
from jedi.core.errors import (
    BadInput,
    Forbidden,
    JediError,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unreachable,
    VersionTooOld,
)
from jedi.taskbuffer.db.engine import is_away


class TooLarge(JediError):
    """A request is longer than its route takes."""

    code = "http_413"


class OutOfRange(JediError):
    """A file has none of the bytes that a request names."""

    code = "out_of_range"


class Busy(JediError):
    """The service has as much in hand as it may hold: later."""

    code = "busy"


class TooSlow(JediError):
    """The database ended a statement of a request at its limit."""

    code = "too_slow"


_STATUS = {
    BadInput: 422,
    Forbidden: 403,
    NotFound: 404,
    NoSpace: 507,  # before Refused, whose kind it is
    Refused: 409,
    VersionTooOld: 410,
    TooLarge: 413,
    OutOfRange: 416,
    TooManyCalls: 429,
    Unreachable: 503,
    Busy: 503,
    TooSlow: 504,
}
_UNKNOWN_CALLER = ("no_token", "bad_token")
AWAY = "JEDI's database does not answer at the moment. Try again."

FORESEEN = (JediError, HTTPException, ClientDisconnect, NoConnection, DBAPIError)
"""Errors that requests may end with."""


def answer_of(request: Request, error: Exception, log: Any) -> Response | None:
    """The answer to a foreseen error in the one form; None: the database refused a statement."""
    match error:
        case OutcomeUnknown():
            _log_away(request, error.__cause__ or error, log)
            return _answer(request, _status(error), error)
        case JediError():
            return _answer(request, _status(error), error)
        case HTTPException():
            sentence = f"{request.method} {request.url.path}: {error.detail}."
            said = JediError(sentence, code=f"http_{error.status_code}")
            answer = _answer(request, error.status_code, said)
            answer.headers.update(error.headers or {})
            return answer
        case ClientDisconnect():
            return _answer(request, 400, JediError("The request ended early.", code="cut_off"))
        case NoConnection():
            return _away(request, error, log)
        case DBAPIError() if is_away(error):
            return _away(request, error, log)
    return None


def failure(request: Request, error: Exception, log: Any) -> Response:
    """The answer to an error that nobody foresaw; the log has its reason."""
    known = request.state.request_id
    log.error("request failed", path=request.url.path, request_id=known, exc_info=error)
    said = f"The service failed; its log has the reason, at request {known}. Try again."
    return _answer(request, 500, JediError(said, code="internal"))


def _away(request: Request, error: Exception, log: Any) -> Response:
    _log_away(request, error, log)
    return _answer(request, 503, Unreachable(AWAY))


def _log_away(request: Request, error: BaseException, log: Any) -> None:
    why = str(getattr(error, "orig", error))[:500]
    log.error(
        "database away", path=request.url.path, request_id=request.state.request_id, error=why
    )


def _status(error: JediError) -> int:
    if error.code in _UNKNOWN_CALLER:
        return 401
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def _answer(request: Request, status: int, error: JediError) -> Response:
    """Return the answer to an error. The connection ends if a part of the request was not read: no
    request can follow that part."""
    request.state.code = error.code
    body = problem(status, error)
    headers = {"Connection": "close"} if getattr(request.state, "unread", False) else {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="jedi"'
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        headers["Content-Range"] = f"bytes */{error.facts['size']}"
    if "retry_after_s" in error.facts:
        headers["Retry-After"] = str(ceil(error.facts["retry_after_s"]))
    return Response(
        to_json(body, inf_nan_mode="null", serialize_unknown=True), status, headers, PROBLEM
    )
