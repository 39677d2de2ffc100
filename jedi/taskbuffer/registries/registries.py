"""jedi_registries: GUIDs, the counter of changes, ids, and the lease of the writing session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


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


PUT = changes("""
-- Make a registry of a user unless there is one of this name.
INSERT INTO jedi_registries (guid, username, name)
VALUES (CAST(gen_random_uuid() AS text), :user, :name) ON CONFLICT (username, name) DO NOTHING
""")


OF_USER = returns(JobRegistry)("""
-- The registries of a user, or the one of this name.
SELECT guid, username, name, change, holder, lease_until,
  creationtime
FROM jedi_registries WHERE username = :user AND (CAST(:name AS text) IS NULL OR name = :name)
ORDER BY name
""")


ONE = returns(JobRegistry)("""
-- A registry; None: there is none.
SELECT guid, username, name, change, holder, lease_until,
  creationtime
FROM jedi_registries WHERE guid = :guid
""")


LEASE = returns(RegistryLease)("""
-- Give a session the lease; None: another one has it. An expired lease is free.
UPDATE jedi_registries SET lease = CAST(gen_random_uuid() AS text), holder = :holder,
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND (lease IS NULL OR lease_until <= jedi_now() OR :take_over)
RETURNING lease, lease_until
""")


RENEW = returns(RegistryLease)("""
-- Prolong a lease; None: another session has taken it.
UPDATE jedi_registries SET
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND lease = :lease
RETURNING lease, lease_until
""")


_RELEASE = changes("""
UPDATE jedi_registries SET lease = NULL, holder = NULL, lease_until = NULL
WHERE guid = :guid AND lease = :lease
""")


def release(tx: Connection, guid: str, lease: str) -> bool:
    """Give a lease back; False: another session has taken it."""
    return _RELEASE.run(tx, guid=guid, lease=lease) > 0


CHANGE = returns(int)("""
-- Begin a change by the session with the lease, which is prolonged: its number; None: another
-- session has taken the lease. The row stays locked until the change is stored.
UPDATE jedi_registries SET change = change + 1,
  lease_until = jedi_now() + make_interval(secs => CAST(:lease_s AS float8))
WHERE guid = :guid AND lease = :lease
RETURNING change
""")


DRAW_IDS = returns(int)("""
-- Take the next ids of a kind: the first of them.
UPDATE jedi_registries SET
  next_job = next_job + CASE WHEN :kind = 'job' THEN CAST(:number AS bigint) ELSE 0 END,
  next_template = next_template
    + CASE WHEN :kind = 'template' THEN CAST(:number AS bigint) ELSE 0 END
WHERE guid = :guid
RETURNING CASE WHEN :kind = 'job' THEN next_job ELSE next_template END - :number
""")
