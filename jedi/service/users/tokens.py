"""Access: the caller behind a token, and the tokens of users."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, NotFound, Problem
from jedi.model.mistakes import checked_by
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import SCOPES, SELF, Call, KnownCaller, Scope, operation
from jedi.service.users.operators import must_be_operator
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


def must_be_days(days: float) -> None:
    """BadInput: no token lives so long."""
    if not 0 < days <= DAYS_MAX:
        rule = f"a token lives more than 0 and at most {DAYS_MAX} days"
        raise BadInput([Problem("days", days, rule, "Choose a number of days")])


@operation("token.create", "POST", "/v1/tokens", SELF, scope="read", secret=True)
def create_token(
    call: Call,
    name: Annotated[str | None, Field(max_length=100)] = None,
    scope: Scope = "all",
    days: Annotated[float, checked_by(must_be_days)] = 90.0,
    user: NameText | None = None,
) -> NewToken:
    """Make a token of the caller for scripts and other machines. `user`: of this user or service
    account, only for operators.

    Forbidden: the caller's own token holds less than `scope`.
    """
    owner = _owner(call, user)
    call.subject = f"user {owner}"
    must_be_days(days)
    holds = call.caller.scope
    if SCOPES.index(scope) > SCOPES.index(holds):
        raise Forbidden(
            f"A token for `{holds}` makes none for `{scope}`.",
            code="scope_too_small",
            scope=holds,
            needed=scope,
        )
    token = access.put_user_token(call.tx, owner, name, scope, days * DAY_S)
    return NewToken(token, scope, days, as_jwt(token, owner))


def _owner(call: Call, user: str | None) -> str:
    """The user whose tokens a caller handles: himself (None), or another one. Forbidden: for others
    the caller must be an operator, and a token of his must have the scope `all`."""
    if user in (None, call.who):
        return call.who
    _must_handle_all(call)
    return str(user)


def _must_handle_all(call: Call) -> None:
    """Raise Forbidden unless a caller may handle tokens of others."""
    if call.caller.scope != "all":
        raise Forbidden(
            f"This token is for `{call.caller.scope}`; tokens of others need `all`.",
            code="scope_too_small",
            scope=call.caller.scope,
            needed="all",
        )
    must_be_operator(call.tx, call.who)


@operation("token.list", "GET", "/v1/tokens", SELF)
def list_tokens(
    call: Call, user: NameText | None = None, everybody: bool = False
) -> Sequence[TokenFacts]:
    """List the caller's valid tokens; only operators list those of another `user`, or of
    `everybody`."""
    if everybody:
        if user is not None:
            rule = "can't be combined with user"
            raise BadInput([Problem("everybody", everybody, rule, "Leave one of them out")])
        _must_handle_all(call)
        return access.TOKENS_OF.rows(call.tx, user=None)
    return access.TOKENS_OF.rows(call.tx, user=_owner(call, user))


@operation("token.revoke", "DELETE", "/v1/tokens/{token_id}", SELF, scope="read", dry_run=True)
def revoke_token(call: Call, token_id: str, user: NameText | None = None) -> None:
    """Revoke a token of the caller at once; only operators revoke one of another `user`.

    NotFound.
    """
    call.subject = f"token {token_id[:20]}"
    owner = _owner(call, user)
    if not access.revoke(call.tx, owner, token_id):
        raise NotFound(
            f"{owner} has no token {token_id}: jedi-task token list shows them.",
            token_id=token_id,
        )
