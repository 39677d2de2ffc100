"""Tasks in groups: their numbers by status, owner, work queue, reason and more, by one look at each
of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.model.queries import TaskQuery
from jedi.taskbuffer.db.statement import Statement, returns
from jedi.taskbuffer.reports.listings import asked_for

GROUP_COLUMNS: Mapping[str, str] = {
    "status": "t.status",
    "user": "t.username",
    "queue": "CAST(t.workqueue_id AS text)",
    "share": "t.gshare",
    "reason": "t.reason_code",
    "label": "t.prodsourcelabel",
    "group": "t.workinggroup",
}
"""The keys of groups, by their names."""

COUNTED_MOST = 200_000
"""Tasks that are counted, so that the cost has a bound."""

_GROUPS = """
SELECT key, status, count(*) AS tasks, max(jeditaskid) AS newest
FROM (
  SELECT {column} AS key, t.status, t.jeditaskid
  FROM jedi_tasks t WHERE {conditions} LIMIT :most) g
GROUP BY key, status ORDER BY key NULLS LAST, status
"""
"""Completed by the column of a key, and by conditions.where."""


class GroupCount(NamedTuple):
    """The number of tasks with a key in a status, and the newest of them."""

    key: str | None
    status: str
    tasks: int
    newest: int


def counts(
    tx: Connection,
    by: str,
    query: TaskQuery,
) -> list[GroupCount]:
    """The numbers of tasks by key (GROUP_COLUMNS) and status, of COUNTED_MOST tasks at most."""
    sql, values = asked_for(query)
    values |= {"most": COUNTED_MOST}
    return _groups(by, sql).rows(tx, **values)


@lru_cache(maxsize=256)
def _groups(by: str, conditions: str) -> Statement[GroupCount]:
    return returns(GroupCount)(_GROUPS.format(column=GROUP_COLUMNS[by], conditions=conditions))
