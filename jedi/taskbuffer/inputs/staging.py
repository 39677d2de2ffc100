"""Input files that wait for staging from tape, and copies that no job needs any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.splitting.split_rules import SplitRules
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import INPUT_TYPES, TASK_FINAL
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.schema.dataset_rules import SHARED
from jedi.taskbuffer.tasks import scouting
from jedi.taskbuffer.tasks.tasks import UNCLAIMED

_RELEASE = changes("""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready'
  WHERE c.datasetid = ANY(CAST(:ids AS bigint[])) AND c.status = 'staging'
  RETURNING c.datasetid, coalesce(c.endevent - c.startevent + 1, c.nevents) AS events
), g AS (SELECT datasetid, count(*) AS n, sum(events) AS events FROM c GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilestobeused = d.nfilestobeused + g.n, statechecktime = NULL,
  neventstobeused = coalesce(d.neventstobeused + g.events, d.neventstobeused, g.events)
FROM g WHERE d.datasetid = g.datasetid
""")


def release(tx: Connection, task_ids: Sequence[int]) -> None:
    """Files that wait for tape count as staged. The caller has locked the tasks."""
    if not task_ids:
        return
    ids = [one.dataset_id for one in datasets.inputs(tx, task_ids)]
    datasets.LOCK.run(tx, ids=ids)
    _RELEASE.run(tx, ids=ids)
    wake(tx, "files:ready", "files:more")


_HELD = returns(tuple[int, dict[str, Any]])("""
WITH d AS (  -- looked at at once, and for the last time if it is closed
  UPDATE jedi_datasets SET statechecktime = NULL
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type = 'input' AND status = 'running'
)
SELECT jeditaskid, rules FROM jedi_tasks
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND rules ? 'workflow_holdup'
""")


def end_workflow_hold(tx: Connection, task_ids: Sequence[int]) -> None:
    """End the hold of tasks by a workflow: their input no longer counts as open for it. The caller
    has locked the tasks."""
    if not task_ids:
        return
    datasets.LOCK.run(tx, ids=[one.dataset_id for one in datasets.inputs(tx, task_ids)])
    held = dict(_HELD.rows(tx, ids=list(task_ids)))
    free = {"workflow_holdup": None}
    rules = {
        i: SplitRules.model_validate(rules).model_copy(update=free) for i, rules in held.items()
    }
    scouting.set_rules(tx, rules)


COMING = "coming"
"""The proc_status of files that were asked for: they count first, or others that are more urgent
would come beside them."""
_ASKED = changes(f"""
UPDATE jedi_dataset_contents SET proc_status = '{COMING}'
WHERE fileid = ANY(CAST(:ids AS bigint[])) AND status = 'staging' AND proc_status <> '{COMING}'
""")


class WantedFiles(NamedTuple):
    """The files of a dataset that are to be brought from tape."""

    dataset_name: str
    lfns: list[str]
    file_ids: list[int]


# In this order: few datasets are open, and few of their tasks use tape. Other plans read all tasks,
# or all files of open input.
_WANTED = returns(WantedFiles)(f"""
WITH f AS (
  SELECT d.datasetname, c.lfn, t.currentpriority, c.fileid, sum(c.fsize) OVER (
    PARTITION BY t.username ORDER BY c.coming DESC, t.currentpriority DESC, c.fileid) - c.fsize
    AS before
  FROM (
    SELECT d.datasetid, d.datasetname, d.jeditaskid FROM jedi_datasets d
    WHERE d.type = 'input' AND d.status = 'running' AND d.datasetid > 0  -- its index asks for that
    OFFSET 0) d, LATERAL (
    SELECT username, currentpriority FROM jedi_tasks t
    WHERE t.jeditaskid = d.jeditaskid AND t.status NOT IN ({TASK_FINAL})
      AND t.rules ? 'input_pre_staging' OFFSET 0) t, LATERAL (
    SELECT lfn, fileid, fsize, proc_status IS NOT DISTINCT FROM '{COMING}' AS coming
    FROM jedi_dataset_contents c
    WHERE c.datasetid = d.datasetid AND c.status = 'staging' OFFSET 0) c
)
SELECT datasetname, array_agg(DISTINCT lfn) AS lfns, array_agg(fileid) AS file_ids
FROM f WHERE before < :limit OR :limit = 0
GROUP BY datasetname ORDER BY max(currentpriority) DESC, min(fileid)
""")


def wanted(tx: Connection, limit: float) -> list[WantedFiles]:
    """Files to be brought from tape, the most urgent dataset first. Of what a user waits for no
    more than so many bytes at a time (0: all), and one file at least. They count as asked for."""
    found = _WANTED.rows(tx, limit=limit)
    _ASKED.run(tx, ids=[one for row in found for one in row.file_ids])
    return found


class StagingTask(NamedTuple):
    """A task that waits for the first of its input; `facts`: the dataset and the files that it
    waits for, if it was not held meanwhile."""

    jedi_task_id: int
    lock_seq: int
    facts: Any
    reason: str | None


WAITING = returns(StagingTask)(f"""
-- Tasks that wait for the first of their input.
SELECT jeditaskid, lock_seq, coalesce(reason_facts, '{{}}') AS facts,
  errordialog AS reason
FROM jedi_tasks WHERE status = 'staging'
  AND {UNCLAIMED}
ORDER BY currentpriority DESC, jeditaskid
""")


def first_on_tape(dataset: str, lfns: Sequence[str], failure: str = "") -> str:
    """The reason of a task that waits for the first of its input; `failure`: of the last try."""
    reason = f"The input is on tape: {lfns[0]} of {dataset} comes first."
    return f"{reason} {_last_try(failure)}" if failure else reason


REST_ON_TAPE = "The rest of the input is on its way from tape to disk."
_EXPLAIN = changes(f"""
WITH f AS (
  SELECT DISTINCT ON (d.jeditaskid) d.jeditaskid, f.reason
  FROM unnest(CAST(:names AS text[]), CAST(:reasons AS text[])) f(name, reason)
    JOIN jedi_datasets d ON d.datasetname = f.name AND d.type = 'input' AND d.status = 'running'
  ORDER BY d.jeditaskid, d.datasetid
), k AS (
  SELECT t.jeditaskid FROM jedi_tasks t JOIN f USING (jeditaskid)
  WHERE t.status = 'defined' AND t.reason_code = 'input_on_tape' AND t.{UNCLAIMED}
    AND t.errordialog IS DISTINCT FROM f.reason
  ORDER BY t.jeditaskid FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE jedi_tasks t SET errordialog = f.reason FROM f JOIN k USING (jeditaskid)
WHERE t.jeditaskid = f.jeditaskid
""")


def explain(tx: Connection, failures: Mapping[str, str]) -> None:
    """Name, by dataset, the last failure in the reasons of tasks that wait for nothing but further
    files from tape. ContentsFeeder replaces it at its next look."""
    if failures:
        reasons = [f"{REST_ON_TAPE} {_last_try(failure)}" for failure in failures.values()]
        _EXPLAIN.run(tx, names=[*failures], reasons=reasons)


def _last_try(failure: str) -> str:
    return f"The last try failed: {failure.rstrip('.')}."


MANY_TIME = returns(str)(f"""
-- Datasets among these that a task reads, or has read, as many-time input.
SELECT DISTINCT datasetname FROM jedi_datasets WHERE datasetname = ANY(CAST(:names AS text[]))
  AND type IN ({INPUT_TYPES}) AND 'manytime' = ANY(string_to_array(attributes, ','))
""")


class NeededInput(NamedTuple):
    """An input file that living tasks process; `in_use`: a job may have it."""

    name: str
    lfn: str
    in_use: bool | None


_NEEDED = returns(NeededInput)(f"""
SELECT d.datasetname AS name, c.lfn,
  bool_or(c.status = 'running' OR {SHARED}) AS in_use
FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.datasetname = ANY(CAST(:names AS text[])) AND d.type IN ({INPUT_TYPES})
  AND t.status NOT IN ({TASK_FINAL})
  AND c.status IN ('pending', 'staging', 'waiting', 'ready', 'running')
  -- a hash: each file of a dataset was compared with each one asked for
  AND ((d.datasetname, c.lfn) IN (
    SELECT * FROM unnest(CAST(:names AS text[]), CAST(:lfns AS text[])))) IS TRUE
GROUP BY 1, 2
""")


def needed(tx: Connection, files: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    """The files (dataset, LFN) that living tasks still have to process; True: a job may have it at
    the moment."""
    values = {"names": [name for name, _ in files], "lfns": [lfn for _, lfn in files]}
    rows = _NEEDED.rows(tx, **values)
    return {(row.name, row.lfn): bool(row.in_use) for row in rows}
