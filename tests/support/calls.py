"""Calls of operations as the service makes them, in a transaction of the test."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.host.home import Home
from jedi.service.operations.table import Call, KnownCaller, Scope


def call(
    tx: Connection, who: str = "anna", scope: Scope = "all", home: Home | None = None, **parts: Any
) -> Call:
    """A request of a user, known by his account. An operation that gets it is asked as through the
    service: the policy of the table holds. `parts`: other parts of the call (`ddm`, `knobs`,
    `dry_run`), instead of those that it would find."""
    made = Call(tx, KnownCaller(who, "socket", scope), home or Home.current())
    for name, value in parts.items():
        setattr(made, name, value)
    return made
