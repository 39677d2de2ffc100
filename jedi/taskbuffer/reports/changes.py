"""Changes of tasks since a mark, for their watchers. Nothing is written here.

A mark is the oldest transaction that still ran when it was taken: whatever commits later carries
that transaction's number or a higher one, in whichever order it commits
(docs/decisions/watching.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import Columns, returns
from jedi.taskbuffer.reports.listings import SUMMARY, TaskSummary

_NEWER = (
    "((CAST(CAST({}.xmin AS text) AS bigint) - CAST(:bound AS bigint)) & 4294967295) < 2147483648"
)
"""True if transaction :bound or a later one wrote this version of a row. Rows have the lower 32
bits of the number; NULL without a bound."""


class Mark(NamedTuple):
    """A place in the history of a database. `bound`: the oldest transaction that still ran; `next`:
    the first that had not begun; `log_id`: the last status log row then visible; `time`: seconds;
    `history`: the database itself, since another one counts otherwise."""

    bound: int
    next: int
    log_id: int | None
    time: int
    history: str


_MARK = returns(Mark)("""
-- The mark of now.
SELECT CAST(CAST(pg_snapshot_xmin(s) AS text) AS bigint) AS bound,
  CAST(CAST(pg_snapshot_xmax(s) AS text) AS bigint) AS next,
  (SELECT max(log_id) FROM jedi_tasks_statuslog) AS log_id,
  CAST(extract(epoch FROM clock_timestamp()) AS bigint) AS time,  -- real time: versions live in it
  left(md5(concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
    (SELECT timeline_id FROM pg_control_checkpoint()),
    (SELECT oid FROM pg_database WHERE datname = current_database()))), 8) AS history
FROM pg_current_snapshot() s
""")
_CHANGED = returns(Columns)(f"""
WITH mark AS ({_MARK.sql}), wanted AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:fresh AS boolean[])) AS w(id, fresh)
  UNION ALL
  SELECT jeditaskid, CAST(:all_fresh AS boolean) FROM jedi_tasks
  WHERE :active AND status = ANY(:statuses)
  UNION ALL
  SELECT jeditaskid, false FROM jedi_tasks_statuslog
  WHERE :active AND log_id > CAST(:log_id AS bigint)
), changed AS (
  SELECT w.id, coalesce(n.newer, false) AS newer
  FROM (SELECT id, bool_or(fresh) AS fresh FROM wanted GROUP BY id) w
  JOIN jedi_tasks t ON t.jeditaskid = w.id,
  LATERAL (SELECT {_NEWER.format("t")}
    OR EXISTS (SELECT FROM jedi_datasets d WHERE d.jeditaskid = w.id AND {_NEWER.format("d")})
    OR t.eventservice > 0 AND EXISTS (SELECT FROM jedi_event_zips z
      WHERE z.jeditaskid = w.id AND {_NEWER.format("z")})
    OR EXISTS (SELECT FROM jedi_commands c WHERE c.jeditaskid = w.id AND {_NEWER.format("c")})
    AS newer) n
  WHERE w.fresh OR n.newer
)
SELECT m.*, f.*
FROM mark m LEFT JOIN (
  SELECT c.newer, EXISTS (SELECT FROM jedi_commands o WHERE o.jeditaskid = c.id
    AND o.acknowledged_at IS NULL) AS asked, s.*
  FROM changed c JOIN ({SUMMARY}) s ON s.jeditaskid = c.id
) f ON true
ORDER BY f.jeditaskid
""")


@dataclass(frozen=True, slots=True)
class ChangeQuestion:
    """Tasks to look at. `ids`: these, of which `fresh` are read in any case, all others only if
    they have changed since `bound`. `active`: also those in `statuses`, and those that have moved
    since row `log_id` of the status log. `all_fresh`: the ones in `statuses` in any case."""

    ids: Sequence[int]
    fresh: frozenset[int]
    active: bool
    all_fresh: bool
    bound: int | None
    log_id: int | None


class ChangedTask(NamedTuple):
    """A task, whether it has changed since the bound, and whether a command waits for it."""

    task: TaskSummary
    newer: bool
    asked: bool


def mark(tx: Connection) -> Mark:
    """The mark of now."""
    found = _MARK.row(tx)
    assert found
    return found


def changed(
    tx: Connection, question: ChangeQuestion, statuses: Sequence[str], unit_s: float
) -> tuple[Mark, list[ChangedTask]]:
    """The tasks asked for, by id, and the mark of the same snapshot, in one statement. `unit_s`:
    the first rest of throttled tasks."""
    values = {
        "ids": [*question.ids],
        "fresh": [one in question.fresh for one in question.ids],
        "active": question.active,
        "all_fresh": question.all_fresh,
        "bound": question.bound,
        "log_id": question.log_id,
        "statuses": [*statuses],
        "unit_s": unit_s,
    }
    rows = [(*row.values(),) for row in _CHANGED.rows(tx, **values)]
    width = len(Mark._fields)
    tasks = [
        ChangedTask(TaskSummary(*summary), newer, asked)
        for newer, asked, *summary in (row[width:] for row in rows)
        if newer is not None
    ]
    return Mark(*rows[0][:width]), tasks
