"""jedi_work_queue: which queue a task belongs to, and the queues an operator has declared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

PARTITION = -1
"""`partitionid` of a queue that is a partition: tasks belong to its sub-queues."""


def match(tx: Connection, vo: str, label: str) -> Row[Any] | None:
    """The work queue of tasks with this vo and prodSourceLabel: the active one of lowest order."""
    return tx.execute(
        text(
            "SELECT * FROM jedi_work_queue WHERE vo = :vo AND queue_type = :label "
            "AND status = 'active' AND partitionid IS DISTINCT FROM :partition "
            "ORDER BY queue_order NULLS LAST, queue_id LIMIT 1"
        ),
        {"vo": vo, "label": label, "partition": PARTITION},
    ).one_or_none()


def all_queues(tx: Connection) -> list[Row[Any]]:
    """Every queue, in the order in which they are tried."""
    return list(
        tx.execute(text("SELECT * FROM jedi_work_queue ORDER BY queue_order NULLS LAST, queue_id"))
    )


_PUT = """
INSERT INTO jedi_work_queue
SELECT r.* FROM unnest(CAST(:rows AS text[])) row,
  jsonb_populate_record(NULL::jedi_work_queue, CAST(row AS jsonb)) r
ON CONFLICT (queue_id) DO UPDATE SET
  queue_name = excluded.queue_name, queue_type = excluded.queue_type, vo = excluded.vo,
  queue_share = excluded.queue_share, queue_order = excluded.queue_order,
  criteria = excluded.criteria, variables = excluded.variables,
  partitionid = excluded.partitionid, stretchable = excluded.stretchable,
  status = excluded.status
"""


def put_queues(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or replace queues, told apart by queue_id; absent columns become NULL."""
    # Orders are unique at every moment: without this, two queues could not swap theirs.
    tx.execute(
        text("UPDATE jedi_work_queue SET queue_order = NULL WHERE queue_id = ANY(:ids)"),
        {"ids": [row["queue_id"] for row in rows]},
    )
    tx.execute(text(_PUT), {"rows": [json.dumps(dict(row)) for row in rows]})
