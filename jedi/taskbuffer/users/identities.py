"""jedi_identities: users that an identity provider named."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


class Identified(NamedTuple):
    """A user's role, and the person of a provider behind the name; None: there is none."""

    issuer: str | None
    subject: str | None
    role: str


_FIND = returns(Identified)("""
SELECT i.issuer, i.subject, coalesce(u.role, 'user') AS role
FROM (SELECT CAST(:user AS text) AS username) AS named
  LEFT JOIN jedi_identities AS i USING (username) LEFT JOIN jedi_users AS u USING (username)
""")


def find(tx: Connection, user_name: str) -> Identified:
    """A user, known or not."""
    [found] = _FIND.rows(tx, user=user_name)
    return found


LINK = changes("""
-- Remember the person behind a name, unless there is one already.
INSERT INTO jedi_identities (username, issuer, subject) VALUES (:user, :issuer, :subject)
ON CONFLICT DO NOTHING
""")
