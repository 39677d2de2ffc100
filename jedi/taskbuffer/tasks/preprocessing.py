"""Pre-processing: the one pseudo file whose job runs before a task's own jobs are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.splitting.split_rules import PREPROCESSED, TO_PREPROCESS
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.tasks import dataset_rows, scouting, tasks

_FEED = changes("""
WITH d AS (
  UPDATE jedi_datasets d SET nfiles = nfiles + 1, nfilestobeused = nfilestobeused + 1
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type = 'pp_input'
    AND NOT EXISTS (  -- what a job finished may not have been heard: the task was stopped meanwhile
      SELECT FROM jedi_dataset_contents c WHERE c.datasetid = d.datasetid
        AND c.jeditaskid = d.jeditaskid AND c.status IN ('ready', 'running'))
  RETURNING datasetid, jeditaskid, type
)
INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, lfn, status, proc_status, keeptrack,
  maxattempt, fsize)
SELECT datasetid, jeditaskid, type, 'pseudo_lfn', 'ready', 'ready', 1, :tries, 0 FROM d
""")


_PREPARE = returns(int)("""
SELECT datasetid FROM jedi_datasets WHERE jeditaskid = ANY(:ids)
  AND type = 'pp_input' AND status <> 'ready'
""")


def prepare(tx: Connection, task_ids: Sequence[int], tries: int, agent: str) -> None:
    """Let the pre-processing job of these tasks, which the transaction has locked, be made, for the
    first time or once more; it is tried so often."""
    ids = {"ids": list(task_ids)}
    _FEED.run(tx, **ids, tries=tries)
    rows = _PREPARE.rows(tx, **ids)
    dataset_rows.move_datasets(tx, [(i, "ready") for i in rows], agent, "needs_preprocessing")


_LIES_AHEAD = returns(bool)("""
SELECT p.taskparams ? 'preproSpec'
  AND coalesce(CAST(t.rules ->> 'use_pre_pro' AS int), :due) = :due
FROM jedi_tasks t JOIN jedi_taskparams p USING (jeditaskid) WHERE jeditaskid = :id
""")


def lies_ahead(tx: Connection, task_id: int) -> bool:
    """Return True if the task still needs a pre-processing job."""
    found = _LIES_AHEAD.row(tx, id=task_id, due=TO_PREPROCESS)
    return bool(found)


_THROUGH = """
AND NOT EXISTS (SELECT FROM jedi_jobs j WHERE j.jeditaskid = jedi_tasks.jeditaskid
  AND j.postprocessed_at IS NULL OFFSET 0)
AND EXISTS (SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid
  AND d.type = 'pp_input' AND d.status = 'ready'
  AND d.nfilesfinished + d.nfilesfailed + d.nfilesmissing >= d.nfilestobeused OFFSET 0)
"""


def claim_through(tx: Connection, me: str, lease_s: float, limit: int) -> list[ClaimedTask]:
    """Take tasks whose pre-processing job has ended for good."""
    return tasks.claim(tx, ["preprocessing"], me, lease_s, limit, _THROUGH)


class PreprocessingJob(NamedTuple):
    """The last pre-processing job of a task."""

    jedi_task_id: int
    status: str
    metadata: Any
    error_diag: str


_LAST = returns(PreprocessingJob)("""
SELECT DISTINCT ON (jeditaskid) jeditaskid, status,
  coalesce(metadata, '{}') AS metadata, coalesce(error_diag, '') AS error_diag
FROM (SELECT jeditaskid, pandaid, kind, status, metadata, error_diag FROM jedi_jobs
      WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
      UNION ALL
      SELECT jeditaskid, pandaid, kind, status, metadata, error_diag FROM jedi_jobs_archived
      WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))) j
WHERE kind = 'preprocess' ORDER BY jeditaskid, pandaid DESC
""")


def last_jobs(tx: Connection, task_ids: Sequence[int]) -> dict[int, PreprocessingJob]:
    """By task, its last pre-processing job."""
    if not task_ids:
        return {}
    return {row.jedi_task_id: row for row in _LAST.rows(tx, ids=list(task_ids))}


def note_done(tx: Connection, task_ids: Sequence[int]) -> None:
    """Record that the pre-processing jobs of these locked tasks have reported their results."""
    if task_ids:
        rules = scouting.rules_of(tx, task_ids)
        done = {"use_pre_pro": PREPROCESSED}
        scouting.set_rules(tx, {i: one.model_copy(update=done) for i, one in rules.items()})
