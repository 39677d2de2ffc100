"""Counts over everything: what `jedi status` shows."""

from __future__ import annotations

from typing import NamedTuple

from jedi.taskbuffer.db.statement import returns

TASKS_BY_STATUS = returns(tuple[str, int])("""
-- The number of tasks in each status.
SELECT status, count(*) AS tasks FROM jedi_tasks GROUP BY status ORDER BY 1
""")


class SiteStatusJobs(NamedTuple):
    """Jobs of a site in a status, and their cores."""

    site: str
    status: str
    jobs: int
    cores: int


JOBS_BY_SITE = returns(SiteStatusJobs)("""
-- Jobs and their cores by site and status, from the statistics and what is not folded yet.
SELECT site, status, CAST(sum(jobs) AS bigint) AS jobs,
  CAST(sum(cores) AS bigint) AS cores FROM
  (SELECT site, status, jobs, cores FROM job_stats UNION ALL
SELECT site, status, jobs, cores FROM job_stats_delta) s
GROUP BY site, status HAVING sum(jobs) <> 0 ORDER BY site, status
""")
