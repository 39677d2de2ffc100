"""Ends of tasks: tasks with nothing left to do, and the facts that decide their final status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.tasks.rows import ClaimedTask, TaskDataset
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, PRODUCT_TYPES, TASK_FINAL, listed
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.tasks import family, scouting, tasks

PREPARABLE = tuple(
    e.source for e in states.TASK.edges if e.target == "prepared" and e.reason == "all_processed"
)
FINALISABLE = ("prepared", "passed", "toabort", "tobroken")

LAST_LIVE = """
(SELECT j.pandaid FROM jedi_jobs j
  WHERE j.jeditaskid BETWEEN jedi_tasks.jeditaskid AND jedi_tasks.jeditaskid
    AND j.postprocessed_at IS NULL ORDER BY j.jeditaskid DESC, j.pandaid DESC LIMIT 1)
"""
"""The last live job of a task, if it has one. Only the index of live jobs has that order: EXISTS,
or an equality, reads all jobs up to one of the task if few tasks have the most of them."""

_CLOSED = listed(sorted({*states.TASK.final, *FINALISABLE}))
# OFFSET 0 keeps each test a look-up by task: pulled up into joins they read all live jobs.
_NOTHING_LEFT = f"""
AND NOT EXISTS (
  SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid
    AND d.masterid IS NULL AND d.type IN ({MASTER_TYPES})
    AND (d.status IN ('defined', 'toupdate', 'pending')
         OR d.status = 'running' AND jedi_tasks.status = 'throttled'
         OR d.status IN ('ready', 'running') AND jedi_tasks.period IS NOT NULL
            AND d.nfilestobeused < d.nfiles
         OR d.status IN ('ready', 'running')
            AND d.nfilesfinished + d.nfilesfailed + d.nfilesmissing < d.nfilestobeused)
  OFFSET 0)
AND {LAST_LIVE} IS NULL
AND (coalesce(parent_tid, jeditaskid) = jeditaskid
  OR EXISTS (
    SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid
      AND d.masterid IS NULL AND d.type IN ({MASTER_TYPES}) AND d.status = 'running'
    OFFSET 0)
  OR NOT EXISTS (
    SELECT FROM jedi_tasks p WHERE p.jeditaskid = jedi_tasks.parent_tid
      AND p.status NOT IN ({TASK_FINAL})
    OFFSET 0))
"""


# Without the tests of jobs and parents: those are for the few tasks that are left.
_ANY_PROCESSED = returns(bool)(f"""
SELECT EXISTS (SELECT FROM jedi_tasks WHERE status = ANY(:statuses)
    AND jeditaskid NOT IN (SELECT jeditaskid FROM jedi_datasets WHERE unprocessed))
  OR EXISTS (SELECT FROM jedi_tasks WHERE status = ANY(:closing))
  OR EXISTS (SELECT FROM jedi_tasks t JOIN jedi_tasks p ON p.jeditaskid = t.parent_tid
    WHERE t.parent_tid <> t.jeditaskid AND t.status NOT IN ({TASK_FINAL})
      AND p.status IN ({listed(family.RUINED)})
      AND t.status IN ({listed(family.ABORTABLE)}))
""")


def any_processed(tx: Connection) -> bool:
    """Return True if there may be a task for the PostProcessor: one that only has to be closed, one
    without unprocessed masters, or a child of a parent that has failed."""
    values = {"statuses": list(PREPARABLE), "closing": [*FINALISABLE, "preprocessing"]}
    return _ANY_PROCESSED.value(tx, **values)


def claim_processed(
    tx: Connection, me: str, lease_s: float, limit: int, scouts: Mapping[str, Any]
) -> list[ClaimedTask]:
    """Take working tasks whose masters are all fed and processed as far as they are known, and
    that have no live job. A child does not end before its parent. `scouts`: values of
    scouting.HEARD."""
    condition = _NOTHING_LEFT + scouting.HEARD
    return tasks.claim(tx, PREPARABLE, me, lease_s, limit, condition, **scouts)


def claim_final(tx: Connection, me: str, lease_s: float, limit: int) -> list[ClaimedTask]:
    """Take tasks that only have to be closed."""
    return tasks.claim(tx, FINALISABLE, me, lease_s, limit)


DATASETS = returns(TaskDataset)("""
-- The datasets of tasks with their counters, in the order of their ids.
SELECT jeditaskid, datasetid, datasetname,
  containername, type, masterid, status, state, nfiles,
  nfilestobeused, nfilesused,
  nfilesfinished, nfilesfailed,
  nfilesmissing, nevents, neventsused,
  fed_upto
FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY datasetid
""")


STILL_FILLED = returns(str)(f"""
-- The containers that hold outputs of tasks with work besides closing.
SELECT d.containername FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.containername = ANY(:names)
  AND d.type IN ({PRODUCT_TYPES}) AND t.status NOT IN ({_CLOSED})
""")


class TaskReason(NamedTuple):
    """Code and sentence of a task's last move."""

    jedi_task_id: int
    code: str
    reason: str


_REASONS = returns(TaskReason)("""
SELECT t.jeditaskid, coalesce(l.reason_code, t.reason_code, '') AS code,
  coalesce(l.reason, t.errordialog, '') AS reason
FROM jedi_tasks t LEFT JOIN LATERAL (SELECT * FROM jedi_tasks_statuslog l
WHERE l.jeditaskid = t.jeditaskid AND l.status = t.status
ORDER BY log_id DESC LIMIT 1) l ON true
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def reasons(tx: Connection, task_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Code and sentence with which each task came to its present status. Later notes, say of a
    failed attempt to go on, don't hide them."""
    rows = _REASONS.rows(tx, ids=list(task_ids))
    return {row.jedi_task_id: (row.code, row.reason) for row in rows}
