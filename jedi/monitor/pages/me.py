"""The visitor: identity, rights, tokens."""

from __future__ import annotations

from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page

COLUMNS = (
    Column("token_id", "Token", "id"),
    Column("name", "Name"),
    Column("scope", "Scope", "code"),
    Column("creation_time", "Made", "time", wide=True),
    Column("used_at", "Last used", "time"),
    Column("expires_at", "Ends", "time"),
)


@page("me", "/me")
def me(ask: Ask) -> View:
    """The caller's identity and tokens; sessions of browsers are tokens, too."""
    found = ask("token.list")
    sheet = Sheet(
        "tokens",
        "Tokens and sessions",
        COLUMNS,
        found[::-1],
        "token_id",
        empty="You have no tokens.",
    )
    return View("Your access", {"me": ask("me.show")}, (sheet,))
