"""jedi_datasets and jedi_output_template. Status changes go through move_datasets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.tasks.rows import ClaimedTask, FedDataset
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import PRODUCT_TYPES, TASK_FINAL
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks import herds
from jedi.taskbuffer.tasks.tasks import claim

TO_FEED = ("defined", "ready", "scouting", "running", "throttled", "pending")
"""Tasks that may have input to be looked up."""

_OPEN_AND_DUE = f"""
{herds.NOT_DUE}
AND (status = 'defined' AND (next_run_at IS NULL OR next_run_at <= jedi_now()) OR EXISTS (
  SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid
    AND d.type = 'input' AND d.status = 'running'
    AND (d.statechecktime IS NULL
         OR d.statechecktime <= jedi_now() - make_interval(secs => :recheck_s))
  OFFSET 0))
"""


_ANY_TO_FEED = returns(bool)("""
SELECT EXISTS (SELECT FROM jedi_tasks WHERE status = 'defined'
    AND (next_run_at IS NULL OR next_run_at <= jedi_now()))
  OR EXISTS (SELECT FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
    WHERE d.type = 'input' AND d.status = 'running' AND d.datasetid > 0  -- its index asks for that
      AND t.status = ANY(:statuses)
      AND (d.statechecktime IS NULL
           OR d.statechecktime <= jedi_now() - make_interval(secs => :recheck_s)))
""")


def any_to_feed(tx: Connection, recheck_s: float) -> bool:
    """Return True if there is a defined task, or open input that is to be looked up again."""
    values = {"statuses": list(TO_FEED), "recheck_s": recheck_s}
    return _ANY_TO_FEED.value(tx, **values)


def claim_to_feed(
    tx: Connection, me: str, lease_s: float, limit: int, recheck_s: float
) -> list[ClaimedTask]:
    """Take defined tasks, and tasks with open input that is to be looked up again, whatever else
    they wait for; no herd that is to be split now."""
    return claim(tx, TO_FEED, me, lease_s, limit, _OPEN_AND_DUE, early=True, recheck_s=recheck_s)


LOCK = changes("""
-- Lock datasets to the transaction's end, in the order that all keep who end jobs.
SELECT FROM jedi_datasets WHERE datasetid = ANY(:ids) ORDER BY datasetid
  FOR NO KEY UPDATE
""")


_NOTE_LOOK = changes("""
UPDATE jedi_datasets SET statechecktime = jedi_now() WHERE datasetid = ANY(:ids)
""")


def note_look(tx: Connection, dataset_ids: Sequence[int]) -> None:
    """Datasets are going to be looked up. Who is called from now on looks once more."""
    LOCK.run(tx, ids=dataset_ids)
    _NOTE_LOOK.run(tx, ids=list(dataset_ids))


WITH_READY_FILES = returns(int)(f"""
-- The tasks of which a master has released files that no job took yet.
SELECT jeditaskid FROM jedi_datasets d WHERE jeditaskid = ANY(:ids) AND {LISTED_MASTER}
  AND nfilestobeused > nfilesused + nfilesmissing
""")


_GROUP = """
CASE WHEN t.rules @> '{"respect_lb": true}' THEN lumiblocknr END AS lumiblock,
CASE WHEN t.rules ? 'group_boundary_id' THEN boundaryid END AS boundary
"""
"""The lumi block and the boundary id that divide the files of a dataset."""
_READ_INPUTS = returns(FedDataset)(f"""
SELECT d.datasetid, d.jeditaskid, d.datasetname,
  d.containername, d.attributes, d.type, d.masterid, d.status,
  d.nfiles, d.nfilestobeused, d.nevents,
  CASE WHEN d.nfiles > 0 AND d.masterid IS NULL AND t.rules ?| CAST(:ranges AS text[])
       THEN (SELECT count(DISTINCT lfn) FROM jedi_dataset_contents c
             WHERE c.datasetid = d.datasetid AND c.status <> 'skipped') ELSE d.nfiles END AS files,
  d.status IN ('defined', 'toupdate', 'pending', 'running') AS due, d.fed_upto,
  d.nleftout,
  l.lumiblock AS last_lumiblock, l.boundary AS last_boundary, l.events AS last_events
FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid) LEFT JOIN LATERAL (
  SELECT e.lumiblock, e.boundary, (
    SELECT CAST(sum(endevent - startevent + 1) AS bigint) FROM jedi_dataset_contents c
    WHERE c.datasetid = d.datasetid AND c.fileid > coalesce(o.fileid, 0)) AS events
  FROM (  -- the conditions stand here: behind ON they came after the search
    SELECT {_GROUP} FROM jedi_dataset_contents c
    WHERE c.datasetid = d.datasetid AND c.status <> 'skipped' AND d.nfiles > 0
      AND d.masterid IS NULL AND t.rules ? 'n_events_per_job'
      AND t.rules ?| '{{respect_lb,group_boundary_id}}'
    ORDER BY fileid DESC LIMIT 1) e LEFT JOIN LATERAL (  -- the last row of the group before
    SELECT fileid FROM (
      SELECT fileid, {_GROUP} FROM jedi_dataset_contents c
      WHERE c.datasetid = d.datasetid AND c.status <> 'skipped') c
    WHERE (c.lumiblock, c.boundary) IS DISTINCT FROM (e.lumiblock, e.boundary)
    ORDER BY fileid DESC LIMIT 1) o ON true
) l ON true
WHERE jeditaskid = ANY(:ids) AND d.type = ANY(:types) ORDER BY d.datasetid
""")


def inputs(tx: Connection, task_ids: Sequence[int]) -> list[FedDataset]:
    """Input datasets of tasks that their own jobs do not fill, but for what stands for the input of
    a pre-processing job or a build. `due`: to be looked up; `files`: how many files their rows
    stand for, of which each may have many (ranges of events). `last_…`: the last lumi block and
    boundary id, where ranges respect these, and the events in it."""
    values = {
        "ids": list(task_ids),
        "types": [kind for kind in states.FED_TYPES if kind != "pp_input"],
        "ranges": ["n_events_per_job", "target_events_per_job"],
    }
    return _READ_INPUTS.rows(tx, **values)


class Producer(NamedTuple):
    """A task that makes a dataset of this name; `live`: it may still do so."""

    dataset_name: str
    jedi_task_id: int
    live: bool


_PRODUCERS = returns(Producer)(f"""
SELECT d.datasetname, t.jeditaskid,
  t.status NOT IN ({TASK_FINAL}) OR EXISTS (
  SELECT FROM jedi_commands m WHERE m.jeditaskid = t.jeditaskid AND m.acknowledged_at IS NULL)
  AS live
FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.datasetname = ANY(:names) AND d.type IN ({PRODUCT_TYPES})
UNION ALL
SELECT i ->> 'dataset', t.jeditaskid, true
FROM jedi_tasks t JOIN jedi_taskparams p USING (jeditaskid),
  LATERAL jsonb_array_elements(p.taskparams -> 'jobParameters') i
WHERE t.status = 'registered' AND i ->> 'param_type' = 'output' AND i ->> 'dataset' = ANY(:names)
ORDER BY 2
""")


def producers(tx: Connection, names: Iterable[str]) -> list[Producer]:
    """Tasks that make datasets of these names, the oldest first; tasks that are not refined yet,
    too. A task with a command to continue counts as living."""
    wanted = sorted(set(names))
    return _PRODUCERS.rows(tx, names=wanted) if wanted else []


class FellowTask(NamedTuple):
    """Another task that makes the same output dataset."""

    jedi_task_id: int
    dataset_name: str


FELLOWS = returns(FellowTask)(f"""
-- Other tasks that are making the same output datasets.
SELECT o.jeditaskid, o.datasetname
FROM jedi_datasets d JOIN jedi_datasets o
  USING (datasetname, type) JOIN jedi_tasks t ON t.jeditaskid = o.jeditaskid
WHERE d.jeditaskid = :task AND d.type IN ({PRODUCT_TYPES})
  AND o.jeditaskid <> :task AND t.status NOT IN ({TASK_FINAL}) ORDER BY o.jeditaskid
""")


_RESERVE_OUTPUTS = changes("""
SELECT pg_advisory_xact_lock(hashtextextended(n, 0))
FROM unnest(CAST(:names AS text[])) n
""")


def reserve_outputs(tx: Connection, names: Iterable[str]) -> None:
    """Let submissions that want the same output datasets wait for each other."""
    if wanted := sorted(set(names)):
        _RESERVE_OUTPUTS.run(tx, names=wanted)


_WAKE = """
WITH l AS (
  SELECT datasetid FROM jedi_datasets
  WHERE datasetname = ANY(:names) AND type = 'input' AND status = 'running'
    AND statechecktime <= jedi_now() - make_interval(secs => :quiet_s)
  ORDER BY datasetid FOR NO KEY UPDATE {skip}
), u AS (
  UPDATE jedi_datasets SET statechecktime = NULL WHERE datasetid IN (SELECT datasetid FROM l)
  RETURNING datasetid
), w AS (
  SELECT jeditaskid FROM jedi_tasks
  WHERE status = 'defined' AND jeditaskid IN (
    SELECT jeditaskid FROM jedi_datasets
    WHERE datasetname = ANY(:names) AND type = 'input' AND status IN ('defined', 'toupdate'))
  ORDER BY jeditaskid FOR NO KEY UPDATE {skip}
), t AS (
  UPDATE jedi_tasks SET
    next_run_at = CASE WHEN lease_until IS NOT NULL THEN statechangetime END
  WHERE jeditaskid IN (SELECT jeditaskid FROM w)
  RETURNING jeditaskid
)
SELECT EXISTS (SELECT FROM u) OR EXISTS (SELECT FROM t)
"""
_WAKE_ALL = returns(bool)(_WAKE.format(skip=""))
_WAKE_QUIET = returns(bool)(_WAKE.format(skip="SKIP LOCKED"))


def wake_consumers(tx: Connection, names: Iterable[str], quiet_s: float = 0.0) -> None:
    """Datasets were closed or got files: tasks that read them look at once. A task that begins to
    wait just now is woken after that.

    With `quiet_s` whoever looked so recently, or is busy, is left out: that is for callers that
    come often, and hold locks themselves.
    """
    called, statement = sorted(set(names)), _WAKE_QUIET if quiet_s else _WAKE_ALL
    if called and statement.value(tx, names=called, quiet_s=quiet_s):
        wake(tx, "files:more")


_MAKERS = returns(str)("""
SELECT DISTINCT t.username FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.datasetname = :name AND d.type = ANY(:types) ORDER BY 1
""")


def makers(tx: Connection, name: str) -> list[str]:
    """The users whose tasks make a dataset."""
    return _MAKERS.rows(tx, name=name, types=list(states.MADE_TYPES))
