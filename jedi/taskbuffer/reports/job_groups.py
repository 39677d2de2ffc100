"""The jobs of a task in groups: figures of many jobs by one look at each of them.

A look at a job costs 0.4 us. A statement for each figure would read all jobs several times.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import rows_of

_GROUPS = """
SELECT kind, status, site, attemptnr = 1 AS is_first, count(*) AS jobs,
  count(retention) + count(purged_at) AS n_retained, max(walltime_s) AS walltime_s,
  max(memory_mb) AS memory_mb, max(disk_mb) AS disk_mb, max(wall_s) AS wall_s,
  max(coalesce(max_pss_kb, max_rss_kb)) AS used_memory_kb, max(workdir_kb) AS used_disk_kb,
  count(*) FILTER (WHERE endtime > jedi_now() - interval '1 h') AS n_recent,
  min(endtime) AS first_end, max(endtime) AS last_end
FROM {table} WHERE jeditaskid = :task
GROUP BY kind, status, site, is_first
"""
OF_TASK = (
    f"({_GROUPS.format(table='jedi_jobs')}) UNION ALL "
    f"({_GROUPS.format(table='jedi_jobs_archived')})"
)
_OF_TASK = text(OF_TASK)


class JobGroup(NamedTuple):
    """The jobs of a task with one kind, status and site that are first attempts, or are not:
    their number, the largest figures that were foreseen of them (0: no limit), and the largest
    that were measured. `n_retained` is 0 if nobody has limited the life of their outputs;
    `n_recent` of them ended within the last hour."""

    kind: str
    status: str
    site: str
    is_first: bool
    jobs: int
    n_retained: int
    walltime_s: int
    memory_mb: int
    disk_mb: int
    wall_s: float | None
    used_memory_kb: int | None
    used_disk_kb: int | None
    n_recent: int
    first_end: datetime | None
    last_end: datetime | None


def of_task(tx: Connection, jedi_task_id: int) -> list[JobGroup]:
    """The groups of a task's jobs. Archived jobs have groups of their own."""
    return rows_of(JobGroup, tx.execute(_OF_TASK, {"task": jedi_task_id}))


CHOSEN = """
SELECT DISTINCT unnest(chosen) AS site FROM jedi_broker_decisions
WHERE jeditaskid = :task AND broker <> 'nucleus' ORDER BY site
"""
_CHOSEN = text(CHOSEN)


def chosen_sites(tx: Connection, jedi_task_id: int) -> list[str]:
    """The sites that brokers have chosen for jobs of a task."""
    return list(tx.scalars(_CHOSEN, {"task": jedi_task_id}))
