"""Merging: what jobs made waits at their site until a merge job takes it.

A pre-merge file is a row of contents of type trn_output or trn_log. One job, its maker, makes it
(outpandaid) and a merge job reads it (pandaid): pending → ready → running → finished, or failed.
The files of a maker stay together. The maker is `merging` while they are ready or running and ends
with them, so that its inputs are finished when, and only when, what became of them is merged.
Source: JEDI document, "Internal Merging"; docs/reference/merging.md#internal-merging.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection

from jedi.core import states
from jedi.model.datasets.chunk import Files
from jedi.model.datasets.dataset import Attributes
from jedi.model.jobs.generation import Input, TaskOrder
from jedi.model.jobs.merging import GROWTH, LOGS, MergeOrder, Stream
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.engine import prepared, wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES, OUTPUT_TYPES, PRE_MERGE_TYPES
from jedi.taskbuffer.db.statement import answers, changes, returns
from jedi.taskbuffer.jobs.jobs import JobMove, MovedJob, move_jobs
from jedi.taskbuffer.jobs.orders import Claimed, OutputRow, outputs_of
from jedi.taskbuffer.tasks import tasks

STATUSES = (
    "ready",
    "scouting",
    "running",
    "pending",
    "throttled",
    "exhausted",
    "finishing",
)
"""Tasks that merge: what is made already does not wait for what holds up further jobs."""

PRIORITY = 5000
"""The priority of merge jobs (docs/reference/merging.md#internal-merging)."""
_DONE = states.EVENT_CODES["done"]

# ------------------------------------------------------------------------- makers: to merging

_LOCK_DATASETS = changes(f"""
SELECT FROM jedi_datasets d WHERE d.type IN ({PRE_MERGE_TYPES}) AND d.datasetid IN (
  SELECT datasetid FROM jedi_job_files WHERE pandaid = ANY(CAST(:ids AS bigint[])))
ORDER BY d.datasetid FOR NO KEY UPDATE
""")
_STORE = changes(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'merging', fsize = f.fsize,
    checksum = f.checksum, guid = f.guid, maxattempt = c.attemptnr + :tries
  FROM jedi_job_files f
  WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({OUTPUT_TYPES})
    AND c.fileid = f.fileid AND c.status = 'pending'
  RETURNING c.datasetid
), i AS (
  UPDATE jedi_dataset_contents c SET proc_status = 'merging'
  FROM jedi_job_files f
  WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({MASTER_TYPES})
    AND c.fileid = f.fileid AND c.pandaid = f.pandaid AND c.status = 'running'
), e AS (
  UPDATE jedi_events SET status = {_DONE}, processed_upto_eventid = def_max_eventid
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND job_processid = 0
), g AS (SELECT datasetid, count(*) AS n FROM c GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilestobeused = d.nfilestobeused + g.n
FROM g WHERE d.datasetid = g.datasetid
""")


def await_merge(tx: Connection, moves: Sequence[JobMove], agent: str, tries: int) -> list[MovedJob]:
    """holding → merging: the pre-merge files of these jobs are published. A merge of them is tried
    so often."""
    moved = move_jobs(tx, moves, agent, ("holding",))
    if moved:
        ids = [job.panda_id for job in moved]
        _LOCK_DATASETS.run(tx, ids=ids)
        _STORE.run(tx, ids=ids, tries=tries)
        wake(tx, "files:ready")
    return moved


# --------------------------------------------------------------------------- makers: the end

_TIES = f"""
SELECT c.outpandaid AS maker, min(m.pandaid) AS merger,
  bool_and(f.type IN ({OUTPUT_TYPES})) AS bound
FROM jedi_jobs m JOIN jedi_job_files f USING (pandaid) JOIN jedi_dataset_contents c USING (fileid)
WHERE m.pandaid = ANY(CAST(:ids AS bigint[])) AND (
  m.kind = 'merge' AND f.type IN ({PRE_MERGE_TYPES}) AND c.pandaid = m.pandaid
  OR m.status = 'merging' AND f.type IN ({OUTPUT_TYPES}) AND c.status = 'running'
    AND c.type IN ({PRE_MERGE_TYPES}))
GROUP BY c.outpandaid, m.kind = 'merge'
"""


MERGE_JOBS = returns(tuple[int, int])(f"""
-- The merge jobs that have what these jobs made.
SELECT c.outpandaid AS maker, min(c.pandaid) AS merger
FROM jedi_job_files f JOIN jedi_dataset_contents c USING (fileid)
WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({OUTPUT_TYPES})
  AND c.outpandaid = f.pandaid AND c.type IN ({PRE_MERGE_TYPES}) AND c.status = 'running'
GROUP BY c.outpandaid
UNION ALL  -- its pieces of events
SELECT j.pandaid, m.pandaid FROM jedi_jobs j JOIN jedi_consumers c USING (pandaid)
  JOIN jedi_jobsets s USING (jobsetid) JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid
WHERE j.pandaid = ANY(CAST(:ids AS bigint[])) AND j.status = 'merging'
  AND m.status NOT IN ('waiting', 'failed', 'cancelled', 'closed')
ORDER BY maker
""")


_LOCK = answers(
    prepared(
        "Each batch of ends, often of one job: planning takes longer than a job's part of the "
        "execution. Bound: the files of its jobs, and of the jobs that they merge, by key."
    )
)(f"""
WITH t AS MATERIALIZED ({_TIES}), k AS MATERIALIZED (
  SELECT array_agg(maker) FILTER (WHERE NOT bound) || CAST(:ids AS bigint[]) AS ids FROM t
), j AS MATERIALIZED (
  SELECT pandaid, status FROM jedi_jobs WHERE pandaid = ANY((SELECT ids FROM k)::bigint[])
  ORDER BY pandaid FOR NO KEY UPDATE
), d AS MATERIALIZED (
  SELECT datasetid FROM jedi_datasets WHERE :datasets AND (SELECT count(*) FROM j) > 0
    AND datasetid = ANY(ARRAY(
      SELECT datasetid FROM jedi_job_files WHERE pandaid = ANY((SELECT ids FROM k)::bigint[])))
  ORDER BY datasetid FOR NO KEY UPDATE
)
SELECT json_build_array((SELECT json_agg(json_build_array(maker, merger, bound)) FROM t),
  (SELECT json_object_agg(pandaid, status) FROM j WHERE NOT :datasets), (SELECT count(*) FROM d))
""")


class Locked(NamedTuple):
    """Jobs that were locked with what ends with them, and their present statuses, unless datasets
    were locked, too. `makers`: those of the files of merge jobs, each with its merge job; `bound`:
    those whose files a merge job has. They end with it and not before, or what they made could be
    merged and made again."""

    statuses: dict[int, str]
    makers: dict[int, int]
    bound: set[int]


def lock(tx: Connection, panda_ids: Sequence[int], *, datasets: bool = False) -> Locked:
    """Lock jobs and the makers of what they merge, in one order, and after them the datasets of
    their files, if it is to be: one statement, since each is a way there and back."""
    ties, statuses, _ = _LOCK.value(tx, ids=list(panda_ids), datasets=datasets)
    return Locked(
        {int(job): status for job, status in (statuses or {}).items()},
        {maker: merger for maker, merger, bound in ties or () if not bound},
        {maker for maker, _, bound in ties or () if bound},
    )


_LOST = {"failed": "merge_failed", "cancelled": "merge_cancelled", "closed": "merge_closed"}
"""Code and sub-status of makers, by the end of the last merge job. However that ended, its makers
are cancelled: it was no failure of theirs. Source: JEDI document, "Output merging"."""
_DETAIL = changes("""
UPDATE jedi_jobs j SET substatus = s.substatus
FROM unnest(CAST(:ids AS bigint[]), CAST(:words AS text[])) s(id, substatus)
WHERE j.pandaid = s.id AND j.status = 'merging'
""")


class MergeOutcome(NamedTuple):
    """A maker whose files are merged, or given up with the last merge job."""

    maker: int
    merger: int
    status: str
    error_diag: str | None
    merged: bool


_OUTCOME = returns(MergeOutcome)(f"""
SELECT k.maker, m.pandaid AS merger, m.status, m.error_diag,
  bool_and(c.status = 'finished') AS merged
FROM unnest(CAST(:makers AS bigint[]), CAST(:mergers AS bigint[])) k(maker, merger)
  JOIN jedi_jobs m ON m.pandaid = k.merger JOIN jedi_job_files f ON f.pandaid = k.maker
  JOIN jedi_dataset_contents c ON c.fileid = f.fileid
WHERE f.type IN ({OUTPUT_TYPES})
GROUP BY k.maker, m.pandaid
HAVING bool_and(c.status = 'finished') OR bool_or(c.status IN ('failed', 'missing', 'broken'))
ORDER BY k.maker
""")


def outcomes(tx: Connection, tied: Mapping[int, int]) -> list[JobMove]:
    """The ends of makers whose merge jobs have ended and were settled: finished if their files are
    merged, cancelled if the merge is given up. The others wait for the next try."""
    if not tied:
        return []
    ids, mergers = list(tied), list(tied.values())
    rows = _OUTCOME.rows(tx, makers=ids, mergers=mergers)
    if lost := [row for row in rows if not row.merged]:
        words = [_LOST[row.status] for row in lost]
        _DETAIL.run(tx, ids=[row.maker for row in lost], words=words)
    return [_end(row) for row in rows]


def _end(row: MergeOutcome) -> JobMove:
    if row.merged:
        reason = f"Job {row.merger} merged what it made."
        return JobMove(row.maker, "finished", "merged", reason)
    reason = f"What it made was not merged by job {row.merger}: {row.error_diag}"
    return JobMove(row.maker, "cancelled", _LOST[row.status], reason, None, "jedi")


# ------------------------------------------------------------------------ what is to be merged

# The jobs at a site have all ended, or there is more than one merge job may have.
_DUE = f"""
AND rules @> '{{"merge_output": true}}' AND jeditaskid <> ALL(CAST(:not_yet AS bigint[]))
AND EXISTS (
  SELECT FROM jedi_datasets d
    JOIN jedi_dataset_contents c ON c.datasetid = d.datasetid AND c.ready
    JOIN jedi_jobs j ON j.pandaid = c.outpandaid
  WHERE d.jeditaskid = jedi_tasks.jeditaskid AND d.type IN ({PRE_MERGE_TYPES})
  GROUP BY d.datasetid, j.site
  HAVING count(*) > CAST(coalesce(rules ->> 'n_files_per_merge_job',
      rules ->> 'n_max_files_per_merge_job', :max_files) AS bigint)
    OR sum(c.fsize) * {GROWTH} > CAST(coalesce(rules ->> 'n_gb_per_merge_job', :max_gb) AS float8)
      * 2.0 ^ 30
    OR sum(j.n_events) > CAST(rules ->> 'n_events_per_merge_job' AS bigint)
    OR NOT EXISTS (
      SELECT FROM jedi_jobs l WHERE l.jeditaskid = jedi_tasks.jeditaskid AND l.site = j.site
        AND l.postprocessed_at IS NULL AND l.kind <> 'merge' AND l.status <> 'merging')
  OFFSET 0)
"""


def claim(
    tx: Connection,
    me: str,
    lease_s: float,
    limit: int,
    max_files: int,
    max_gb: float,
    not_yet: Iterable[int] = (),
) -> list[ClaimedTask]:
    """Take tasks that have files for merge jobs, put off or not: at a site where all jobs of the
    task have ended, or more than one merge job may have (`max_files`, `max_gb` where the task says
    nothing); but for those of `not_yet`."""
    return tasks.claim(
        tx,
        STATUSES,
        me,
        lease_s,
        limit,
        _DUE,
        early=True,
        max_files=str(max_files),
        max_gb=str(max_gb),
        not_yet=list(not_yet),
    )


class ReadyPreMerge(NamedTuple):
    """Ready pre-merge files of one site and dataset, in arrays."""

    jedi_task_id: int
    site: str
    dataset_id: int
    name: str
    type: str
    stream: str
    complete: bool
    file_ids: list[int]
    lfns: list[str]
    sizes: list[int]
    events: list[int]
    attempts: list[int]
    previous: list[int]
    ram_mb: int | None
    left: list[str]


_READY = returns(ReadyPreMerge)(f"""
WITH f AS (
  SELECT c.*, d.datasetname, d.streamname, j.pandaid AS maker, j.site, j.n_events,
    sum(c.fsize) OVER (PARTITION BY j.pandaid) AS bytes
  FROM jedi_datasets d
    JOIN jedi_dataset_contents c ON c.datasetid = d.datasetid AND c.ready
    JOIN jedi_jobs j ON j.pandaid = c.outpandaid
  WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.type IN ({PRE_MERGE_TYPES})
), r AS (
  SELECT *, dense_rank() OVER (PARTITION BY jeditaskid ORDER BY site, bytes DESC, maker) AS place
  FROM f
), live AS (
  SELECT DISTINCT jeditaskid, site FROM jedi_jobs
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND postprocessed_at IS NULL
    AND kind <> 'merge' AND status <> 'merging'
)
SELECT r.jeditaskid, r.site, r.datasetid, r.datasetname AS name,
  r.type, r.streamname AS stream, bool_and(live.site IS NULL) AS complete,
  array_agg(fileid ORDER BY place) AS file_ids, array_agg(lfn ORDER BY place) AS lfns,
  array_agg(coalesce(fsize, 0) ORDER BY place) AS sizes,
  array_agg(coalesce(n_events, 0) ORDER BY place) AS events,
  array_agg(attemptnr ORDER BY place) AS attempts, array_agg(pandaid ORDER BY place) AS previous,
  max(ramcount) AS ram_mb, array_remove(array_agg(DISTINCT stuck_at), NULL) AS "left"
FROM r LEFT JOIN live ON live.jeditaskid = r.jeditaskid AND live.site = r.site
  LEFT JOIN (SELECT pandaid AS merger, site AS stuck_at FROM jedi_jobs
    WHERE error_code = 'not_taken') m ON m.merger = r.pandaid
WHERE place <= :most
GROUP BY r.jeditaskid, r.site, r.datasetid, r.datasetname, r.type, r.streamname
ORDER BY r.jeditaskid, r.site, r.datasetid
""")


class StoredMergeSpec(NamedTuple):
    """The mergeSpec of a task."""

    jedi_task_id: int
    spec: dict[str, Any] | None


def orders(tx: Connection, rows: Sequence[ClaimedTask], most: int) -> list[MergeOrder]:
    """The orders for merge jobs of claimed tasks, from the files of up to `most` jobs each."""
    ids = {"ids": [row.jedi_task_id for row in rows]}
    streams: dict[int, list[Stream]] = {row.jedi_task_id: [] for row in rows}
    ram_mb = {row.jedi_task_id: row.merge_ram_count for row in rows}
    for row in _READY.rows(tx, **ids, most=most):
        if row.ram_mb:  # a merge of them ran out of memory
            ram_mb[row.jedi_task_id] = max(row.ram_mb, ram_mb[row.jedi_task_id] or 0)
        streams[row.jedi_task_id].append(
            Stream(
                row.site,
                row.dataset_id,
                row.name,
                row.type,
                row.stream,
                row.complete,
                _files(row),
                tuple(row.left),
            )
        )
    outputs = outputs_of(tx, ids["ids"])
    stored = _SPECS.rows(tx, **ids)
    specs = {row.jedi_task_id: row.spec or {} for row in stored}
    return [
        MergeOrder(
            order=_order(
                row, outputs[row.jedi_task_id], specs[row.jedi_task_id], streams[row.jedi_task_id]
            ),
            streams=tuple(streams[row.jedi_task_id]),
            ram_mb=ram_mb[row.jedi_task_id],
            cores=row.merge_core_count,
        )
        for row in rows
    ]


_SPECS = returns(StoredMergeSpec)("""
SELECT jeditaskid, taskparams -> 'mergeSpec' AS spec FROM jedi_taskparams
WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def _order(
    row: ClaimedTask,
    outputs: Sequence[OutputRow],
    spec: Mapping[str, Any],
    streams: Sequence[Stream],
) -> TaskOrder:
    """The task's order with what merge jobs read, run and make instead; logs are read if they are
    merged, too."""
    template = spec.get("jobParameters", "")
    order = Claimed(row, (), outputs, template).order(merging=True)
    wanted = [
        one
        for one in streams
        if one.type != LOGS or f"${{{one.stream}" in template or "${TRN_LOG:" in template
    ]
    datasets = {one.dataset_id: one for one in wanted}.values()
    inputs = tuple(
        Input(one.dataset_id, one.name, one.type, one.stream, None, Attributes(), 0, 0)
        for one in datasets
    )
    columns = {**order.columns, "kind": "merge", "priority": PRIORITY}
    whole = {"n_events_per_job": None, "target_events_per_job": None}  # ranges are not merged again
    return replace(
        order,
        trans_path=spec.get("transPath"),
        rules=order.rules.model_copy(update=whole),
        inputs=inputs,
        columns=columns,
    )


def _files(row: ReadyPreMerge) -> Files:
    nothing = np.zeros(len(row.lfns), np.int64)
    known = ("file_ids", "sizes", "events", "attempts", "previous")
    columns: dict[str, Any] = {f.name: nothing for f in fields(Files)} | {
        name: np.array(getattr(row, name), np.int64) for name in known
    }
    return Files(**{**columns, "dataset_ids": nothing + row.dataset_id, "lfns": row.lfns})
