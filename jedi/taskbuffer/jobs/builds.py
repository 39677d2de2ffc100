"""Builds: one job for all sites that share an endpoint makes the software of a task.

A pseudo file of the endpoint's name stands for the build there: it is ready, running, finished, or
failed after all tries like any other input. What its job made lies in the task's dataset of type
lib. Source: docs/reference/inputs.md#builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection

from jedi.core.errors import LockLost
from jedi.model.datasets.chunk import Files
from jedi.model.datasets.dataset import Attributes
from jedi.model.jobs.building import PRIORITY, Builds
from jedi.model.jobs.generation import Input, TaskOrder
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.placeholders import LIBRARY
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.jobs import ready_files
from jedi.taskbuffer.jobs.orders import Claimed


class BuildRow(NamedTuple):
    """A build of a task (none yet: no endpoint) and the library that it made."""

    build_dataset: int
    build_name: str
    spec: dict[str, Any]
    url: str | None
    dataset_id: int
    dataset_name: str
    endpoint: str | None
    status: str | None
    file_id: int | None
    lfn: str | None
    fsize: int | None


_BUILDS = returns(BuildRow)("""
SELECT b.datasetid AS build_dataset, b.datasetname AS build_name,
  p.taskparams -> 'buildSpec' AS spec, p.taskparams ->> 'sourceURL' AS url,
  l.datasetid, l.datasetname, c.lfn AS endpoint, c.status,
  f.fileid, f.lfn, f.fsize
FROM jedi_taskparams p JOIN jedi_datasets b USING (jeditaskid)
  JOIN jedi_datasets l USING (jeditaskid)
  LEFT JOIN jedi_dataset_contents c ON c.datasetid = b.datasetid
  LEFT JOIN jedi_dataset_contents f ON f.datasetid = l.datasetid AND f.outpandaid = c.pandaid
    AND f.status = 'finished' AND f.lfn LIKE '%.lib.tgz' AND c.status = 'finished'
    AND c.lastattempttime > jedi_now() - make_interval(secs => :kept_s)
WHERE p.jeditaskid = :task AND b.type = 'pp_input' AND b.streamname = 'BUILD' AND l.type = 'lib'
ORDER BY c.lfn
""")


def of_task(tx: Connection, claimed: Claimed, kept_s: float) -> Builds:
    """The builds of a claimed task; what is older than that is built anew."""
    rows = _BUILDS.rows(tx, task=claimed.row.jedi_task_id, kept_s=kept_s)
    return Builds(
        order=_order(claimed, rows[0]),
        statuses={row.endpoint: row.status for row in rows if row.endpoint and row.status},
        libraries={row.endpoint: _file(row) for row in rows if row.endpoint and row.file_id},
    )


def _order(claimed: Claimed, row: BuildRow) -> TaskOrder:
    """The task's order with what build jobs read, run and make instead."""
    order, spec = claimed.order(building=True), row.spec
    read = Input(row.build_dataset, row.build_name, "pp_input", "BUILD", None, Attributes(), 0, 0)
    made = Input(
        row.dataset_id, row.dataset_name, "lib", LIBRARY, row.build_dataset, Attributes(), 0, 0
    )
    template = spec.get("jobParameters", "").replace("${IN}", spec.get("archiveName") or "")
    columns = {**order.columns, "kind": "build", "priority": PRIORITY}
    columns["prodsourcelabel"] = spec.get("prodSourceLabel") or order.label
    return replace(
        order,
        trans_path=spec.get("transPath"),
        params_template=template.replace("${SURL}", row.url or "").replace("${OUT}", "${LIB0}"),
        rules=SplitRules(n_files_per_job=1),
        demand=replace(order.demand, cores=1, hs06_s_per_event=None, s_per_mb=None, out_bytes=0.0),
        inputs=(read, made),
        columns=columns,
    )


def _file(row: BuildRow) -> Files:
    zero = np.zeros(1, np.int64)
    columns: dict[str, Any] = {f.name: zero for f in fields(Files)}
    return Files(
        **{
            **columns,
            "lfns": [row.lfn],
            "file_ids": zero + (row.file_id or 0),
            "dataset_ids": zero + row.dataset_id,
            "sizes": zero + (row.fsize or 0),
        }
    )


_FENCE = changes(
    "SELECT FROM jedi_tasks WHERE jeditaskid = :task AND lock_seq = :seq FOR NO KEY UPDATE"
)
_LOCK = changes("SELECT FROM jedi_datasets WHERE datasetid = :id FOR NO KEY UPDATE")
_REQUEST = changes("""
WITH e AS (SELECT unnest(CAST(:endpoints AS text[])) AS name), again AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready',
    maxattempt = c.attemptnr + :tries
  FROM e WHERE c.datasetid = :id AND c.lfn = e.name AND c.status = 'finished' RETURNING 1
), new AS (
  INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, lfn, status, proc_status,
    keeptrack, maxattempt, fsize)
  SELECT :id, :task, 'pp_input', name, 'ready', 'ready', 1, :tries, 0 FROM e
  WHERE name NOT IN (SELECT lfn FROM jedi_dataset_contents WHERE datasetid = :id) RETURNING 1
), n AS (SELECT (SELECT count(*) FROM again) AS again, (SELECT count(*) FROM new) AS new)
UPDATE jedi_datasets SET nfiles = nfiles + n.new, nfilestobeused = nfilestobeused + n.new,
  nfilesused = nfilesused - n.again, nfilesfinished = nfilesfinished - n.again
FROM n WHERE datasetid = :id
""")


def request(tx: Connection, order: TaskOrder, endpoints: Sequence[str], tries: int) -> Files:
    """The pseudo files of builds at these endpoints, which are ready from now on; each is tried so
    often. LockLost: the task was claimed anew."""
    dataset_id = order.inputs[0].dataset_id
    held = {"task": order.jedi_task_id, "seq": order.lock_seq}
    if _FENCE.run(tx, **held) == 0:
        raise LockLost(f"Task {order.jedi_task_id} was claimed anew.")
    _LOCK.run(tx, id=dataset_id)
    values = {"id": dataset_id, "task": order.jedi_task_id, "tries": tries}
    _REQUEST.run(tx, **values, endpoints=list(endpoints))
    ready = ready_files.read_ready(tx, {dataset_id: 1000})[dataset_id]
    rows = {lfn: row for row, lfn in enumerate(ready.lfns)}
    return ready.take(np.array([rows[name] for name in endpoints], np.int64))


WAKE_TASKS = changes("""
-- Tasks with builds among these jobs need not wait any longer.
UPDATE jedi_tasks SET
  next_run_at = CASE WHEN lease_until IS NOT NULL THEN statechangetime END
WHERE jeditaskid IN (
  SELECT jeditaskid FROM jedi_tasks
  WHERE (next_run_at IS NOT NULL OR lease_until IS NOT NULL) AND jeditaskid IN (
    SELECT jeditaskid FROM jedi_jobs
    WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND kind = 'build')
  ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED)
""")
