"""jedi_process_lock: what only one process at a time may do.

Leases run in real time: they protect processes, and those live in real time.
"""

from __future__ import annotations

from sqlalchemy import Connection, text


def take(tx: Connection, component: str, me: str, lease_s: float) -> bool:
    """Take the lock of a component, or prolong one's own; False while somebody else holds it."""
    found = tx.execute(
        text(
            "INSERT INTO jedi_process_lock AS l (prodsourcelabel, vo, workqueue_id, component, "
            "lockedby, lease_until) VALUES ('any', 'any', 0, :component, :me, "
            "clock_timestamp() + make_interval(secs => :lease_s)) "  # real time, see above
            "ON CONFLICT (prodsourcelabel, vo, workqueue_id, cloud, component) DO UPDATE "
            "SET lockedby = :me, lockedtime = jedi_now(), lease_until = excluded.lease_until "
            "WHERE l.lockedby = :me OR l.lease_until < clock_timestamp()"
        ),
        {"component": component, "me": me, "lease_s": lease_s},
    )
    return found.rowcount == 1


def release(tx: Connection, component: str, me: str) -> None:
    """Give a lock back, if it is still ours."""
    tx.execute(
        text("DELETE FROM jedi_process_lock WHERE component = :component AND lockedby = :me"),
        {"component": component, "me": me},
    )
