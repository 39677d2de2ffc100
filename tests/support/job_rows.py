"""Tasks with jobs, put into the database by plain SQL as the generator would leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event, text


@dataclass(frozen=True)
class Made:
    """A task with its datasets and its jobs."""

    task: int
    input: int
    seeds: int
    output: int
    log: int
    jobs: list[int]


def watch(engine: Engine) -> list[str]:
    """A list to which every statement is added that this engine executes from now on."""
    seen: list[str] = []
    event.listen(
        engine, "before_cursor_execute", lambda _c, _cur, statement, *_: seen.append(statement)
    )
    return seen


def reads_of(statements: Sequence[str]) -> list[str]:
    """Those of the statements that read. A page also writes that its reader's token is in use, once
    a minute."""
    return [one for one in statements if one.lstrip(" \n(").startswith(("SELECT", "WITH"))]


def make_jobs(
    tx: Connection,
    n: int,
    *,
    files: int = 2,
    site: str = "SITE_A",
    share: str = "",
    priority: int = 100,
    attempt: int = 1,
    max_attempt: int = 3,
    max_failure: int | None = None,
    destination: str | None = None,
    cores: int = 1,
    memory_mb: int = 0,
) -> Made:
    """`n` activated jobs, each with `files` inputs of 10 events, a random seed, an output and a
    log, all at the site's endpoint unless `destination` names another."""
    task = tx.scalar(
        text(
            "INSERT INTO jedi_tasks (jeditaskid, status, reqid, taskname, username) "
            "VALUES (nextval('jedi_task_id_seq'), 'running', 1, 'test', 'me') RETURNING jeditaskid"
        )
    )
    values = {
        "task": task,
        "n": n,
        "files": files,
        "site": site,
        "share": share,
        "attempt": attempt,
        "priority": priority,
        "max_attempt": max_attempt,
        "max_failure": max_failure,
        "endpoint": f"{site}_DATADISK",
        "to": destination or f"{site}_DATADISK",
        "cores": cores,
        "memory": memory_mb,
    }
    tx.execute(
        text("INSERT INTO jedi_taskparams (jeditaskid, taskparams) VALUES (:task, '{}')"), values
    )
    datasets = {
        kind: tx.scalar(
            text(
                "INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, "
                "nfiles, nfilestobeused, nfilesused, nevents, neventstobeused) "
                "VALUES (nextval('jedi_dataset_id_seq'), :task, :name, :type, :status, :rows, "
                ":inputs, :inputs, :events, :events) RETURNING datasetid"
            ),
            {
                **values,
                "name": f"test:{task}.{kind}",
                "type": kind,
                "rows": rows,
                "status": "running" if kind in ("output", "log") else "ready",
                "inputs": 0 if kind in ("output", "log") else rows,
                "events": 10 * rows if kind == "input" else None,
            },
        )
        for kind, rows in (("input", n * files), ("random_seed", n), ("output", n), ("log", n))
    }
    tx.execute(text(_JOBS), values)
    for kind, dataset in datasets.items():
        made = {
            **values,
            "dataset": dataset,
            "type": kind,
            "each": files if kind == "input" else 1,
            "state": "defined" if kind in ("output", "log") else "running",
        }
        tx.execute(text(_CONTENTS), made)
        tx.execute(text(_FILES), made)
    jobs = tx.scalars(
        text("SELECT pandaid FROM jedi_jobs WHERE jeditaskid = :task ORDER BY pandaid"), values
    )
    inputs, seeds, outputs, logs = (int(number or 0) for number in datasets.values())
    return Made(int(task or 0), inputs, seeds, outputs, logs, list(jobs))


_JOBS = """
WITH j AS (
  INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status,
    site, gshare, priority, cores, memory_mb, walltime_s, disk_mb)
  SELECT id, :task, 1, id, unit, :attempt, 'activated', :site, :share, :priority, :cores, :memory,
    600, 0
  FROM (SELECT nextval('jedi_panda_id_seq') AS id, g AS unit FROM generate_series(1, :n) g) n
  RETURNING *
), r AS (
  INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s,
    disk_mb)
  SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb FROM j
), p AS (
  INSERT INTO jedi_job_params (pandaid, jobparameters) SELECT pandaid, 'echo ' || pandaid FROM j
), l AS (
  INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent)
  SELECT pandaid, jeditaskid, status, 'JobGenerator' FROM j
)
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT :site, 0, :share, '', 'activated', count(*), sum(cores) FROM j
"""

_CONTENTS = """
INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, status, attemptnr,
  maxattempt, maxfailure, pandaid, outpandaid, fsize, checksum, nevents)
SELECT nextval('jedi_file_id_seq'), :dataset, :task,
  CAST(:type AS text) || '.' || pandaid || '.' || g,
  CAST(:type AS text), :state, CASE WHEN :state = 'running' THEN :attempt ELSE 0 END,
  CASE WHEN CAST(:type AS text) = 'input' THEN :max_attempt END, CAST(:max_failure AS int),
  pandaid, CASE WHEN :state = 'defined' THEN pandaid END,
  CASE WHEN :state = 'running' THEN 3 END, NULL, CASE WHEN CAST(:type AS text) = 'input' THEN 10 END
FROM jedi_jobs, generate_series(1, :each) g WHERE jeditaskid = :task ORDER BY pandaid, g
"""

_FILES = """
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, endpoint, fsize)
SELECT pandaid, fileid, jeditaskid, datasetid, type, lfn,
  CASE WHEN :state = 'defined' THEN :to ELSE :endpoint END, fsize
FROM jedi_dataset_contents WHERE datasetid = :dataset
"""
