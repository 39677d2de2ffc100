"""Calls of operations as the service makes them, in a transaction of the test."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.host.home import Home
from jedi.service.operations.table import Call, KnownCaller, Scope


def call(
    tx: Connection,
    who: str = "anna",
    *,
    scope: Scope = "all",
    home: Home | None = None,
    dry_run: bool = False,
) -> Call:
    """A request of a user, known by his account. An operation that gets it is asked as through the
    service: the policy of the table holds."""
    known = KnownCaller(who, "socket", scope)
    return Call(tx, known, home or Home.current(), dry_run=dry_run)
