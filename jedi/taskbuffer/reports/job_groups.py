"""The jobs of a task in groups: figures of many jobs by one look at each live one.

A look at a job costs 0.4 us. A statement for each figure would read all jobs several times.
Archived jobs are counted already (jobs/archive_groups.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from jedi.taskbuffer.db.statement import returns

_IS_FIRST = "attemptnr = 1 AS is_first"
_SINCE = "min(statechangetime) AS since, min(hold_reason) AS hold_reason"
_WALLTIME = "max(walltime_s) AS walltime_s"


def alike(keys: Sequence[str], figures: str) -> str:
    """A WITH clause: the live jobs of a task in groups of those with the same keys. Each job is
    read once; sorted, or looked up at its site, 100,000 of them take five times as long. Half of
    the keys take two thirds of the time."""
    places = ", ".join(str(n) for n in range(1, len(keys) + 1))
    return f"""
WITH alike AS (
  SELECT {", ".join(keys)}, count(*) AS jobs, {figures} FROM jedi_jobs
  WHERE jeditaskid = :task AND postprocessed_at IS NULL GROUP BY {places})
"""


_SIZE = ("cores", "memory_mb", "disk_mb")
FOR_ALL = alike(
    ["kind", "status", "site", _IS_FIRST, "hold_kind", *_SIZE], f"{_WALLTIME}, {_SINCE}"
)
"""For GROUPS and why_facts.FACTS together."""
FOR_WHY = alike(["status", "site", "hold_kind", *_SIZE], _SINCE)
_FOR_GROUPS = alike(
    ["kind", "status", "site", _IS_FIRST],
    f"{_WALLTIME}, max(memory_mb) AS memory_mb, max(disk_mb) AS disk_mb",
)

GROUPS = """
SELECT kind, status, site, is_first, CAST(sum(jobs) AS bigint) AS jobs, false AS limited,
  max(walltime_s) AS walltime_s, max(memory_mb) AS memory_mb, max(disk_mb) AS disk_mb,
  CAST(NULL AS double precision) AS wall_s, CAST(NULL AS bigint) AS used_memory_kb,
  CAST(NULL AS bigint) AS used_disk_kb, 0 AS n_recent, CAST(NULL AS timestamptz) AS first_end,
  CAST(NULL AS timestamptz) AS last_end
FROM alike GROUP BY kind, status, site, is_first
UNION ALL
SELECT kind, status, site, attemptnr = 1 AS is_first, count(*),
  count(retention) + count(purged_at) > 0, max(walltime_s), max(memory_mb), max(disk_mb),
  max(wall_s), max(coalesce(max_pss_kb, max_rss_kb)), max(workdir_kb),
  count(*) FILTER (WHERE endtime > jedi_now() - interval '1 h'), min(endtime), max(endtime)
FROM jedi_jobs WHERE jeditaskid = :task AND postprocessed_at IS NOT NULL
GROUP BY kind, status, site, is_first
UNION ALL
SELECT kind, status, site, is_first, jobs, limited, walltime_s, memory_mb, disk_mb, wall_s,
  used_memory_kb, used_disk_kb, 0, first_seen, last_seen
FROM job_stats_archived WHERE jeditaskid = :task
"""
"""After a clause of `alike`."""


class JobGroup(NamedTuple):
    """The jobs of a task with one kind, status and site that are first attempts, or are not:
    their number, the largest figures that were foreseen of them (0: no limit), and the largest
    that were measured. `limited`: the outputs of some are gone, or have a last day; `n_recent` of
    them ended within the last hour."""

    kind: str
    status: str
    site: str
    is_first: bool
    jobs: int
    limited: bool
    walltime_s: int
    memory_mb: int
    disk_mb: int
    wall_s: float | None
    used_memory_kb: int | None
    used_disk_kb: int | None
    n_recent: int
    first_end: datetime | None
    last_end: datetime | None


OF_TASK = returns(JobGroup)(f"""
-- The groups of a task's jobs. Archived jobs have groups of their own, one for each cause of a
-- failure.
{_FOR_GROUPS}{GROUPS}""")


@dataclass(frozen=True, slots=True)
class JobsAtSite:
    """Jobs of a task at a site in a status."""

    site: str
    status: str
    jobs: int


AT_SITES = returns(JobsAtSite)("""
-- The jobs of a task by site and status. It takes half the time of its groups.
SELECT site, status, CAST(sum(jobs) AS bigint) AS jobs FROM (
  SELECT site, status, count(*) AS jobs FROM jedi_jobs WHERE jeditaskid = :task
  GROUP BY site, status
  UNION ALL
  SELECT site, status, jobs FROM job_stats_archived WHERE jeditaskid = :task) s
GROUP BY site, status ORDER BY site, status
""")


CHOSEN = returns(str)("""
-- The sites that brokers have chosen for jobs of a task.
SELECT DISTINCT unnest(chosen) AS site FROM jedi_broker_decisions
WHERE jeditaskid = :task AND broker <> 'nucleus' ORDER BY site
""")
