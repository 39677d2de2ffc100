"""The caller."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.core import names
from jedi.service.operations.table import ANYBODY, Call, operation


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
