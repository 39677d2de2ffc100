"""jedi_registries: GUIDs, the counter of changes, ids, and the lease of the writing session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import row_of, rows_of


@dataclass(frozen=True, slots=True)
class JobRegistry:
    """A user's registry of jobs. `holder`: the session that may write, until `lease_until` at
    least."""

    guid: str
    user_name: str
    name: str
    change: int
    holder: str | None
    lease_until: datetime | None
    creation_time: datetime


@dataclass(frozen=True, slots=True)
class RegistryLease:
    """The lease of a session, and the time until which no other session may take it."""

    lease: str
    lease_until: datetime


_PUT = text("""
INSERT INTO jedi_registries (guid, username, name)
VALUES (CAST(gen_random_uuid() AS text), :user, :name) ON CONFLICT (username, name) DO NOTHING
""")


def put(tx: Connection, user_name: str, name: str) -> None:
    """Make a registry of a user unless there is one of this name."""
    tx.execute(_PUT, {"user": user_name, "name": name})


_LIST = text("""
SELECT guid, username AS user_name, name, change, holder, lease_until,
  creationtime AS creation_time
FROM jedi_registries WHERE username = :user AND (CAST(:name AS text) IS NULL OR name = :name)
ORDER BY name
""")


def of_user(tx: Connection, user_name: str, name: str | None = None) -> list[JobRegistry]:
    """The registries of a user, or the one of this name."""
    return rows_of(JobRegistry, tx.execute(_LIST, {"user": user_name, "name": name}))


_ONE = text("""
SELECT guid, username AS user_name, name, change, holder, lease_until,
  creationtime AS creation_time
FROM jedi_registries WHERE guid = :guid
""")


def one(tx: Connection, guid: str) -> JobRegistry | None:
    """A registry; None: there is none."""
    return row_of(JobRegistry, tx.execute(_ONE, {"guid": guid}))


_LEASE = text("""
UPDATE jedi_registries SET lease = CAST(gen_random_uuid() AS text), holder = :holder,
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND (lease IS NULL OR lease_until <= jedi_now() OR :take_over)
RETURNING lease, lease_until
""")


def lease(
    tx: Connection, guid: str, holder: str, lease_s: float, take_over: bool
) -> RegistryLease | None:
    """Give a session the lease; None: another one has it. An expired lease is free."""
    values = {"guid": guid, "holder": holder, "lease_s": lease_s, "take_over": take_over}
    return row_of(RegistryLease, tx.execute(_LEASE, values))


_RENEW = text("""
UPDATE jedi_registries SET
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND lease = :lease
RETURNING lease, lease_until
""")


def renew(tx: Connection, guid: str, lease: str, lease_s: float) -> RegistryLease | None:
    """Prolong a lease; None: another session has taken it."""
    values = {"guid": guid, "lease": lease, "lease_s": lease_s}
    return row_of(RegistryLease, tx.execute(_RENEW, values))


_RELEASE = text("""
UPDATE jedi_registries SET lease = NULL, holder = NULL, lease_until = NULL
WHERE guid = :guid AND lease = :lease
""")


def release(tx: Connection, guid: str, lease: str) -> bool:
    """Give a lease back; False: another session has taken it."""
    return tx.execute(_RELEASE, {"guid": guid, "lease": lease}).rowcount > 0


_CHANGE = text("""
UPDATE jedi_registries SET change = change + 1,
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND lease = :lease
RETURNING change
""")


def change(tx: Connection, guid: str, lease: str, lease_s: float) -> int | None:
    """Begin a change by the session with the lease, which is prolonged: its number; None: another
    session has taken the lease. The row stays locked until the change is stored."""
    found: int | None = tx.scalar(_CHANGE, {"guid": guid, "lease": lease, "lease_s": lease_s})
    return found


_DRAW_IDS = text("""
UPDATE jedi_registries SET
  next_job = next_job + CASE WHEN :kind = 'job' THEN CAST(:number AS bigint) ELSE 0 END,
  next_template = next_template
    + CASE WHEN :kind = 'template' THEN CAST(:number AS bigint) ELSE 0 END
WHERE guid = :guid
RETURNING CASE WHEN :kind = 'job' THEN next_job ELSE next_template END - :number
""")


def draw_ids(tx: Connection, guid: str, kind: str, number: int) -> int:
    """Take the next ids of a kind: the first of them."""
    first: int = tx.execute(_DRAW_IDS, {"guid": guid, "kind": kind, "number": number}).scalar_one()
    return first
