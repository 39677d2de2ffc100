"""Access: the caller behind a token, and the tokens of users."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, NotFound, Problem
from jedi.service import steering
from jedi.service.operations.table import SCOPES, KnownCaller, Scope
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.access import TokenFacts

DAYS_MAX = 3_660
DAY_S = 86_400


def _segment(value: Mapping[str, str]) -> str:
    written = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(written).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token, which can't be read again. `jwt`: the same in the form that PanDA's clients need."""

    token: str
    scope: str
    days: float
    jwt: str


_JWT_HEADER = _segment({"alg": "jedi", "typ": "JWT"})
"""The first part of a token in the form of a JWT: its signature is the token itself."""


def as_jwt(token: str, user_name: str) -> str:
    """A token in the form of a JWT, for clients that look into theirs for the name of the user:
    PanDA's do."""
    claims = {"sub": user_name, "name": user_name, "preferred_username": user_name}
    return f"{_JWT_HEADER}.{_segment(claims)}.{token}"


def bare_token(sent: str) -> str:
    """A token without the form of a JWT that `as_jwt` gave it. JEDI believes no claim in it."""
    return sent.rpartition(".")[2] if sent.startswith(f"{_JWT_HEADER}.") else sent


def identify(tx: Connection, token: str) -> KnownCaller:
    """The user behind a token. Forbidden if it is unknown, expired or revoked, or a pilot's."""
    found = access.holder(tx, token)
    if found is None:
        raise Forbidden("The token is unknown, expired or revoked.", code="bad_token")
    if found.kind != "user" or found.user_name is None:
        raise Forbidden("This token is a pilot's: it speaks for no user.", code="not_a_user")
    if found.stale_use:
        access.note_use(tx, token)
    scope: Scope = next((one for one in SCOPES if one == found.scope), "all")
    return KnownCaller(found.user_name, "token", scope)


def token_owner(tx: Connection, caller: KnownCaller, user_name: str | None) -> str:
    """The user whose tokens a caller handles: himself (None), or another one. Forbidden: for others
    the caller must be an operator, and a token of his must have the scope `all`."""
    if user_name in (None, caller.user_name):
        return caller.user_name
    must_handle_all(tx, caller)
    return str(user_name)


def must_handle_all(tx: Connection, caller: KnownCaller) -> None:
    """Raise Forbidden unless a caller may handle tokens of others."""
    if caller.scope != "all":
        raise Forbidden(
            f"This token is for `{caller.scope}`; tokens of others need `all`.",
            code="scope_too_small",
            scope=caller.scope,
            needed="all",
        )
    steering.must_be_operator(tx, caller.user_name)


def must_be_days(days: float) -> None:
    """BadInput: no token lives so long."""
    if not 0 < days <= DAYS_MAX:
        rule = f"a token lives more than 0 and at most {DAYS_MAX} days"
        raise BadInput([Problem("days", days, rule, "Choose a number of days")])


def create_token(
    tx: Connection, user_name: str, name: str | None, scope: Scope, days: float, holds: Scope
) -> NewToken:
    """Make a token of a user. BadInput: its days; Forbidden: the caller's own token `holds` less
    than `scope`."""
    must_be_days(days)
    if SCOPES.index(scope) > SCOPES.index(holds):
        raise Forbidden(
            f"A token for `{holds}` makes none for `{scope}`.",
            code="scope_too_small",
            scope=holds,
            needed=scope,
        )
    token = access.put_user_token(tx, user_name, name, scope, days * DAY_S)
    return NewToken(token, scope, days, as_jwt(token, user_name))


LINK_S = 60.0
"""Seconds in which a link begins a session."""


@dataclass(frozen=True, slots=True)
class SessionLink:
    """A link that begins a session of a browser, once."""

    url: str
    seconds: float


def new_link(tx: Connection, caller: KnownCaller, address: str, target: str) -> SessionLink:
    """Make a link to a page at the service's address, for a session with no more rights than its
    maker has now."""
    code = access.put_link(tx, caller.user_name, caller.scope, LINK_S)
    return SessionLink(f"{address}/login/link?{urlencode({'code': code, 'next': target})}", LINK_S)


def take_link(tx: Connection, code: str) -> KnownCaller:
    """The user who made a link, which is used up thereby. Forbidden."""
    found = access.take_link(tx, code)
    if found is None:
        raise Forbidden(
            "The link is used, expired or unknown: run `jedi open` again.", code="bad_link"
        )
    scope: Scope = next((one for one in SCOPES if one == found.scope), "read")
    return KnownCaller(found.user_name, "link", scope)


def tokens_of(tx: Connection, user_name: str | None) -> Sequence[TokenFacts]:
    """The valid tokens of a user, or of all."""
    return access.TOKENS_OF.rows(tx, user=user_name)


def revoke_token(tx: Connection, user_name: str, token_id: str) -> None:
    """Revoke a token of a user at once. NotFound."""
    if not access.revoke(tx, user_name, token_id):
        raise NotFound(
            f"{user_name} has no token {token_id}: jedi-task token list shows them.",
            token_id=token_id,
        )
