"""Calls of PanDA's pilots from the token to the answer, errors included.

A pilot takes any JSON object for a good answer: an error needs a StatusCode, or the pilot would run
it as a job. It repeats an update whose answer is no JSON, and gives up asking for a job after one.
So an update that could not be stored gets plain text, and all other errors are JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from jedi.api.authentication import Caller, PilotAuthentication
from jedi.api.errors import AWAY, FORESEEN, Busy, TooLarge
from jedi.core.errors import BadInput, Forbidden, JediError, Unreachable
from jedi_panda.api.pilot_bodies import (
    BODY_MAX,
    CallFields,
    answer,
    read_fields,
    read_small_fields,
)

OK, TIME_OUT, NO_JOB, FAILED, REFUSED = 0, 10, 20, 30, 40
"""PanDA's status codes: of success, a time-out, no job, a mistake, and a refusal."""

PROBLEMS_SHOWN = 5

Work = Callable[[Request, Caller, CallFields], CallFields]
SmallWork = Callable[[Request, Caller, CallFields], Awaitable[CallFields | None]]
"""Work for few fields; None: it is not for them."""


@dataclass(frozen=True)
class PilotDoor:
    """Lets pilots in and answers them in their form. `log` is the service's."""

    authentication: PilotAuthentication
    log: Any

    async def answer(
        self, request: Request, work: Work, *, again: bool = False, soon: SmallWork | None = None
    ) -> Response:
        """Return the answer of `work`, done in a thread, to the fields of a request. `again`: the
        pilot must repeat the call if the service can't do the work at present. `soon` is asked
        first, without a thread, if the fields are few."""
        try:
            found = await self._work(request, work, soon)
        except ClientDisconnect:
            raise
        except FORESEEN as error:
            return _refusal(request, error, self.log, again=again)
        return answer(request, found)

    async def _work(self, request: Request, work: Work, soon: SmallWork | None) -> CallFields:
        caller = await self.authentication.who(request)
        kind = request.headers.get("content-type", "")
        async with self.authentication.body(request, BODY_MAX) as body:
            data = bytes(body) or request.url.query.encode()
            fields = read_small_fields(data, kind) if soon else None
            if soon and fields and (found := await soon(request, caller, fields)):
                return found
            return await to_thread.run_sync(_read_and_work, request, caller, data, kind, work)


def _read_and_work(
    request: Request, caller: Caller, data: bytes, kind: str, work: Work
) -> CallFields:
    return work(request, caller, read_fields(data, kind))


def _refusal(request: Request, error: Exception, log: Any, *, again: bool) -> Response:
    """The answer to an error that somebody foresaw."""
    passing = not isinstance(error, JediError) or isinstance(error, Unreachable | Busy)
    if not isinstance(error, JediError):
        log.error("panda call failed", path=request.url.path, error=str(error)[:500])
    said = sentence_of(error)
    request.state.code = getattr(error, "code", "unreachable")
    if passing and again:
        return PlainTextResponse(f"{said}\n", 503, {"Retry-After": "1"})
    status, code = 200, FAILED
    if passing:
        status, code = 503, TIME_OUT
    elif isinstance(error, Forbidden):
        status, code = 403, REFUSED
    elif isinstance(error, TooLarge):
        status = 413
    found = answer(request, {"StatusCode": code, "errorDialog": said}, status)
    if getattr(request.state, "unread", False):
        found.headers["Connection"] = "close"
    return found


def sentence_of(error: Exception) -> str:
    """The sentence of an error; of a bad request its first mistakes, each with its field."""
    match error:
        case BadInput():
            shown = error.problems[:PROBLEMS_SHOWN]
            said = "; ".join(
                f"{one.path} {one.rule}" + (f" (it is {one.value})" if one.value else "")
                for one in shown
            )
            more = len(error.problems) - len(shown)
            return f"{said}{f'; and {more} more mistakes' if more else ''}."
        case JediError():
            return error.sentence
    return AWAY


def no_job(sentence: str) -> Mapping[str, Any]:
    """The answer to a pilot that gets no job."""
    return {"StatusCode": NO_JOB, "errorDialog": sentence}
