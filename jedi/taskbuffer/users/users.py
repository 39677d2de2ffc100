"""jedi_users and jedi_tokens: who may do what, and who may speak to the service.

Only the sha256 of a token is kept: a token has 256 random bits, so nothing slower is needed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Set
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import answers, changes, returns


@dataclass(frozen=True, slots=True)
class Identity:
    """The holder of a token: a pilot of one site, or a user."""

    kind: str
    site: str | None
    user_name: str | None


PUT_USER = changes("""
-- Give a user a role (user, production or operator), special permissions (letters of GRIDPREF, see
-- priority.py) and the most running analysis jobs; what is None stays as it is.
INSERT INTO jedi_users AS u (username, role, gridpref, cap_running_jobs)
VALUES (:user, coalesce(:role, 'user'), coalesce(:gridpref, ''), :cap)
ON CONFLICT (username) DO UPDATE SET role = coalesce(:role, u.role),
  gridpref = coalesce(:gridpref, u.gridpref),
  cap_running_jobs = coalesce(:cap, u.cap_running_jobs)
""")


_ROLE = returns(str)("SELECT role FROM jedi_users WHERE username = :user")


def role(tx: Connection, user_name: str) -> str:
    """Return a user's role; unlisted people are users."""
    found: str | None = _ROLE.row(tx, user=user_name)
    return found or "user"


OPERATORS = returns(str)("""
-- The users of role operator, by name.
SELECT username FROM jedi_users WHERE role = 'operator' ORDER BY 1
""")


LOCK_OPERATORS = changes("""
-- Let nobody else demote an operator before the transaction's end.
SELECT FROM jedi_users WHERE role = 'operator' ORDER BY username FOR NO KEY UPDATE
""")


ALL = returns(tuple[str, str, str, int | None])("""
-- Every user with a row: name, role, special permissions, most running jobs.
SELECT username, role, gridpref, cap_running_jobs FROM jedi_users ORDER BY username
""")

_GRIDPREF = returns(str)("SELECT gridpref FROM jedi_users WHERE username = :user")


def gridpref(tx: Connection, user_name: str) -> str:
    """A user's special permissions, letters of GRIDPREF."""
    found: str | None = _GRIDPREF.row(tx, user=user_name)
    return found or ""


CAP = returns(int)("""
-- The most running analysis jobs of a user; None: as many as others, 0: no limit.
SELECT cap_running_jobs FROM jedi_users WHERE username = :user
""")


@dataclass(frozen=True, slots=True)
class Notices:
    """A user's notifications; `about`: tasks (their ends) or jobs (also the ends of jobs)."""

    mail: str | None
    webhook: str | None
    about: str


_NOTICES = returns(Notices)(
    "SELECT email AS mail, webhook, notices AS about FROM jedi_users WHERE username = :user"
)


def notices(tx: Connection, user_name: str) -> Notices:
    """Return a user's notifications."""
    found = _NOTICES.row(tx, user=user_name)
    return found or Notices(None, None, "tasks")


_PUT_NOTICES = changes("""
INSERT INTO jedi_users AS u (username, email, webhook, webhook_secret, notices)
VALUES (:user, :mail, :webhook, :secret, :about)
ON CONFLICT (username) DO UPDATE SET email = excluded.email,
  webhook = excluded.webhook, notices = excluded.notices,
  webhook_secret = coalesce(excluded.webhook_secret, u.webhook_secret)
""")


def put_notices(tx: Connection, user_name: str, wanted: Notices, salt: str | None) -> None:
    """Tell a user in these ways from now on; of `salt` the secret is made that signs what is posted
    (None: as before)."""
    _PUT_NOTICES.run(tx, user=user_name, secret=salt, **asdict(wanted))


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return the hash of a token, which the database stores."""
    return hashlib.sha256(token.encode()).hexdigest()


_PUT_TOKEN = changes("""
INSERT INTO jedi_tokens (token_hash, kind, site, username, expires_at)
VALUES (:hash, :kind, :site, :user,
  jedi_now() + make_interval(secs => CAST(:lifetime AS float8)))
""")


def put_token(
    tx: Connection,
    kind: str,
    *,
    site: str | None = None,
    user_name: str | None = None,
    lifetime_s: float | None = None,
) -> str:
    """Make a token, for a `pilot` of a site or a `user`; it can't be read again."""
    token = new_token()
    _PUT_TOKEN.run(
        tx, hash=token_hash(token), kind=kind, site=site, user=user_name, lifetime=lifetime_s
    )
    return token


_CHECK_TOKENS = answers()("""
SELECT json_build_array((SELECT version_num FROM jedi_schema_version), (
  SELECT json_object_agg(token_hash, json_build_array(kind, site, username)) FROM jedi_tokens
  WHERE token_hash = ANY(:hashes)
    AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > jedi_now())))
""")


def check_token(tx: Connection, token: str) -> Identity | None:
    """The holder of a token; None if it is unknown, has expired or was taken back."""
    return holders_and_revision(tx, {token})[0].get(token)


def holders_and_revision(
    tx: Connection, tokens: Set[str]
) -> tuple[dict[str, Identity], str | None]:
    """The holders of those tokens that are valid now, and the revision of the schema: both by one
    way to the database."""
    hashes = {token_hash(token): token for token in tokens}
    revision, found = _CHECK_TOKENS.value(tx, hashes=[*hashes])
    return {hashes[one]: Identity(*holder) for one, holder in (found or {}).items()}, revision


REVOKE_TOKEN = changes("""
-- Take a token back; `hashed` as token_hash() gives it.
UPDATE jedi_tokens SET revoked_at = jedi_now()
WHERE token_hash = :hash AND revoked_at IS NULL
""")
