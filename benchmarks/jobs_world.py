"""A world of jobs: sites, shares, tasks with files, and activated jobs that the server makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import Engine, text

from benchmarks.common import make_world, run
from benchmarks.feed import Listing, feed_all, insert
from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.taskbuffer.db import knobs
from jedi.taskrefiner.agent import TaskRefiner

ENDPOINT = "BENCH_DATADISK"
_numbers = count()


class Held(Listing):
    """Data management that has one dataset, all of it at one endpoint."""

    def locate(self, _name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        """Where files are."""
        return {lfn: [ENDPOINT] for lfn in lfns}

    def create(self, _name: str, _endpoint: str) -> None:
        """Output datasets are none of a benchmark's business."""


def site(number: int) -> str:
    """The name of a site, counted from 0."""
    return f"BENCH{number}"


def place(engine: Engine, sites: int = 1, shares: int = 1) -> None:
    """Sites with one endpoint between them, and work queues `share1`, `share2`, … without a cap;
    new tasks come into the first."""
    run(
        engine,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status) "
        f"SELECT n, 'share' || n, 'user', 'local', n, 'active' FROM generate_series(1, {shares}) n",
        "INSERT INTO jedi_sites (site, lastpilot) "
        f"SELECT 'BENCH' || n, jedi_now() FROM generate_series(0, {sites - 1}) n",
        f"INSERT INTO jedi_ddm_endpoints (ddm_endpoint, path) VALUES ('{ENDPOINT}', '/')",
        "INSERT INTO jedi_site_endpoints (site, ddm_endpoint) "
        f"SELECT site, '{ENDPOINT}' FROM jedi_sites",
    )
    with engine.begin() as tx:
        knobs.put(tx, "throttler.queue_cap", 10_000_000, "bench")
        knobs.put(tx, "caps.user_jobs", 0, "bench")  # all jobs are one user's


def clear(engine: Engine) -> None:
    """Remove all tasks with their datasets, files and jobs."""
    run(
        engine,
        "TRUNCATE jedi_tasks, jedi_taskparams, jedi_tasks_statuslog, jedi_jobparams_template, "
        "jedi_output_template, jedi_datasets, jedi_datasets_statuslog, jedi_dataset_contents, "
        "jedi_jobs, jedi_job_files, jedi_job_params, jedi_job_ready, jedi_jobs_statuslog, "
        "jedi_acquire_requests, jedi_job_retry_history, job_stats, job_stats_delta",
    )


def fed_task(engine: Engine, world: World, each: int, share: int = 1) -> int:
    """A task of a share whose files are ready; there is an output and a log for `each` of them."""
    name = f"bench:out{next(_numbers)}"
    items = [
        {"type": "template", "param_type": "input", "value": "${IN/S}", "dataset": "bench:in"},
        {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": name},
    ]
    document = {"taskName": "bench", "transPath": "cat", "nFilesPerJob": each, "skipScout": True}
    task_id = insert(engine, {**document, "jobParameters": items})
    TaskRefiner(world).run_once()
    run(
        engine,
        f"UPDATE jedi_tasks SET workqueue_id = {share}, gshare = 'share{share}' "
        f"WHERE jeditaskid = {task_id}",
    )
    feed_all(ContentsFeeder(world))
    return task_id


_MAKE = (
    "SET LOCAL enable_nestloop = off",
    """
CREATE TEMP TABLE bench_map ON COMMIT DROP AS
SELECT c.fileid, c.lfn, :first + (row_number() OVER (ORDER BY c.fileid) - 1) / :each AS pandaid
FROM jedi_dataset_contents c WHERE c.datasetid = :input AND c.ready""",
    """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'running', pandaid = m.pandaid,
    attemptnr = c.attemptnr + 1, lastattempttime = jedi_now(), proc_status = 'queued'
  FROM bench_map m WHERE c.datasetid = :input AND c.fileid = m.fileid AND c.ready
  RETURNING c.*
)
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, endpoint, fsize,
  checksum, guid, n_events)
SELECT pandaid, fileid, jeditaskid, datasetid, type, lfn, :endpoint, fsize, checksum, guid, nevents
FROM u""",
    """
INSERT INTO jedi_jobs (jeditaskid, taskid, prodsourcelabel, processingtype, username, vo,
  workqueue_id, gshare, resource_type, priority, pandaid, originpandaid, unit_nr, attemptnr, status,
  site, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events)
SELECT :task, :task, 'user', 'generic', 'me', 'local', :share, 'share' || :share, 'SCORE',
  1000 + g / :sites % :priorities, :first + g, :first + g, g + 1, 1, 'activated',
  'BENCH' || g % :sites, 1, 0, 0, 9537, :each, CAST(:each AS bigint) * 1000
FROM generate_series(0, :jobs - 1) g""",
    """
INSERT INTO jedi_job_params (pandaid, jobparameters)
SELECT pandaid, 'cat ' || string_agg(lfn, ' ' ORDER BY fileid) || ' > o.'
  || lpad((pandaid - :first + 1)::text, 6, '0') FROM bench_map GROUP BY pandaid""",
    *(
        f"""
WITH c AS (
  INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, scope, status,
    attemptnr, keeptrack, pandaid, outpandaid, proc_status)
  SELECT nextval('jedi_file_id_seq'), :{kind}, :task, '{head}' || lpad((g + 1)::text, 6, '0'),
    '{kind}', 'bench', 'defined', 1, 1, :first + g, :first + g, 'queued'
  FROM generate_series(0, :jobs - 1) g RETURNING *
)
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, endpoint)
SELECT pandaid, fileid, jeditaskid, datasetid, type, lfn, :endpoint FROM c"""
        for kind, head in (("output", "o."), ("log", "bench.log."))
    ),
    """
INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb)
SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb
FROM jedi_jobs WHERE pandaid >= :first AND pandaid - :first < :jobs""",
    """
INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code, reason)
SELECT :first + g, :task, 'activated', 'JobGenerator', 'generated', 'generated'
FROM generate_series(0, :jobs - 1) g""",
    """
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT 'BENCH' || g % :sites, :share, 'share' || :share, 'SCORE', 'activated', count(*), count(*)
FROM generate_series(0, :jobs - 1) g GROUP BY 1""",
    """
UPDATE jedi_datasets SET nfiles = nfiles + CASE WHEN type = 'input' THEN 0 ELSE :jobs END,
  nfilesused = nfilesused + CASE WHEN type = 'input' THEN CAST(:jobs AS bigint) * :each ELSE 0 END
WHERE jeditaskid = :task""",
    "UPDATE jedi_output_template SET serialnr = serialnr + :jobs WHERE jeditaskid = :task",
    """
WITH u AS (UPDATE jedi_tasks SET status = 'running' WHERE jeditaskid = :task RETURNING jeditaskid)
INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status, agent, reason_code)
SELECT jeditaskid, 'ready', 'running', 'JobGenerator', 'generated' FROM u""",
)


def make_jobs(
    engine: Engine, task_id: int, each: int, sites: int = 1, share: int = 1, priorities: int = 1
) -> None:
    """Turn all files of a task into activated jobs over sites and priorities: the rows that the
    JobGenerator writes, all made by the server."""
    with engine.begin() as tx:
        found = tx.execute(
            text("SELECT type, datasetid, nfiles FROM jedi_datasets WHERE jeditaskid = :task"),
            {"task": task_id},
        ).all()
        jobs = sum(row.nfiles for row in found) // each
        ids = text("SELECT setval('jedi_panda_id_seq', nextval('jedi_panda_id_seq') + :jobs)")
        tx.execute(text("SELECT pg_advisory_lock(1)"))  # two would get the same numbers
        last = tx.execute(ids, {"jobs": jobs}).scalar_one()
        tx.execute(text("SELECT pg_advisory_unlock(1)"))
        values = {row.type: row.datasetid for row in found} | {
            "task": task_id,
            "each": each,
            "jobs": jobs,
            "endpoint": ENDPOINT,
            "sites": sites,
            "share": share,
            "priorities": priorities,
            "first": last - jobs,
        }
        for statement in _MAKE:
            tx.execute(text(statement), values)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many jobs of how many input files (an output and a log come with them) lie at how many
    sites, in how many shares, tasks and priorities."""

    jobs: int
    each: int = 1
    sites: int = 20
    shares: int = 5
    tasks: int = 20
    priorities: int = 50


def activated_jobs(engine: Engine, shape: Shape) -> Sequence[int]:
    """Make a world of activated jobs, in tables that hold no others; the ids of its tasks. Call
    `place` first."""
    clear(engine)
    return more_jobs(engine, shape)


def more_jobs(engine: Engine, shape: Shape) -> Sequence[int]:
    """The same beside what is there."""
    ddm: Any = Held(shape.jobs * shape.each // shape.tasks)
    world = make_world(engine, ddm)
    task_ids = []
    for number in range(shape.tasks):
        share = number % shape.shares + 1
        task_ids.append(fed_task(engine, world, shape.each, share))
        make_jobs(engine, task_ids[-1], shape.each, shape.sites, share, shape.priorities)
    run(engine, "ANALYZE")
    run(engine, "CHECKPOINT")
    return task_ids
