"""Numbers of live jobs of a site, as PanDA counts them."""

from __future__ import annotations

from typing import NamedTuple

from jedi.taskbuffer.db.sql_lists import JOB_LIVE
from jedi.taskbuffer.db.statement import returns


class LiveAtSite(NamedTuple):
    """The number of live jobs of a resource type in a status."""

    resource_type: str
    status: str
    jobs: int


LIVE_AT = returns(LiveAtSite)(f"""
-- The live jobs of a site.
SELECT resource_type, status, CAST(sum(jobs) AS bigint) AS jobs FROM (
  SELECT site, resource_type, status, jobs FROM job_stats WHERE site = :site
  UNION ALL SELECT site, resource_type, status, jobs FROM job_stats_delta WHERE site = :site) s
WHERE status IN ({JOB_LIVE}) GROUP BY 1, 2 HAVING sum(jobs) > 0 ORDER BY 1, 2
""")
