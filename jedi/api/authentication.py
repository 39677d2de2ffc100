"""Authentication: a pilot's request from its token to the answer.

The token is checked before a byte of the body is read, and a body is read in full before anybody
parses it. The event loop parses small bodies alone and waits for no database.

A token that was good TRUSTED_S ago or less opens the door without the database. The work itself
confirms it in its own connection: a revoked token does nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from pydantic import BaseModel
from sqlalchemy import Connection, Engine
from starlette.requests import Request
from starlette.responses import Response

from jedi.api.bodies import LARGE, SMALL, Bodies, read, refuse
from jedi.api.memory.combiner import Combiner
from jedi.api.rates import WrongTokens
from jedi.core import clock
from jedi.core.errors import Forbidden, JediError
from jedi.service.pilots import pilot_requests
from jedi.service.pilots.pilot_requests import Answer
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.schema.release import ReleaseSchema
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Identity

TRUSTED_S = 5.0
TRUSTED_MOST = 100_000
"""Tokens that are known at a time."""

Model = TypeVar("Model", bound=BaseModel)
Asked = TypeVar("Asked")
Done = TypeVar("Done")
_BEARER = re.compile(r"bearer +(\S{1,256}) *", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `identity` is None if the token was good a moment ago."""

    token: str
    identity: Identity | None
    release: ReleaseSchema

    def confirm(self, tx: Connection) -> Identity:
        """The present identity behind the token. Forbidden: it has none any more. SchemaDiffers:
        another release has migrated the database."""
        return self.identity or pilot_requests.identify(tx, self.token, self.release)

    def confirm_in(self, engine: Engine) -> Identity:
        """The same, in a connection of its own if it takes one."""
        if self.identity:
            return self.identity
        with at_once(engine) as tx:
            return self.confirm(tx)


PilotCall = tuple[Caller, Sequence[Any]]
"""The messages of a request, after its sender."""


@dataclass(frozen=True)
class AnswerForm(Generic[Model, Asked, Done]):
    """The part of a message that a Combiner takes, and the answer to its result. `large`: the
    answer may be long."""

    asked: Callable[[Model], Asked]
    answer: Callable[[Done], Answer]
    large: Callable[[Model], bool] = lambda _: False


class PilotAuthentication:
    """Lets pilots in, unless `must_answer` raises."""

    def __init__(
        self,
        engine: Engine,
        release: ReleaseSchema,
        must_answer: Callable[[], None],
        wrong_tokens: WrongTokens,
    ) -> None:
        self._engine = engine
        self._release = release
        self._must_answer = must_answer
        self._wrong_tokens = wrong_tokens
        self._trusted: dict[str, tuple[float, str]] = {}
        """Until when, and the site, by the hashes of tokens."""
        self._bodies = Bodies()
        self._large = CapacityLimiter(1)  # at a time

    async def who(self, request: Request) -> Caller:
        """The request's sender, who has a good token. Forbidden, TooManyCalls, its body unread."""
        try:
            self._must_answer()
        except JediError as error:
            await refuse(request, error)
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        if found is None:
            sentence = "Send a token: Authorization: Bearer TOKEN."
            await refuse(request, Forbidden(sentence, code="no_token"))
        token = found[1]
        until, site = self._trusted.get(users.token_hash(token), (0.0, ""))
        if until > clock.monotonic():
            request.state.caller = f"pilot of {site}"
            return Caller(token, None, self._release)
        try:
            identity = await self._wrong_tokens.identify(
                request, token, partial(to_thread.run_sync, self._identify, token)
            )
        except JediError as error:
            await refuse(request, error)
        request.state.caller = f"pilot of {identity.site}"
        return Caller(token, identity, self._release)

    def body(self, request: Request, most: int) -> AbstractAsyncContextManager[bytearray]:
        """The body of a request whose sender is known, of at most so many bytes; it counts among
        all bodies in memory until the end."""
        return self._bodies.taken(request, most)

    async def answer(
        self,
        request: Request,
        model: type[Model],
        most: int,
        work: Callable[[Caller, Model], Answer],
    ) -> Response:
        """Return the answer of `work` to the request's body, a `model` of at most so many bytes."""
        who = await self.who(request)
        async with self._bodies.taken(request, most) as body:
            return await self._alone(who, model, body, work)

    async def answer_together(
        self,
        request: Request,
        model: type[Model],
        most: int,
        combiner: Combiner[tuple[Caller, Asked], Done],
        form: AnswerForm[Model, Asked, Done],
    ) -> Response:
        """The same, with other requests that wait; a large one is alone, in a thread."""

        def alone(caller: Caller, found: Model) -> Answer:
            return form.answer(combiner.alone((caller, form.asked(found))))

        who = await self.who(request)
        async with self._bodies.taken(request, most) as body:
            found = read(model, body) if len(body) <= SMALL else None
            if found is None or form.large(found):
                return await self._alone(who, model, body, alone)
        done = await combiner.done((who, form.asked(found)))
        return Response(_json(form.answer(done)), media_type="application/json")

    async def _alone(
        self,
        who: Caller,
        model: type[Model],
        body: bytearray,
        work: Callable[[Caller, Model], Answer],
    ) -> Response:
        limiter = self._large if len(body) > LARGE else None
        done = await to_thread.run_sync(_work, who, model, body, work, limiter=limiter)
        return Response(done, media_type="application/json")

    def _identify(self, token: str) -> Identity:
        with at_once(self._engine) as tx:
            who = pilot_requests.identify(tx, token, self._release)
        if len(self._trusted) >= TRUSTED_MOST:
            self._trusted.clear()
        self._trusted[users.token_hash(token)] = (clock.monotonic() + TRUSTED_S, who.site or "")
        return who


def _work(
    who: Caller, model: type[Model], body: bytearray, work: Callable[[Caller, Model], Answer]
) -> bytes:
    """Do all of the work, in a thread."""
    found = read(model, body)
    body.clear()
    return _json(work(who, found))


def _json(answer: Answer) -> bytes:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
