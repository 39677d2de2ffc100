"""What operators ask about work queues, and how they change them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.spec.queuefile import Queue, check_queues, read_queues
from jedi.taskbuffer import queues


def import_queues(tx: Connection, text: str) -> list[Queue]:
    """Insert or replace the queues of a queue file, told apart by queue_id; others stay.

    BadInput holds every mistake, also those that show only beside the queues there are; then
    nothing is stored.
    """
    written = read_queues(text)
    present = {row["queue_id"]: Queue.model_construct(**row) for row in list_queues(tx)}
    will_be = present | {queue.queue_id: queue for queue in written}
    check_queues([*will_be.values()], queues.COLUMNS)
    queues.put_queues(tx, [queue.columns() for queue in written])
    return written


def list_queues(tx: Connection) -> list[dict[str, Any]]:
    """All queues, in the order in which they are tried."""
    return [dict(row._mapping) for row in queues.all_queues(tx)]
