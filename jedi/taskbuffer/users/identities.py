"""jedi_identities: users that an identity provider named."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import rows_of


class Identified(NamedTuple):
    """A user's role, and the person of a provider behind the name; None: there is none."""

    issuer: str | None
    subject: str | None
    role: str


_FIND = text("""
SELECT i.issuer, i.subject, coalesce(u.role, 'user') AS role
FROM (SELECT CAST(:user AS text) AS username) AS named
  LEFT JOIN jedi_identities AS i USING (username) LEFT JOIN jedi_users AS u USING (username)
""")


def find(tx: Connection, user_name: str) -> Identified:
    """A user, known or not."""
    [found] = rows_of(Identified, tx.execute(_FIND, {"user": user_name}))
    return found


_LINK = text("""
INSERT INTO jedi_identities (username, issuer, subject) VALUES (:user, :issuer, :subject)
ON CONFLICT DO NOTHING
""")


def link(tx: Connection, user_name: str, issuer: str, subject: str) -> None:
    """Remember the person behind a name, unless there is one already."""
    tx.execute(_LINK, {"user": user_name, "issuer": issuer, "subject": subject})
