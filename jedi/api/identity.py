"""The identity of a request: the peer's account on the unix socket, a user's token, or a token of
an identity provider. The body is not read before it is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from anyio import to_thread
from sqlalchemy import Engine
from starlette.requests import Request

from jedi.api.bodies import refuse
from jedi.api.connections import UNIX
from jedi.api.issuer import Issuer
from jedi.api.rates import WrongTokens
from jedi.core import clock
from jedi.core.errors import Forbidden, JediError, Unreachable
from jedi.core.knobs.service import OidcKnobs
from jedi.core.settings import account_name
from jedi.service.operations.table import KnownCaller
from jedi.service.users import oidc, tokens
from jedi.service.users.oidc import SigningKey
from jedi.taskbuffer.db.engine import at_once

ACCOUNT_S = 5.0
"""Seconds for which the name of an account holds."""

_BEARER = re.compile(r"bearer +(\S{1,8192}) *", re.IGNORECASE)


class CallerAuthentication:
    """Finds out on whose behalf a request acts."""

    def __init__(
        self,
        engine: Engine,
        knobs: Callable[[], OidcKnobs],
        wrong_tokens: WrongTokens,
        log: Any,
    ) -> None:
        self._engine = engine
        self._wrong_tokens = wrong_tokens
        self._knobs = knobs
        self._log = log
        self._issuer = Issuer("", log)
        self._accounts: dict[int, tuple[str, float]] = {}
        """Names of accounts by uid, and until when they hold."""

    async def __call__(self, request: Request) -> KnownCaller:
        """The caller. Forbidden, TooManyCalls, the body unread."""
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        identify = partial(self._identify, request)
        try:
            if found is None:
                return await identify()
            return await self._wrong_tokens.identify(request, found[1], identify)
        except JediError as error:
            await refuse(request, error)

    async def still_knows(self, request: Request) -> bool:
        """True if the caller of a running request would be let in again. A provider that does not
        answer changes nothing."""
        try:
            await self._identify(request)
        except Unreachable:
            return True
        except JediError:
            return False
        return True

    async def _identify(self, request: Request) -> KnownCaller:
        """A token comes before the peer's account."""
        header = request.headers.get("authorization")
        found = _BEARER.fullmatch(header or "")
        token = tokens.bare_token(found[1]) if found else ""
        if token.count(".") == 2:
            return await self._by_provider(token)
        if found:
            return await to_thread.run_sync(self._by_token, token)
        if header is None and request.client and request.client.host == UNIX:
            return await self._by_account(request.client.port)
        raise Forbidden(
            "Send a token: Authorization: Bearer TOKEN (jedi-task login).", code="no_token"
        )

    async def _by_account(self, uid: int) -> KnownCaller:
        """Names of accounts may come from a directory service: a thread asks for them."""
        name, until = self._accounts.get(uid, ("", 0.0))
        if clock.monotonic() >= until:
            name = await to_thread.run_sync(account_name, uid)
            self._accounts[uid] = (name, clock.monotonic() + ACCOUNT_S)
        return KnownCaller(name, "socket")

    def _by_token(self, token: str) -> KnownCaller:
        with at_once(self._engine) as tx:
            return tokens.identify(tx, token)

    async def _by_provider(self, token: str) -> KnownCaller:
        """The caller of a signed token. A wrong one costs the database nothing."""
        knobs = await to_thread.run_sync(self._knobs)
        if not oidc.is_on(knobs):
            raise Forbidden("The service takes no tokens of a provider.", code="bad_token")
        header = oidc.header_of(token)
        if self._issuer.url != knobs.issuer:
            self._issuer = Issuer(knobs.issuer, self._log)
        key = await self._issuer.key(header)
        return await to_thread.run_sync(self._by_signature, token, key, knobs)

    def _by_signature(self, token: str, key: SigningKey, knobs: OidcKnobs) -> KnownCaller:
        now_s = int(clock.now().timestamp())
        claims = oidc.claims_of(token, key, knobs.issuer, knobs.audience, now_s)
        person = oidc.person_of(claims, knobs)
        with at_once(self._engine) as tx:
            admitted = oidc.is_admitted(tx, person)
        if not admitted:
            with self._engine.begin() as tx:
                oidc.admit(tx, person, bool(knobs.shared_accounts))
        return oidc.caller_of(person)
