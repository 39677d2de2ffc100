"""A user's jobs of all tasks, the newest first.

Archived jobs have an index by user. An index of jobs that are not archived would slow down their
ends: these jobs are found task by task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.queries import JobQuery
from jedi.taskbuffer.db.statement import Statement, returns
from jedi.taskbuffer.reports.conditions import JOB_COLUMNS, where


def _of_tasks(columns: str, conditions: str) -> str:
    """A query of a user's newest jobs that are not archived; each task has an index of those that
    live on, and one of those that have ended. Most tasks have neither."""
    parts = " UNION ALL ".join(
        f"(SELECT {columns} FROM jedi_jobs j WHERE j.jeditaskid = t.jeditaskid "
        f"AND j.postprocessed_at {part} AND {conditions} ORDER BY j.pandaid DESC LIMIT :limit)"
        for part in ("IS NULL", "IS NOT NULL")
    )
    return f"""
SELECT o.* FROM jedi_tasks t, LATERAL (
  SELECT FROM jedi_jobs e WHERE e.jeditaskid = t.jeditaskid LIMIT 1) e, LATERAL ({parts}) o
WHERE t.username = :user"""


_COLUMNS = (
    "pandaid, jeditaskid, kind, attemptnr, status, site, creationtime, starttime, wall_s, "
    "exit_code, error_code"
)
_WANTED = """(CAST(:statuses AS text[]) IS NULL OR j.status = ANY(:statuses))
  AND (CAST(:before AS bigint) IS NULL OR j.pandaid < :before) AND {conditions}"""
_OWNED = f"""
SELECT j.pandaid, j.jeditaskid, t.taskname, j.kind,
  j.attemptnr, j.status, j.site, j.creationtime,
  j.starttime, j.wall_s, j.exit_code, j.error_code
FROM (({_of_tasks(_COLUMNS, _WANTED)}) UNION ALL (
  SELECT {_COLUMNS} FROM jedi_jobs_archived j
  WHERE j.username = :user AND {{archived}} AND {_WANTED}
  ORDER BY j.pandaid DESC LIMIT :limit)) j JOIN jedi_tasks t USING (jeditaskid)
ORDER BY j.pandaid DESC LIMIT :limit
"""
"""Completed by conditions.where, and by a condition on archived jobs."""


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job of a user among those of all tasks."""

    panda_id: int
    jedi_task_id: int
    task_name: str
    kind: str
    attempt_nr: int
    status: str
    site: str
    creation_time: datetime
    start_time: datetime | None
    wall_s: float | None
    exit_code: int | None
    error_code: str | None


def owned(
    tx: Connection, user_name: str, query: JobQuery, limit: int, before: int | None = None
) -> list[OwnedJob]:
    """The newest jobs of a user, of all tasks, archived ones too; `before`: only smaller ids.
    BadInput."""
    more, given = where(query.conditions, JOB_COLUMNS)
    statement = _owned(more, _archived(query.status))
    values = {"user": user_name, "statuses": query.status, "limit": limit, "before": before}
    return statement.rows(tx, **values, **given)


@lru_cache(maxsize=256)
def _owned(conditions: str, archived: str) -> Statement[OwnedJob]:
    return returns(OwnedJob)(_OWNED.format(conditions=conditions, archived=archived))


def _archived(statuses: Sequence[str] | None) -> str:
    """A condition on archived jobs that leads to the right index: most of them have finished, and
    none lives."""
    if statuses and states.JOB.final.isdisjoint(statuses):
        return "false"
    return "j.status <> 'finished'" if statuses and "finished" not in statuses else "true"


class JobName(NamedTuple):
    """A job of a user, by its id and status."""

    panda_id: int
    status: str


NEWEST = returns(JobName)(f"""
-- The newest jobs of a user that are not archived, whose ids begin so.
SELECT pandaid, status FROM (
  {_of_tasks("pandaid, status", "starts_with(CAST(j.pandaid AS text), :begins)")}) j
ORDER BY pandaid DESC LIMIT :limit
""")
