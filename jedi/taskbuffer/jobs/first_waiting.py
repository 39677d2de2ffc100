"""The first job that waits of each share at a site, in the order of shares.

Finding them takes a fifth of the server's time for handing out a job, and beside an old snapshot
1 us for each job that ever waited; hence they are remembered.
"""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.core import clock
from jedi.taskbuffer.db.engine import plain, value
from jedi.taskbuffer.scheduling.turns import TURN

First = dict[str, str]
"""Shares, with priorities and numbers of their first jobs: arrays as the database writes them,
since it alone reads them (lists would take 30 us)."""
REMEMBERED_S = 1.0
"""Longest wait of a job that became more urgent."""

HEADS = plain(f"""
WITH RECURSIVE s AS (
  (SELECT gshare, priority, pandaid FROM jedi_job_ready WHERE site = :site
   ORDER BY gshare, priority DESC, pandaid LIMIT 1)
  UNION ALL
  SELECT n.* FROM s, LATERAL (
    SELECT gshare, priority, pandaid FROM jedi_job_ready WHERE site = :site AND gshare > s.gshare
    ORDER BY gshare, priority DESC, pandaid LIMIT 1) n
)
SELECT CASE WHEN count(*) > 0 THEN json_build_object('shares', CAST(array_agg(gshare) AS text),
  'priorities', CAST(array_agg(priority) AS text), 'firsts', CAST(array_agg(pandaid) AS text)) END
FROM (SELECT s.* FROM s LEFT JOIN jedi_work_queue w ON w.queue_name = s.gshare
    LEFT JOIN jedi_queue_shares q USING (queue_id)
  ORDER BY {TURN.format(column="place")}, s.priority DESC, s.pandaid) o
""")


class FirstWaiting:
    """A process's cache of the first waiting job of sites."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, First | None]] = {}

    def remembered(self, site: str) -> First | None:
        """The first jobs of shares as they were up to REMEMBERED_S ago, if anybody looked."""
        until, first = self._known.get(site, (0.0, None))
        return first if clock.monotonic() < until else None

    def read(self, tx: Connection, site: str) -> First | None:
        """The first jobs of shares; None if no job waits."""
        until = clock.monotonic() + REMEMBERED_S
        first: First | None = value(tx, HEADS, {"site": site})
        self._known[site] = until, first
        return first
