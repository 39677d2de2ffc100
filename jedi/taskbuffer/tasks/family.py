"""Parents and children: a task may name the task whose end, or output, it waits for.

jedi_tasks.parent_tid is the parent; a task without one is its own. A parent is there before its
children, hence there are no circles. Source: docs/reference/task-states.md#parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import OUTPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.tasks import commands, dataset_rows, tasks

RUINED = ("failed", "broken", "aborted")
"""Statuses in which a parent takes its children along."""
COMPLETE = ("done", "finished")
"""Statuses in which what a parent makes is there."""
ABORTABLE = tuple(
    s for s in states.TASK_STATES if s != "aborting" and states.TASK.allows(s, "toabort")
)
BEGINS_ANEW = tuple(e.source for e in states.TASK.edges if e.reason == "parent_retried")
"""Statuses from which a child begins anew when its parent is retried: it has ended, or is about to
end with what it has."""
_AT_WORK = (
    *("defined", "assigning", "ready", "scouting", "scouted", "running", "throttled", "pending"),
    *("paused", "toretry", "toreassign", "reassigning"),
)
"""Statuses of a child whose inputs are known. In the others TaskRefiner reads them first, and waits
for the parent."""


class TaskStatus(NamedTuple):
    """A task, its status and its attempt."""

    jedi_task_id: int
    status: str
    attempt_nr: int


NEWEST = returns(TaskStatus)("""
-- The last task that a user gave this name.
SELECT jeditaskid, status, attemptnr
FROM jedi_tasks WHERE username = :user AND taskname = :name
ORDER BY jeditaskid DESC LIMIT 1
""")


NAMESAKES = returns(tuple[int, int])("""
-- The last earlier task of the same owner and name, for each task that has one.
SELECT t.jeditaskid, max(o.jeditaskid) AS other
FROM jedi_tasks t JOIN jedi_tasks o USING (username, taskname)
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
  AND o.jeditaskid < t.jeditaskid GROUP BY t.jeditaskid
""")


class ParentTask(NamedTuple):
    """The parent of a task (`child`) and its status."""

    child: int
    jedi_task_id: int
    status: str


_PARENTS = returns(ParentTask)("""
SELECT t.jeditaskid AS child, p.jeditaskid, p.status FROM jedi_tasks t
  JOIN jedi_tasks p ON p.jeditaskid = t.parent_tid AND p.jeditaskid <> t.jeditaskid
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def parents(tx: Connection, task_ids: Sequence[int]) -> dict[int, ParentTask]:
    """Id and status of the parent, by child; who has none is not there."""
    rows = _PARENTS.rows(tx, ids=list(task_ids))
    return {row.child: row for row in rows}


_ORPHANED = """
AND parent_tid <> jeditaskid AND EXISTS (
  SELECT FROM jedi_tasks p WHERE p.jeditaskid = jedi_tasks.parent_tid AND p.status = ANY(:ruined)
  OFFSET 0)
"""


def claim_orphans(tx: Connection, me: str, lease_s: float, limit: int) -> list[ClaimedTask]:
    """Take tasks that go on although their parent has failed, is broken or was aborted."""
    return tasks.claim(
        tx, ABORTABLE, me, lease_s, limit, _ORPHANED, early=True, ruined=list(RUINED)
    )


_WAKE_CHILDREN = changes("""
UPDATE jedi_tasks SET
  next_run_at = CASE WHEN lease_until IS NOT NULL THEN statechangetime END
WHERE jeditaskid = ANY(ARRAY(
SELECT jeditaskid FROM jedi_tasks WHERE parent_tid = ANY(CAST(:ids AS bigint[]))
  AND parent_tid <> jeditaskid AND status = 'registered'
ORDER BY jeditaskid FOR NO KEY UPDATE))
""")


def wake_children(tx: Connection, task_ids: Sequence[int]) -> None:
    """Tasks have ended: children that wait to be refined wait no longer. A child whose wait is just
    being written is called after that."""
    if _WAKE_CHILDREN.run(tx, ids=task_ids):
        wake(tx, "task:registered")


_DESCENDANTS = returns(int)("""
WITH RECURSIVE d AS (
  SELECT jeditaskid FROM jedi_tasks
  WHERE parent_tid = ANY(CAST(:ids AS bigint[])) AND parent_tid <> jeditaskid
    AND status <> ALL(:ruined)
  UNION
  SELECT t.jeditaskid FROM d JOIN jedi_tasks t ON t.parent_tid = d.jeditaskid
  WHERE t.parent_tid <> t.jeditaskid AND t.status <> ALL(:ruined)
)
SELECT jeditaskid FROM d
""")
_INHERITED = returns(int)(f"""
SELECT d.datasetid FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.type = 'input'
  AND d.status IN ('ready', 'done', 'finished', 'failed')
  AND EXISTS (SELECT FROM jedi_datasets o WHERE o.jeditaskid = t.parent_tid
              AND o.datasetname = d.datasetname AND o.type IN ({OUTPUT_TYPES}))
ORDER BY d.datasetid
""")
_REOPEN = changes("""
UPDATE jedi_datasets SET state = 'open', statechecktime = NULL, fed_upto = NULL
WHERE datasetid = ANY(:ids)
""")


def follow_retry(tx: Connection, task_ids: Sequence[int], agent: str) -> dict[int, str]:
    """Tasks were retried: take their children, and theirs, from their holders; failed, broken and
    aborted ones stay unchanged, with theirs.

    Children at work look at the outputs again until these are closed anew. Those that have ended,
    or are about to, are returned with their statuses, held by this transaction: they are to begin
    anew.
    """
    values = {"ids": list(task_ids), "ruined": list(RUINED)}
    taken = tasks.seize(tx, _DESCENDANTS.rows(tx, **values))
    paused = [task_id for task_id, status in taken.items() if status == "paused"]
    before = taken | (dict(commands.BEFORE_HOLD.rows(tx, ids=paused)) if paused else {})
    anew = {i: status for i, status in taken.items() if before[i] in BEGINS_ANEW}
    working = [i for i, status in taken.items() if status in _AT_WORK and i not in anew]
    inputs = _INHERITED.rows(tx, ids=working) if working else []
    _reopen(tx, inputs, agent)
    return anew


def _reopen(tx: Connection, inputs: Sequence[int], agent: str) -> None:
    """Look at inputs of children at work until they are closed."""
    if inputs:
        dataset_rows.move_datasets(tx, [(i, "running") for i in inputs], agent, "parent_retried")
        _REOPEN.run(tx, ids=list(inputs))
        wake(tx, "files:more")


_INHERIT = returns(int)(f"""
WITH n AS (
  SELECT nextval('jedi_dataset_id_seq') AS datasetid, r.* FROM (
    SELECT t.jeditaskid, o.datasetname, s.masterid, min(s.datasetid) AS model
    FROM jedi_tasks t JOIN jedi_datasets o ON o.jeditaskid = t.parent_tid
      JOIN jedi_datasets s ON s.jeditaskid = t.jeditaskid AND s.containername = o.containername
    WHERE t.parent_tid = ANY(CAST(:ids AS bigint[])) AND t.parent_tid <> t.jeditaskid
      AND t.status = ANY(:working) AND o.type IN ({OUTPUT_TYPES})
      AND s.type = 'input' AND s.status = 'running'
      AND NOT EXISTS (SELECT FROM jedi_datasets k WHERE k.jeditaskid = t.jeditaskid
                      AND k.datasetname = o.datasetname AND k.type = 'input')
    GROUP BY t.jeditaskid, o.datasetname, s.masterid ORDER BY 1, 2, 3) r
), a AS (
  SELECT datasetid, jeditaskid, datasetname, masterid, model FROM n
  UNION ALL  -- each master has secondary datasets of its own
  SELECT nextval('jedi_dataset_id_seq'), f.jeditaskid, f.datasetname, n.datasetid, f.datasetid
  FROM n JOIN jedi_datasets f ON f.jeditaskid = n.jeditaskid AND f.masterid = n.model
  WHERE n.masterid IS NULL AND f.type IN ('input', 'pseudo_input') AND f.status <> 'removed'
), i AS (
  INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, containername, masterid, type, vo,
    status, attributes, streamname, storagetoken, destination)
  SELECT a.datasetid, a.jeditaskid, a.datasetname, s.containername, a.masterid, s.type, s.vo,
    'defined', s.attributes, s.streamname, s.storagetoken, s.destination
  FROM a JOIN jedi_datasets s ON s.jeditaskid = a.jeditaskid AND s.datasetid = a.model
  RETURNING datasetid, jeditaskid, status
)
INSERT INTO jedi_datasets_statuslog (datasetid, jeditaskid, status, agent, reason_code, reason)
SELECT datasetid, jeditaskid, status, :agent, 'parent_retried', 'parent retried' FROM i
RETURNING datasetid
""")


def inherit(tx: Connection, task_ids: Sequence[int], agent: str) -> None:
    """Tasks have ended: a child at work that looks at a container of their outputs again gets the
    datasets that a retry added to it, as it has the others."""
    if task_ids:
        values = {"ids": list(task_ids), "working": list(_AT_WORK), "agent": agent}
        _reopen(tx, sorted(_INHERIT.rows(tx, **values)), agent)
