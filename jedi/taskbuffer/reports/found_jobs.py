"""Jobs of all tasks that meet conditions, page by page. Each page reads a bounded number of ids: no
index has users, sites and statuses together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.model.queries import JobQuery
from jedi.taskbuffer.db.statement import Statement, returns
from jedi.taskbuffer.reports.conditions import JOB_COLUMNS, where

LOOKED_AT = 100_000
"""Ids that a page looks at."""

_SEARCH = """
SELECT j.pandaid, j.jeditaskid, j.username, j.kind,
  j.attemptnr, j.status, j.substatus, j.site, j.priority, j.cores, j.hold_kind,
  j.hold_reason, j.creationtime, j.statechangetime,
  j.starttime, j.endtime, j.wall_s, j.exit_code, j.error_code,
  j.error_diag
FROM {table} j
WHERE j.pandaid <= :newest AND j.pandaid > :oldest
  AND (CAST(:statuses AS text[]) IS NULL OR j.status = ANY(:statuses)) AND {conditions}
ORDER BY j.pandaid DESC LIMIT :limit
"""
_BOTH = f"""
({_SEARCH.replace("{table}", "jedi_jobs")}) UNION ALL
({_SEARCH.replace("{table}", "jedi_jobs_archived")})
ORDER BY pandaid DESC LIMIT :limit
"""
"""Completed by conditions.where."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job among those of all tasks and users."""

    panda_id: int
    jedi_task_id: int
    user_name: str | None
    kind: str
    attempt_nr: int
    status: str
    substatus: str | None
    site: str
    priority: int
    cores: int
    hold_kind: str | None
    hold_reason: str | None
    creation_time: datetime
    state_change_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    wall_s: float | None
    exit_code: int | None
    error_code: str | None
    error_diag: str | None


class IdSpan(NamedTuple):
    """The newest and the oldest id of a job; None: there is no job."""

    newest: int | None
    oldest: int | None


_NEWEST = returns(IdSpan)("""
SELECT greatest((SELECT max(pandaid) FROM jedi_jobs), (SELECT max(pandaid) FROM jedi_jobs_archived))
  AS newest, least((SELECT min(pandaid) FROM jedi_jobs),
    (SELECT min(pandaid) FROM jedi_jobs_archived)) AS oldest
""")


def span(tx: Connection) -> IdSpan:
    """The ids between which all jobs lie."""
    return _NEWEST.row(tx) or IdSpan(None, None)


def search(tx: Connection, newest: int, oldest: int, query: JobQuery, limit: int) -> list[FoundJob]:
    """The jobs with ids from `newest` down to above `oldest`. BadInput."""
    more, given = where(query.conditions, JOB_COLUMNS)
    values = {"newest": newest, "oldest": oldest, "statuses": query.status, "limit": limit}
    return _search(more).rows(tx, **values, **given)


@lru_cache(maxsize=256)
def _search(conditions: str) -> Statement[FoundJob]:
    return returns(FoundJob)(_BOTH.format(conditions=conditions))
