"""The identity of a request: the peer's account on the unix socket, a user's token, or a token of
an identity provider. The body is not read before it is known."""

from __future__ import annotations

import re

from anyio import to_thread
from sqlalchemy import Engine
from starlette.requests import Request

from jedi.api.bodies import refuse
from jedi.api.connections import UNIX
from jedi.core.errors import Forbidden, JediError
from jedi.core.settings import account_name
from jedi.service import access
from jedi.service.operations.table import KnownCaller
from jedi.taskbuffer.db.engine import at_once

_BEARER = re.compile(r"bearer +(\S{1,8192}) *", re.IGNORECASE)


class CallerAuthentication:
    """Finds out on whose behalf a request acts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> KnownCaller:
        """The caller. Forbidden, the body unread. A token comes before the peer's account."""
        header = request.headers.get("authorization")
        found = _BEARER.fullmatch(header or "")
        try:
            if found:
                return await to_thread.run_sync(self._by_token, found[1])
            if header is None and request.client and request.client.host == UNIX:
                return await to_thread.run_sync(_by_account, request.client.port)
            raise Forbidden(
                "Say who you are: Authorization: Bearer TOKEN (jedi-task login).", code="no_token"
            )
        except JediError as error:
            await refuse(request, error)

    def _by_token(self, token: str) -> KnownCaller:
        with at_once(self._engine) as tx:
            return access.identify(tx, token)


def _by_account(uid: int) -> KnownCaller:
    return KnownCaller(account_name(uid), "socket")
