"""PanDA's calls over operations: a call reads its arguments, asks operations in the name of its
caller, and answers in PanDA's envelope.

Each call has a model of its arguments. Unknown ones are ignored, because newer clients may send
more; `None` as a text is PanDA's way to leave one out of a query.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from jedi.api.application import Application
from jedi.api.bodies import Bodies, must_be_storable, problems_of, read
from jedi.api.errors import Busy, TooSlow
from jedi.api.operations import (
    AnyObject,
    OperationDoor,
    is_list,
    must_be_utf8,
)
from jedi.api.rates import TooManyCalls
from jedi.core.errors import BadInput, Forbidden, JediError, OutcomeUnknown, Unreachable
from jedi.service.operations.table import KnownCaller
from jedi_panda.api.envelope import PandaReply, refusal
from jedi_panda.api.gzip_bodies import unpacked

ROOT = "/api/v1/"
BODY_MAX = 16 * 2**20
_TRANSIENT = (Unreachable, OutcomeUnknown, TooManyCalls, Busy, TooSlow)
"""Errors that a client should meet as failures of the network: it tries again."""


class CallArguments(BaseModel):
    """Arguments of a call; PanDA's clients send numbers as texts now and then."""

    model_config = ConfigDict(extra="ignore", frozen=True)


@dataclass(frozen=True, slots=True)
class Asking:
    """A call in hand: its caller, and the way to operations."""

    door: OperationDoor
    caller: KnownCaller
    request: Request

    def __call__(self, operation: str, /, **arguments: Any) -> Any:
        """The answer of an operation as plain values. JediError."""
        given = {name: value for name, value in arguments.items() if value is not None}
        answer = self.door.perform(operation, self.caller, self.request, given)
        assert isinstance(answer, bytes)  # files and streams are no calls
        return json.loads(answer)


Arguments = TypeVar("Arguments", bound=CallArguments)
CallFunction = Callable[[Asking, Any], PandaReply]


@dataclass(frozen=True, slots=True)
class PandaCall:
    """A call of PanDA's: its method, its path below ROOT, the model of its arguments."""

    method: str
    path: str
    arguments: type[CallArguments]
    run: CallFunction


CALLS: list[PandaCall] = []
"""All calls."""


def panda_call(
    method: str, path: str, arguments: type[Arguments]
) -> Callable[
    [Callable[[Asking, Arguments], PandaReply]], Callable[[Asking, Arguments], PandaReply]
]:
    """Enter a function into CALLS."""

    def enter(
        run: Callable[[Asking, Arguments], PandaReply],
    ) -> Callable[[Asking, Arguments], PandaReply]:
        CALLS.append(PandaCall(method, path, arguments, run))
        return run

    return enter


def add_calls(app: Application, door: OperationDoor) -> None:
    """Add a route for each call."""
    bodies = Bodies()
    for one in CALLS:
        name = f"panda {one.path}"
        app.route(one.method, ROOT + one.path, name)(_endpoint(one, door, bodies))


def _endpoint(one: PandaCall, door: OperationDoor, bodies: Bodies) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            asking = Asking(door, await door.let_in(request), request)
        except Forbidden as error:
            return stranger(request, error)
        if one.method == "GET":
            return await answered(asking, lambda: _run(one, asking, None))
        async with bodies.taken(request, BODY_MAX) as body:
            return await answered(asking, lambda: _run(one, asking, body))

    return endpoint


def stranger(request: Request, error: Forbidden) -> Response:
    """The answer to an unknown caller. Its status is 403, because clients repeat after 401."""
    request.state.code = error.code
    answer = refusal(error).response(403)
    if getattr(request.state, "unread", False):
        answer.headers["Connection"] = "close"
    return answer


async def answered(asking: Asking, work: Callable[[], PandaReply]) -> Response:
    """The answer of work for a call; a refusal is one, too."""
    try:
        return (await asking.door.working.done(asking.request, work)).response()
    except _TRANSIENT:
        raise
    except JediError as error:
        asking.request.state.code = error.code
        return refusal(error).response()


def _run(one: PandaCall, asking: Asking, body: bytearray | None) -> PandaReply:
    return one.run(asking, _arguments(one, asking.request, body))


def _arguments(one: PandaCall, request: Request, body: bytearray | None) -> CallArguments:
    must_be_utf8(request)
    given = _query(one, request) if body is None else _object(body)
    must_be_storable(given)
    try:
        return one.arguments.model_validate(given)
    except ValidationError as error:
        raise BadInput(problems_of(error)) from None


def _query(one: PandaCall, request: Request) -> dict[str, Any]:
    fields = one.arguments.model_fields
    lists = {name for name, field in fields.items() if is_list(field.annotation)}
    found = {}
    for name in request.query_params:
        values = [v for v in request.query_params.getlist(name) if v != "None"]
        if values:
            found[name] = values if name in lists else values[-1]
    return found


def _object(body: bytearray) -> dict[str, Any]:
    """The object in a body."""
    if not body:
        return {}
    plain = bytearray(unpacked(bytes(body), BODY_MAX))
    found = read(AnyObject, plain).model_extra or {}
    return {name: value for name, value in found.items() if value is not None}
