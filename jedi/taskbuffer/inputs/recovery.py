"""Outputs that were made and are gone, or are to be made anew: which jobs made them, from what, and
what their being made again means for the records.

An output gets another name when it is made again (no serial number is used twice), so what is given
up is remembered in jedi_lost_files: whoever has read the old file must not read the new one as
well, and whoever has not, shall read it instead. Source: JEDI document, "Lost file recovery";
docs/reference/inputs.md#recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import FED_TYPES, MASTER_TYPES, PRE_MERGE_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.all_jobs import all_jobs

FilesByTask = Mapping[int, Mapping[str, Iterable[str]]]
"""LFNs of outputs by task and dataset."""

_CODE = states.EVENT_CODES
_FILE = "pandaid, fileid, jeditaskid, datasetid, type, lfn"
_ALL_FILES = (
    f"(SELECT {_FILE} FROM jedi_job_files UNION ALL SELECT {_FILE} FROM jedi_job_files_archived)"
)
_FILES = f"(SELECT * FROM {_ALL_FILES} f WHERE f.pandaid = ANY(CAST(:jobs AS bigint[])))"
_OF_JOB = f"""LATERAL (
  SELECT c.*, f.type AS used_as FROM {_ALL_FILES} f
    JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  WHERE f.pandaid = {{jobs}}.pandaid OFFSET 0) f"""
"""The contents that a job of `jobs` reads and makes, looked up job by job: to find that there are
none the planner read all contents."""

LOST = """
(c.status = 'failed' AND coalesce((SELECT true FROM jedi_lost_files l
  WHERE l.jeditaskid = c.jeditaskid AND l.fileid = c.fileid), false)
  AND NOT coalesce((SELECT true FROM jedi_superseded_jobs s WHERE s.pandaid = c.outpandaid), false))
"""
"""SQL: the output or log `c` was found to be lost, and nobody was asked yet to make it again."""


class MadeOutput(NamedTuple):
    """An output of a task that was made, perhaps lost since."""

    jedi_task_id: int
    dataset_name: str
    lfn: str
    fsize: int | None
    checksum: str | None
    out_panda_id: int


MADE = returns(MadeOutput)(f"""
-- Return the outputs of tasks, or the outputs in datasets.
SELECT d.jeditaskid, d.datasetname, c.lfn, c.fsize, c.checksum,
  c.outpandaid
FROM jedi_datasets d JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.type = 'output' AND (c.status = 'finished' OR {LOST})
  AND (d.jeditaskid = ANY(CAST(:ids AS bigint[])) OR d.datasetname = ANY(:names)
       OR d.containername = ANY(:names))
ORDER BY d.jeditaskid, c.fileid
""")


_BEHIND = returns(int)(f"""
WITH RECURSIVE b AS (
  SELECT unnest(CAST(:jobs AS bigint[])) AS pandaid
  UNION
  SELECT f.outpandaid FROM b, {_OF_JOB.format(jobs="b")}
  WHERE f.used_as IN ({PRE_MERGE_TYPES}) AND f.type IN ({PRE_MERGE_TYPES})
    AND f.outpandaid <> b.pandaid
)
SELECT pandaid FROM b
""")


EVER_MADE = returns(str)("""
-- The LFNs of all outputs that tasks have made in a dataset, lost ones included.
SELECT c.lfn FROM jedi_datasets d JOIN jedi_dataset_contents c
  USING (jeditaskid, datasetid)
WHERE (d.datasetname = :name OR d.containername = :name) AND d.type = 'output'
  AND c.status = 'finished'
  UNION SELECT c.lfn FROM jedi_lost_files l
  JOIN jedi_dataset_contents c USING (jeditaskid, fileid)
WHERE (l.datasetname = :name OR l.datasetname IN
  (SELECT datasetname FROM jedi_datasets WHERE containername = :name))
  AND c.type <> 'log'
""")


MADE_AGAIN = returns(tuple[str, int])("""
-- The LFNs of lost files of a dataset that another task has made again in it, and which.
SELECT DISTINCT f.lfn, t.jeditaskid FROM jedi_datasets d
  JOIN jedi_tasks t USING (jeditaskid) JOIN jedi_taskparams p USING (jeditaskid),
  LATERAL jsonb_array_elements_text(p.taskparams -> 'lostFiles') f(lfn)
WHERE (d.datasetname = :name OR d.containername = :name) AND d.type = 'output'
  AND p.taskparams ->> 'lostFilesDataset' = :name AND t.status IN ('done', 'finished')
""")


_OUTPUT = """
SELECT * FROM jedi_dataset_contents c
WHERE c.lfn = w.lfn AND c.type = 'output' AND c.jeditaskid = d.jeditaskid
  AND c.datasetid = d.datasetid OFFSET 0"""
"""An output by its name: a few names once read all outputs of all tasks."""


class LostFileMakers(NamedTuple):
    """The jobs that made the lost files that a task makes again."""

    jedi_task_id: int
    panda_ids: list[int]


_MADE_OF = returns(LostFileMakers)(f"""
SELECT w.task AS jedi_task_id, array_agg(DISTINCT c.outpandaid) AS panda_ids
FROM unnest(CAST(:tasks AS bigint[]), CAST(:names AS text[]), CAST(:lfns AS text[]))
    w(task, name, lfn)
  JOIN jedi_datasets d ON (d.datasetname = w.name OR d.containername = w.name)
    AND d.type = 'output', LATERAL ({_OUTPUT}) c
WHERE c.status = 'finished' OR EXISTS (
  SELECT FROM jedi_lost_files l WHERE l.jeditaskid = d.jeditaskid AND l.fileid = c.fileid)
GROUP BY w.task
""")


def made_of(
    tx: Connection, lost: Mapping[int, tuple[str, Sequence[str]]]
) -> dict[int, dict[str, set[str]]]:
    """By the task that makes lost files (dataset, LFNs) again: of what, by dataset, they were made
    when another task made them."""
    rows = [(task, name, lfn) for task, (name, lfns) in lost.items() for lfn in lfns]
    if not rows:
        return {}
    tasks, names, lfns = map(list, zip(*rows, strict=True))
    found: dict[int, dict[str, set[str]]] = {}
    values = {"tasks": tasks, "names": names, "lfns": lfns}
    for row in _MADE_OF.rows(tx, **values):
        for file in read(tx, row.panda_ids):
            of_task = found.setdefault(row.jedi_task_id, {})
            of_task.setdefault(file.dataset_name, set()).add(file.lfn)
    return found


class ReadInput(NamedTuple):
    """An input file that a job has read."""

    panda_id: int
    dataset_name: str
    lfn: str


_READ = returns(ReadInput)(f"""
SELECT DISTINCT f.pandaid, d.datasetname, f.lfn
FROM {_FILES} f JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE f.type = 'input'
""")


def read(tx: Connection, panda_ids: Iterable[int]) -> list[ReadInput]:
    """The input files of jobs and of those whose files they merged."""
    return _READ.rows(tx, jobs=_behind(tx, panda_ids))


def _behind(tx: Connection, panda_ids: Iterable[int]) -> list[int]:
    """Jobs, and those whose files they merged."""
    jobs = list(panda_ids)
    return _BEHIND.rows(tx, jobs=jobs) if jobs else []


_MADE_BY = returns(int)(f"""
SELECT DISTINCT c.outpandaid
FROM unnest(CAST(:tasks AS bigint[]), CAST(:names AS text[]), CAST(:lfns AS text[])) w(task, name,
    lfn)
  JOIN jedi_datasets d ON d.jeditaskid = w.task AND d.datasetname = w.name AND d.type = 'output',
  LATERAL ({_OUTPUT}) c
WHERE c.status = 'finished' OR {LOST}
""")
_PARTIAL = returns(int)(f"""
SELECT DISTINCT c.pandaid FROM jedi_dataset_contents c JOIN (
  SELECT datasetid, lfn FROM jedi_dataset_contents
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type IN ({MASTER_TYPES})
    AND startevent IS NOT NULL
  GROUP BY datasetid, lfn HAVING NOT bool_and(status = 'finished')) p USING (datasetid, lfn)
WHERE c.jeditaskid = ANY(CAST(:ids AS bigint[])) AND c.status = 'finished'
""")


def makers(tx: Connection, wanted: FilesByTask) -> list[int]:
    """The jobs that made these outputs, as far as they count as made, by merging, too."""
    rows = [(i, name, lfn) for i, some in wanted.items() for name in some for lfn in some[name]]
    if not rows:
        return []
    tasks, names, lfns = map(list, zip(*rows, strict=True))
    found = _MADE_BY.rows(tx, tasks=tasks, names=names, lfns=lfns)
    return _behind(tx, found)


def half_done(tx: Connection, task_ids: Sequence[int]) -> list[int]:
    """The jobs that processed events of files whose other events were not processed."""
    return _PARTIAL.rows(tx, ids=list(task_ids)) if task_ids else []


_LOCK = changes("""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY datasetid FOR NO KEY UPDATE
""")
_LOSE = returns(int)(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'failed', proc_status = 'failed'
  FROM {_FILES} f WHERE f.type = 'output' AND c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
    AND c.type IN ('output', 'trn_output') AND c.status = 'finished'
  RETURNING c.jeditaskid, c.datasetid, c.fileid, c.lfn, c.outpandaid
), g AS (
  SELECT jeditaskid, datasetid, count(*) AS n FROM c GROUP BY jeditaskid, datasetid
), d AS (
  UPDATE jedi_datasets d SET nfilesfinished = d.nfilesfinished - g.n,
    nfilesfailed = d.nfilesfailed + g.n
  FROM g WHERE d.datasetid = g.datasetid AND d.jeditaskid = g.jeditaskid
  RETURNING d.datasetid, d.datasetname
)
INSERT INTO jedi_lost_files (jeditaskid, fileid, datasetname, lfn)
SELECT c.jeditaskid, c.fileid, d.datasetname, c.lfn FROM c JOIN d USING (datasetid)
RETURNING jeditaskid
""")
_RESET = changes(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready',
    maxattempt = greatest(c.maxattempt, c.attemptnr + CASE
      WHEN c.attemptnr < c.maxattempt THEN 0
      WHEN t.rules ? 'disable_auto_retry' THEN 1 ELSE :adds END)
  FROM {_FILES} f JOIN jedi_tasks t USING (jeditaskid)
  WHERE f.type IN ({FED_TYPES}) AND c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
    AND c.pandaid = f.pandaid AND c.status = 'finished'
  RETURNING c.jeditaskid, c.datasetid, coalesce(c.endevent - c.startevent + 1, c.nevents) AS events
), g AS (
  SELECT jeditaskid, datasetid, count(*) AS n, sum(events) AS events FROM c
  GROUP BY jeditaskid, datasetid
)
UPDATE jedi_datasets d SET nfilesused = d.nfilesused - g.n,
  nfilesfinished = d.nfilesfinished - g.n, neventsused = d.neventsused - coalesce(g.events, 0)
FROM g WHERE d.datasetid = g.datasetid AND d.jeditaskid = g.jeditaskid
""")
_DISCARD = changes(f"""
UPDATE jedi_events SET status = {_CODE["discarded"]}
WHERE pandaid = ANY(CAST(:jobs AS bigint[])) AND job_processid = 0
  AND status = {_CODE["done"]}
""")
_SUPERSEDE = changes(f"""
INSERT INTO jedi_superseded_jobs (jeditaskid, pandaid)
SELECT jeditaskid, pandaid FROM {all_jobs("jeditaskid, pandaid")} j
WHERE pandaid = ANY(CAST(:jobs AS bigint[])) ON CONFLICT DO NOTHING
""")


def undo(tx: Connection, task_ids: Sequence[int], panda_ids: Sequence[int], adds: int) -> set[int]:
    """Void the results of these finished jobs: their outputs (logs stay) count as lost and
    their inputs are ready again, with `adds` more attempts if they used up theirs; the jobs are
    superseded. The tasks of which something was lost; once more, nothing is. The caller has locked
    the tasks."""
    if not panda_ids:
        return set()
    values = {"jobs": list(panda_ids)}
    _LOCK.run(tx, ids=list(task_ids))
    _SUPERSEDE.run(tx, **values)
    lost = set(_LOSE.rows(tx, **values))
    _RESET.run(tx, **values, adds=adds)
    _DISCARD.run(tx, **values)
    return lost


def give_up(tx: Connection, lost: FilesByTask, unwanted: Sequence[int], adds: int) -> set[int]:
    """Give up outputs that are lost, and those made of files that tasks want to process anew; see
    `undo`."""
    jobs = [*makers(tx, lost), *half_done(tx, unwanted)]
    return undo(tx, [*lost, *unwanted], jobs, adds)


class FilesToRemove(NamedTuple):
    """Lost files of a task in one dataset."""

    jedi_task_id: int
    dataset_name: str
    lfns: list[str]


_TO_REMOVE = returns(FilesToRemove)("""
SELECT jeditaskid, datasetname, array_agg(lfn) AS lfns
FROM jedi_lost_files
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND removed_at IS NULL
GROUP BY jeditaskid, datasetname
""")


def to_remove(tx: Connection, task_ids: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """Lost files of tasks, by dataset, that data management may still have."""
    found: dict[int, dict[str, list[str]]] = {}
    for row in _TO_REMOVE.rows(tx, ids=list(task_ids)):
        found.setdefault(row.jedi_task_id, {})[row.dataset_name] = row.lfns
    return found


NOTE_REMOVED = changes("""
-- Data management has none of the lost files of these tasks any more.
UPDATE jedi_lost_files SET removed_at = jedi_now()
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND removed_at IS NULL
""")


# A file takes the place of a lost one if it is made of the same input, be it by merging: units may
# have been divided or combined since. `b`: the jobs behind a lost file; `a`: those that have
# processed the same input, and those that merged what these made.
_REPLACED = f"""
RECURSIVE l AS (
  SELECT d.datasetid AS reader, o.jeditaskid, o.datasetid, l.fileid, l.lfn
  FROM jedi_datasets d JOIN jedi_lost_files l USING (datasetname)
    JOIN jedi_datasets o ON o.jeditaskid = l.jeditaskid AND o.datasetname = l.datasetname
      AND o.type = 'output'
  WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.type = 'input'
), b AS (
  SELECT l.fileid, c.outpandaid AS pandaid
  FROM l, LATERAL (SELECT outpandaid FROM jedi_dataset_contents c
    WHERE c.fileid = l.fileid AND c.jeditaskid = l.jeditaskid OFFSET 0) c
  UNION
  SELECT b.fileid, f.outpandaid FROM b, {_OF_JOB.format(jobs="b")}
  WHERE f.used_as IN ({PRE_MERGE_TYPES}) AND f.outpandaid <> b.pandaid
), a AS (
  SELECT b.fileid, f.pandaid FROM b, {_OF_JOB.format(jobs="b")}
    JOIN jedi_datasets d ON d.datasetid = f.datasetid AND d.masterid IS NULL
  WHERE d.type IN ({MASTER_TYPES}) AND f.status = 'finished'
  UNION
  SELECT a.fileid, f.pandaid FROM a, {_OF_JOB.format(jobs="a")}
  WHERE f.type IN ({PRE_MERGE_TYPES}) AND f.outpandaid = a.pandaid
), r AS (
  SELECT DISTINCT l.reader AS datasetid, l.lfn AS lost, c.lfn AS found, c.fsize, c.checksum, c.guid
  FROM l JOIN a ON a.fileid = l.fileid
    JOIN {_ALL_FILES} f ON f.pandaid = a.pandaid AND f.type = 'output'
    JOIN jedi_dataset_contents c ON c.jeditaskid = l.jeditaskid AND c.datasetid = l.datasetid
      AND c.fileid = f.fileid AND c.status = 'finished'
)
"""
# Nothing is read twice: not even in part, where one of the files that a new one stands for was
# used. Otherwise it takes the place of the first of them; the others are in it and stay lost.
_RENAME = changes(f"""
WITH {_REPLACED}, old AS (
  SELECT datasetid, lfn AS lost, bool_and(status IN (
    'ready', 'pending', 'staging', 'lost', 'missing', 'broken', 'failed')) AS free
  FROM jedi_dataset_contents WHERE (datasetid, lfn) IN (SELECT datasetid, lost FROM r)
  GROUP BY datasetid, lfn
), new AS (
  SELECT r.*, bool_and(old.free) OVER (PARTITION BY datasetid, found) AS free,
    row_number() OVER (PARTITION BY datasetid, found ORDER BY lost) AS nr_of_found,
    row_number() OVER (PARTITION BY datasetid, lost ORDER BY found) AS nr_of_lost
  FROM r JOIN old USING (datasetid, lost)
  WHERE NOT EXISTS (
    SELECT FROM jedi_dataset_contents c WHERE c.datasetid = r.datasetid AND c.lfn = r.found)
)
UPDATE jedi_dataset_contents c SET lfn = n.found, fsize = n.fsize, checksum = n.checksum,
  guid = n.guid
FROM new n
WHERE n.free AND n.nr_of_found = 1 AND n.nr_of_lost = 1
  AND c.datasetid = n.datasetid AND c.lfn = n.lost
""")


_CONCERNED = returns(int)("""
SELECT DISTINCT d.jeditaskid FROM jedi_datasets d JOIN jedi_lost_files l USING (datasetname)
WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.type = 'input'
""")


def _concerned(tx: Connection, task_ids: Sequence[int]) -> dict[str, list[int]]:
    """The tasks that read datasets with lost files: hardly ever any."""
    return {"ids": _CONCERNED.rows(tx, ids=list(task_ids))}


def rename(tx: Connection, task_ids: Sequence[int]) -> None:
    """Let inputs of tasks that were lost and made again go by their new names, unless they were
    used before that. The caller holds the tasks."""
    if (ids := _concerned(tx, task_ids))["ids"]:
        _RENAME.run(tx, **ids)


class ReplacedFile(NamedTuple):
    """The old and the new name of an input file that was made again."""

    dataset_id: int
    lost: str
    found: str


_REPLACEMENTS = returns(ReplacedFile)(f"WITH {_REPLACED} SELECT datasetid, lost, found FROM r")


def replaced(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
    """By input dataset of tasks, the old and the new name of each file that was made again."""
    found: dict[int, list[tuple[str, str]]] = {}
    if (ids := _concerned(tx, task_ids))["ids"]:
        for row in _REPLACEMENTS.rows(tx, **ids):
            found.setdefault(row.dataset_id, []).append((row.lost, row.found))
    return found
