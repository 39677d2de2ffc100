"""jedi_tokens of users: made, listed, revoked, their use noted; links that begin sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import row_of, rows_of
from jedi.taskbuffer.users.users import new_token, token_hash

ID_LENGTH = 12
"""Digits of a token's hash that name it in lists."""


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """A user's token, without itself."""

    token_id: str
    user_name: str
    name: str | None
    scope: str
    creation_time: datetime
    expires_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The holder of a token: a user, or a pilot of a site; `stale_use`: its use is to be noted."""

    kind: str
    site: str | None
    user_name: str | None
    scope: str | None
    stale_use: bool


_CHECK = text("""
SELECT kind, site, username AS user_name, scope,
  kind = 'user' AND (used_at IS NULL OR used_at < jedi_now() - interval '1 minute')
    AS stale_use
FROM jedi_tokens WHERE token_hash = :hash
  AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > jedi_now())
""")


def holder(tx: Connection, token: str) -> TokenHolder | None:
    """The holder of a token; None if it is unknown, expired or revoked."""
    return row_of(TokenHolder, tx.execute(_CHECK, {"hash": token_hash(token)}))


_USED = text("UPDATE jedi_tokens SET used_at = jedi_now() WHERE token_hash = :hash")


def note_use(tx: Connection, token: str) -> None:
    """Note that a token is used now."""
    tx.execute(_USED, {"hash": token_hash(token)})


_PUT = text("""
INSERT INTO jedi_tokens (token_hash, kind, username, name, scope, expires_at)
VALUES (:hash, 'user', :user, :name, :scope,
  jedi_now() + make_interval(secs => CAST(:lifetime_s AS float8)))
""")


def put_user_token(
    tx: Connection, user_name: str, name: str | None, scope: str, lifetime_s: float
) -> str:
    """Make a token of a user; it can't be read again."""
    token = new_token()
    tx.execute(_PUT, {"hash": token_hash(token), "user": user_name, "name": name, "scope": scope,
                      "lifetime_s": lifetime_s})  # fmt: skip
    return token


_PUT_LINK = text("""
INSERT INTO jedi_tokens (token_hash, kind, username, scope, expires_at)
VALUES (:hash, 'link', :user, :scope,
  jedi_now() + make_interval(secs => CAST(:lifetime_s AS float8)))
""")


def put_link(tx: Connection, user_name: str, scope: str, lifetime_s: float) -> str:
    """Make the code of a link, which begins one session of a user."""
    code = new_token()
    tx.execute(_PUT_LINK, {"hash": token_hash(code), "user": user_name, "scope": scope,
                           "lifetime_s": lifetime_s})  # fmt: skip
    return code


class LinkMaker(NamedTuple):
    """The user who made a link, and the most that its session may do."""

    user_name: str
    scope: str


_TAKE_LINK = text("""
UPDATE jedi_tokens SET revoked_at = jedi_now(), used_at = jedi_now()
WHERE token_hash = :hash AND kind = 'link' AND revoked_at IS NULL AND expires_at > jedi_now()
RETURNING username AS user_name, scope
""")


def take_link(tx: Connection, code: str) -> LinkMaker | None:
    """Use a link up; None: it is unknown, expired or used."""
    return row_of(LinkMaker, tx.execute(_TAKE_LINK, {"hash": token_hash(code)}))


_LIST = text(f"""
SELECT left(token_hash, {ID_LENGTH}) AS token_id, username AS user_name, name, scope,
  creationtime AS creation_time, expires_at, used_at
FROM jedi_tokens
WHERE kind = 'user' AND (CAST(:user AS text) IS NULL OR username = :user) AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > jedi_now())
ORDER BY creationtime
""")


def tokens_of(tx: Connection, user_name: str | None) -> Sequence[TokenFacts]:
    """The valid tokens of a user (None: of all), the oldest first."""
    return rows_of(TokenFacts, tx.execute(_LIST, {"user": user_name}))


_REVOKE = text(f"""
UPDATE jedi_tokens SET revoked_at = jedi_now()
WHERE kind = 'user' AND username = :user AND left(token_hash, {ID_LENGTH}) = :id
  AND revoked_at IS NULL
""")


def revoke(tx: Connection, user_name: str, token_id: str) -> bool:
    """Revoke a token of a user; False: he has none of this id."""
    return tx.execute(_REVOKE, {"user": user_name, "id": token_id}).rowcount > 0
