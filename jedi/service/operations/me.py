"""Operations on one's own access, and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from jedi.core import names
from jedi.core.errors import BadInput, Problem, Refused
from jedi.model.mistakes import checked_by
from jedi.service import access
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import ANYBODY, OPERATOR, SELF, Call, Scope, operation
from jedi.taskbuffer.users import audit
from jedi.taskbuffer.users.access import TokenFacts
from jedi.taskbuffer.users.audit import AuditEntry


@dataclass(frozen=True, slots=True)
class Me:
    """The caller: role, way of the identity (socket, token, oidc), scope of the token.
    `task_scope`: that of the datasets of his tasks."""

    user_name: str
    role: str
    way: str
    scope: str
    task_scope: str


@operation("me.show", "GET", "/v1/me", ANYBODY)
def whoami(call: Call) -> Me:
    """Show the caller's identity and role."""
    return Me(call.who, call.role, call.caller.way, call.caller.scope, names.task_scope(call.who))


@operation("token.create", "POST", "/v1/tokens", SELF, scope="read", secret=True)
def create_token(
    call: Call,
    name: Annotated[str | None, Field(max_length=100)] = None,
    scope: Scope = "all",
    days: Annotated[float, checked_by(access.must_be_days)] = 90.0,
    user: NameText | None = None,
) -> access.NewToken:
    """Make a token of the caller for scripts and other machines. `user`: of this user or service
    account, only for operators."""
    owner = access.token_owner(call.tx, call.caller, user)
    call.subject = f"user {owner}"
    return access.create_token(call.tx, owner, name, scope, days, call.caller.scope)


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
        access.must_handle_all(call.tx, call.caller)
        return access.tokens_of(call.tx, None)
    return access.tokens_of(call.tx, access.token_owner(call.tx, call.caller, user))


@operation("token.revoke", "DELETE", "/v1/tokens/{token_id}", SELF, scope="read", dry_run=True)
def revoke_token(call: Call, token_id: str, user: NameText | None = None) -> None:
    """Revoke a token of the caller at once; only operators revoke one of another `user`."""
    call.subject = f"token {token_id[:20]}"
    access.revoke_token(call.tx, access.token_owner(call.tx, call.caller, user), token_id)


@operation("session.link", "POST", "/v1/session-links", SELF, scope="read", secret=True)
def link_session(
    call: Call, target: Annotated[str, Field(max_length=10_000, pattern=r"^/[^\x00]*$")] = "/"
) -> access.SessionLink:
    """Make a link that logs a browser in as the caller: within 60 s, once. `target`: its page."""
    call.subject = f"user {call.who}"
    address = call.home.page_url
    if address is None:
        raise Refused(
            "The service has no address for browsers: unset the knob api.page, and start it again.",
            code="no_pages",
        )
    return access.new_link(call.tx, call.caller, address, target)


@operation("audit.list", "GET", "/v1/audit", OPERATOR)
def list_audit(
    call: Call,
    user: str | None = None,
    operation: str | None = None,
    subject: str | None = None,
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100,
) -> Sequence[AuditEntry]:
    """List changes that callers made, the newest first."""
    return audit.entries(call.tx, user, operation, subject, before, limit)
