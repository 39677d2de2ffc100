"""jedi_process_lock: what only one process at a time may do.

Leases run in real time: they protect processes, and those live in real time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns


def take(tx: Connection, component: str, me: str, lease_s: float) -> bool:
    """Take the lock of a component, or prolong one's own; False while somebody else holds it."""
    return bool(take_all(tx, [component], me, lease_s))


_TAKE_ALL = returns(str)("""
INSERT INTO jedi_process_lock AS l (prodsourcelabel, vo, workqueue_id, component,
  lockedby, lease_until) SELECT 'any', 'any', 0, component, :me,
  clock_timestamp() + make_interval(secs => :lease_s)  -- real time, see above
FROM unnest(CAST(:components AS text[])) component ORDER BY component
ON CONFLICT (prodsourcelabel, vo, workqueue_id, cloud, component) DO UPDATE
SET lockedby = :me, lockedtime = jedi_now(), lease_until = excluded.lease_until
WHERE l.lockedby = :me OR l.lease_until < clock_timestamp() RETURNING l.component
""")


def take_all(tx: Connection, components: Sequence[str], me: str, lease_s: float) -> set[str]:
    """Take or prolong the locks of components; those that nobody else holds."""
    return set(_TAKE_ALL.rows(tx, components=components, me=me, lease_s=lease_s))


HOLDER = returns(str)("""
-- Return the holder of a component's lock.
SELECT lockedby FROM jedi_process_lock
WHERE component = :component AND lease_until > clock_timestamp()
""")


def release(tx: Connection, component: str, me: str) -> None:
    """Give a lock back, if it is still ours."""
    RELEASE_ALL.run(tx, components=[component], me=me)


RELEASE_ALL = changes("""
-- Give locks back that are still ours.
DELETE FROM jedi_process_lock
WHERE component = ANY(CAST(:components AS text[])) AND lockedby = :me
""")
