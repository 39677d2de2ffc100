"""jedi_tokens of users: made, listed, revoked, their use noted; links that begin sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns
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


_CHECK = returns(TokenHolder)("""
SELECT kind, site, username, scope,
  kind = 'user' AND (used_at IS NULL OR used_at < jedi_now() - interval '1 minute')
    AS stale_use
FROM jedi_tokens WHERE token_hash = :hash
  AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > jedi_now())
""")


def holder(tx: Connection, token: str) -> TokenHolder | None:
    """The holder of a token; None if it is unknown, expired or revoked."""
    return _CHECK.row(tx, hash=token_hash(token))


_USED = changes("UPDATE jedi_tokens SET used_at = jedi_now() WHERE token_hash = :hash")


def note_use(tx: Connection, token: str) -> None:
    """Note that a token is used now."""
    _USED.run(tx, hash=token_hash(token))


_PUT = changes("""
INSERT INTO jedi_tokens (token_hash, kind, username, name, scope, expires_at)
VALUES (:hash, 'user', :user, :name, :scope,
  jedi_now() + make_interval(secs => CAST(:lifetime_s AS float8)))
""")


def put_user_token(
    tx: Connection, user_name: str, name: str | None, scope: str, lifetime_s: float
) -> str:
    """Make a token of a user; it can't be read again."""
    token = new_token()
    _PUT.run(
        tx, hash=token_hash(token), user=user_name, name=name, scope=scope, lifetime_s=lifetime_s
    )
    return token


_PUT_LINK = changes("""
INSERT INTO jedi_tokens (token_hash, kind, username, scope, expires_at)
VALUES (:hash, 'link', :user, :scope,
  jedi_now() + make_interval(secs => CAST(:lifetime_s AS float8)))
""")


def put_link(tx: Connection, user_name: str, scope: str, lifetime_s: float) -> str:
    """Make the code of a link, which begins one session of a user."""
    code = new_token()
    _PUT_LINK.run(tx, hash=token_hash(code), user=user_name, scope=scope, lifetime_s=lifetime_s)
    return code


class LinkMaker(NamedTuple):
    """The user who made a link, and the most that its session may do."""

    user_name: str
    scope: str


_TAKE_LINK = returns(LinkMaker)("""
UPDATE jedi_tokens SET revoked_at = jedi_now(), used_at = jedi_now()
WHERE token_hash = :hash AND kind = 'link' AND revoked_at IS NULL AND expires_at > jedi_now()
RETURNING username, scope
""")


def take_link(tx: Connection, code: str) -> LinkMaker | None:
    """Use a link up; None: it is unknown, expired or used."""
    return _TAKE_LINK.row(tx, hash=token_hash(code))


TOKENS_OF = returns(TokenFacts)(f"""
-- The valid tokens of a user (None: of all), the oldest first.
SELECT left(token_hash, {ID_LENGTH}) AS token_id, username, name, scope,
  creationtime, expires_at, used_at
FROM jedi_tokens
WHERE kind = 'user' AND (CAST(:user AS text) IS NULL OR username = :user) AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > jedi_now())
ORDER BY creationtime
""")


_REVOKE = changes(f"""
UPDATE jedi_tokens SET revoked_at = jedi_now()
WHERE kind = 'user' AND username = :user AND left(token_hash, {ID_LENGTH}) = :id
  AND revoked_at IS NULL
""")


def revoke(tx: Connection, user_name: str, token_id: str) -> bool:
    """Revoke a token of a user; False: he has none of this id."""
    return _REVOKE.run(tx, user=user_name, id=token_id) > 0
