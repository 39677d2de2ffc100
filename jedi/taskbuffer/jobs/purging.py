"""Outputs of jobs whose time is over. They are not forgotten: a job's `retention` says until when
its outputs are kept (GOING: they are being removed), `purged_at` since when they are gone. Logs
stay. Source: docs/reference/pgi.md#purge.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_FINAL, TASK_FINAL
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.jobs.jobs import LOCK_JOBS
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs

_TABLES = ("jedi_jobs", "jedi_jobs_archived")
GOING = "to_timestamp(0)"
"""The `retention` of jobs whose outputs are being removed: nobody can keep them any more."""
_IN_USE = f"""
SELECT o.jeditaskid, d.datasetname FROM jedi_datasets d
  JOIN jedi_datasets o ON o.datasetname = d.datasetname OR o.containername = d.datasetname
  JOIN jedi_tasks u ON u.jeditaskid = o.jeditaskid
WHERE d.jeditaskid = {{task}} AND d.type IN ('output', 'tmpl_output')
  AND o.jeditaskid <> d.jeditaskid AND u.status NOT IN ({TASK_FINAL})
"""


class OutputUse(NamedTuple):
    """A task that reads or fills an output dataset of another."""

    jedi_task_id: int
    dataset_name: str


IN_USE = returns(OutputUse)(f"""
-- Other tasks that have not ended and read or fill outputs of a task.
{_IN_USE.format(task=":task")} ORDER BY o.jeditaskid, o.datasetid
""")


def _on_both(change: str, where: str, more: str = "") -> str:
    """A statement that changes jobs, and archived ones with their groups; CTE u has their ids."""
    live, archived = (f"UPDATE {table} SET {change} WHERE {where} RETURNING *" for table in _TABLES)
    both = " UNION ALL ".join(f"SELECT pandaid, jeditaskid, status FROM {u}" for u in ("u0", "u1"))
    return (
        f"WITH u0 AS ({live}), u1 AS ({archived}), u AS ({both}), "
        f"groups AS ({archive_groups.marking('u1')}) {more}"
    )


_LOG = """
INSERT INTO jedi_jobs_statuslog
  (pandaid, jeditaskid, fromstatus, status, agent, reason_code, reason)
SELECT pandaid, jeditaskid, status, status, :agent, :code, :reason FROM u
"""
_UNPURGED = f"purged_at IS NULL AND status IN ({JOB_FINAL})"
_KEPT = f"{_UNPURGED} AND retention IS DISTINCT FROM {GOING}"
_KEEP = "retention = jedi_now() + make_interval(secs => :keep_s)"
_OF_THESE = "pandaid = ANY(CAST(:ids AS bigint[]))"
_LOCK_TASK = changes(
    "SELECT FROM jedi_jobs WHERE jeditaskid = :task ORDER BY pandaid FOR NO KEY UPDATE"
)
KEEP_JOBS = changes(f"""
-- Keep outputs of ended jobs so long and no longer. The caller has locked the jobs.
{_on_both(_KEEP, f"{_OF_THESE} AND {_KEPT}", _LOG)}""")
_TO_KEEP = returns(int)(f"""
SELECT pandaid FROM {all_jobs("pandaid, jeditaskid, status, retention, purged_at")} j
WHERE jeditaskid = :task AND {_KEPT} ORDER BY pandaid
""")
_AT_ONCE = 10_000
"""Jobs of a statement that marks them: 50 us each, for their log and the indexes of the archive."""
_CLAIM = returns(int)(
    _on_both(
        f"retention = {GOING}",
        f"{_OF_THESE} AND {_UNPURGED} AND coalesce(retention <= jedi_now(), true)",
        "SELECT pandaid FROM u",
    )
)
BEING_REMOVED = returns(int)(f"""
-- Jobs of tasks whose outputs are being removed.
SELECT pandaid FROM {all_jobs("pandaid, jeditaskid, retention, purged_at")} j
WHERE jeditaskid = ANY(CAST(:tasks AS bigint[])) AND retention = {GOING}
  AND purged_at IS NULL ORDER BY 1
""")
_PURGED = changes(_on_both("purged_at = jedi_now()", f"{_OF_THESE} AND {_UNPURGED}", _LOG))


def keep_task_until(tx: Connection, task_id: int, keep_s: float, agent: str, reason: str) -> None:
    """The same for all jobs of a task that has ended."""
    # Else those that are just being archived would be in neither of the tables.
    _LOCK_TASK.run(tx, task=task_id)
    ids = _TO_KEEP.rows(tx, task=task_id)
    for n in range(0, len(ids), _AT_ONCE):
        KEEP_JOBS.run(
            tx,
            ids=ids[n : n + _AT_ONCE],
            keep_s=keep_s,
            agent=agent,
            code="to_be_purged",
            reason=reason,
        )


_JOBS = all_jobs("pandaid, jeditaskid, status, postprocessed_at, retention, purged_at")
_FILES = all_files("pandaid, fileid, jeditaskid, type")
_DUE = f"""
WITH due AS (
  SELECT j.pandaid, jeditaskid FROM {_JOBS} j JOIN jedi_tasks t USING (jeditaskid)
  WHERE {{due}} AND j.purged_at IS NULL AND j.status IN ({JOB_FINAL})
    AND jeditaskid <> ALL(CAST(:stuck AS bigint[])) AND t.status IN ({TASK_FINAL})
    AND NOT EXISTS ({_IN_USE.format(task="j.jeditaskid")})
  LIMIT :limit
)
SELECT due.pandaid, due.jeditaskid, f.datasetname,
  f.containername, array_agg(f.lfn) AS lfns
FROM due LEFT JOIN LATERAL (  -- job by job: all finished outputs were paired with each job
  SELECT d.datasetname, d.containername, c.lfn FROM {_FILES} f
    JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
      AND c.outpandaid = f.pandaid AND c.status = 'finished'
    JOIN jedi_datasets d ON d.datasetid = c.datasetid AND d.jeditaskid = c.jeditaskid
  WHERE f.pandaid = due.pandaid AND f.type = 'output' OFFSET 0) f ON true
GROUP BY 1, 2, 3, 4 ORDER BY 1, 3
"""
_OVER = "j.retention <= jedi_now()"
_OLD = (
    f"({_OVER} OR j.retention IS NULL "
    "AND j.postprocessed_at < jedi_now() - make_interval(secs => :age_s))"
)


_LEAVING = f"retention > {GOING} AND purged_at IS NULL"
_OF_TASK = "jeditaskid = :task AND status = 'finished'"


@dataclass(frozen=True, slots=True)
class Purging:
    """The number of finished jobs whose outputs are gone, or are to go, the first at
    `leaving_at`."""

    gone: int
    leaving: int
    leaving_at: datetime | None


_KEPT_OF_TASK = returns(Purging)(f"""
SELECT CAST(coalesce(sum(gone), 0) AS bigint) AS gone,
  CAST(coalesce(sum(leaving), 0) AS bigint) AS leaving, min(leaving_at) AS leaving_at
FROM (
  SELECT count(*) FILTER (WHERE purged_at IS NOT NULL OR retention = {GOING}) AS gone,
    count(*) FILTER (WHERE {_LEAVING}) AS leaving,
    min(retention) FILTER (WHERE {_LEAVING}) AS leaving_at
  FROM (
    SELECT retention, purged_at FROM jedi_jobs WHERE {_OF_TASK} UNION ALL
    SELECT retention, purged_at FROM jedi_jobs_archived
    WHERE {_OF_TASK} AND retention IS NOT NULL AND purged_at IS NULL) j
  UNION ALL SELECT purged, 0, NULL FROM job_stats_archived WHERE {_OF_TASK}) n
""")


def of_task(tx: Connection, task_id: int) -> Purging:
    """The outputs of a task's finished jobs that are gone, or leave."""
    (found,) = _KEPT_OF_TASK.rows(tx, task=task_id)
    return found


class PurgedFiles(NamedTuple):
    """The outputs of a job in a dataset; None: it made nothing."""

    panda_id: int
    jedi_task_id: int
    dataset_name: str | None
    container_name: str | None
    lfns: list[str]


_DUE_ALONE = returns(PurgedFiles)(_DUE.format(due=_OVER))
_DUE_OR_OLD = returns(PurgedFiles)(_DUE.format(due=_OLD))


def claim(
    tx: Connection, age_s: float, limit: int, stuck: Collection[int] = ()
) -> list[PurgedFiles]:
    """Begin to remove the outputs of up to `limit` jobs of tasks that have ended, but for tasks in
    `stuck`: of those that are not to be kept any longer, or (`age_s` > 0) that ended so long ago
    and are not marked to be kept; not while another task reads or fills outputs of theirs. A row a
    job and dataset."""
    query, ages = (_DUE_OR_OLD, {"age_s": age_s}) if age_s else (_DUE_ALONE, {})
    due = query.rows(tx, limit=limit, stuck=list(stuck), **ages)
    ids = sorted({row.panda_id for row in due})
    LOCK_JOBS.run(tx, ids=ids)
    claimed = set(_CLAIM.rows(tx, ids=ids))  # somebody may have kept them meanwhile
    return [row for row in due if row.panda_id in claimed]


def note_purged(tx: Connection, panda_ids: Sequence[int], agent: str) -> None:
    """The outputs of jobs are gone."""
    LOCK_JOBS.run(tx, ids=panda_ids)
    reason = "Its outputs were removed; its log is kept."
    values = {"ids": list(panda_ids), "agent": agent, "code": "purged", "reason": reason}
    _PURGED.run(tx, **values)
