"""Who is at the door: a pilot's request from its token to the answer.

The token is checked before a byte of the body is read, and a body is read in full before a thread
takes it: the event loop parses nothing and waits for no database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from pydantic import BaseModel
from sqlalchemy import Engine
from starlette.requests import Request
from starlette.responses import Response

from jedi.api.bodies import LARGE, Bodies, read, refuse
from jedi.core.errors import Forbidden, JediError
from jedi.service import pilots
from jedi.service.pilots import Answer
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.users.users import Identity

Model = TypeVar("Model", bound=BaseModel)
_BEARER = re.compile(r"bearer +(\S{1,256}) *", re.IGNORECASE)


class PilotAuthentication:
    """Lets pilots in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._bodies = Bodies()
        self._large = CapacityLimiter(1)  # at a time

    async def who(self, request: Request) -> Identity:
        """Whom the request's token stands for. Forbidden, its body unread."""
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        if found is None:
            said = "Say who you are: Authorization: Bearer TOKEN."
            await refuse(request, Forbidden(said, code="no_token"))
        try:
            return await to_thread.run_sync(self._identify, found[1])
        except JediError as error:
            await refuse(request, error)

    async def answer(
        self,
        request: Request,
        model: type[Model],
        most: int,
        work: Callable[[Identity, Model], Answer],
    ) -> Response:
        """What `work` answers to the request's body, a `model` of at most so many bytes."""
        who = await self.who(request)
        async with self._bodies.taken(request, most) as body:
            limiter = self._large if len(body) > LARGE else None
            done = await to_thread.run_sync(_work, who, model, body, work, limiter=limiter)
        return Response(done, media_type="application/json")

    def _identify(self, token: str) -> Identity:
        with at_once(self._engine) as tx:
            return pilots.identify(tx, token)


def _work(
    who: Identity, model: type[Model], body: bytearray, work: Callable[[Identity, Model], Answer]
) -> bytes:
    """The whole of it, in a thread."""
    found = read(model, body)
    body.clear()
    return json.dumps(work(who, found), ensure_ascii=False, separators=(",", ":")).encode()
