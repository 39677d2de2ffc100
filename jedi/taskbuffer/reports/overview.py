"""Counts over everything: what `jedi status` shows."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import dict_of, rows_of

_TASKS_BY_STATUS = text("""
SELECT status, count(*) AS tasks FROM jedi_tasks GROUP BY status ORDER BY 1
""")


def tasks_by_status(tx: Connection) -> dict[str, int]:
    """The number of tasks in each status."""
    return dict_of(str, int, tx.execute(_TASKS_BY_STATUS))


JOBS_BY_SITE = """
SELECT site, status, CAST(sum(jobs) AS bigint) AS jobs,
  CAST(sum(cores) AS bigint) AS cores FROM
  (SELECT site, status, jobs, cores FROM job_stats UNION ALL
SELECT site, status, jobs, cores FROM job_stats_delta) s
GROUP BY site, status HAVING sum(jobs) <> 0 ORDER BY site, status
"""
_JOBS_BY_SITE = text(JOBS_BY_SITE)


class SiteStatusJobs(NamedTuple):
    """Jobs of a site in a status, and their cores."""

    site: str
    status: str
    jobs: int
    cores: int


def jobs_by_site(tx: Connection) -> list[SiteStatusJobs]:
    """Jobs and their cores by site and status, from the statistics and what is not folded yet."""
    return rows_of(SiteStatusJobs, tx.execute(_JOBS_BY_SITE))
