"""JobGenerator end to end, against the bare set-based SQL that writes the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import numpy as np
from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, medians, run, seconds
from benchmarks.feed import Listing, insert
from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import clock
from jedi.jobgenerator.agent import JobGenerator
from jedi.jobgenerator.splitter import Caps, Splitter, Weights, walk
from jedi.taskbuffer import knobs
from jedi.taskrefiner.agent import TaskRefiner

PANDA = 300.0  # jobs/s, PanDA's own code on PostgreSQL 15
REPEATS = 5
ENDPOINT = "BENCH_DATADISK"
_numbers = count()


class Held(Listing):
    """Data management that has one dataset, all of it at one endpoint."""

    def locate(self, _name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        """Where files are."""
        return {lfn: [ENDPOINT] for lfn in lfns}

    def create(self, _name: str, _endpoint: str) -> None:
        """Output datasets are none of this benchmark's business."""


def measure(engine: Engine) -> list[Result]:
    """10 files a job and 1, ten times as many files, and the splitter alone."""
    run(
        engine,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status) "
        "VALUES (1, 'user', 'user', 'local', 1, 'active') ON CONFLICT DO NOTHING",
        "INSERT INTO jedi_sites (site, lastpilot) VALUES ('BENCH', jedi_now())",
        f"INSERT INTO jedi_ddm_endpoints (ddm_endpoint, path) VALUES ('{ENDPOINT}', '/')",
        f"INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES ('BENCH', '{ENDPOINT}')",
    )
    with engine.begin() as tx:
        knobs.put(tx, "throttler.queue_cap", 10_000_000, "bench")
    return [
        _generation(engine, 100_000, 10, REPEATS, goal=0.5),
        _generation(engine, 10_000, 1, REPEATS, goal=0.5),
        _generation(engine, 1_000_000, 10, 1),
        *_splitting(1_000_000),
    ]


def _generation(
    engine: Engine, files: int, each: int, repeats: int, goal: float | None = None
) -> Result:
    ddm: Any = Held(files)
    world = make_world(engine, ddm)

    def fresh(work: Callable[[int], object]) -> float:
        task_id = _fed_task(engine, world, each)
        took = seconds(lambda: work(task_id))
        _check(engine, files, each)
        return took

    jobs = files // each
    took = medians(
        {"floor": lambda: fresh(lambda task: _floor(engine, task, each)),
         "ours": lambda: fresh(lambda _: _ours(world))},
        repeats,
    )  # fmt: skip
    return Result(f"generate {jobs:,} jobs of {each}", "jobs/s", jobs / took["ours"],
                  jobs / took["floor"], goal, PANDA)  # fmt: skip


def _ours(world: World) -> None:
    generator = JobGenerator(world)
    while generator.run_once():
        pass


def _fed_task(engine: Engine, world: World, each: int) -> int:
    """A task with ready files, in tables that hold nothing else."""
    run(
        engine,
        "TRUNCATE jedi_dataset_contents, jedi_jobs, jedi_job_files, jedi_job_params, "
        "jedi_job_ready, jedi_jobs_statuslog, job_stats_delta",
    )
    name = f"bench:out{next(_numbers)}"
    items = [
        {"type": "template", "param_type": "input", "value": "${IN/S}", "dataset": "bench:in"},
        {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": name},
    ]
    document = {"taskName": "bench", "transPath": "cat", "nFilesPerJob": each,
                "skipScout": True}  # fmt: skip
    task_id = insert(engine, {**document, "jobParameters": items})
    TaskRefiner(world).run_once()
    ContentsFeeder(world).run_once()
    run(engine, "CHECKPOINT")
    return task_id


def _check(engine: Engine, files: int, each: int) -> None:
    """Both ways left the same behind."""
    jobs = files // each
    expected = {"jedi_jobs": jobs, "jedi_job_params": jobs, "jedi_job_ready": jobs,
                "jedi_jobs_statuslog": jobs, "jedi_job_files": files + 2 * jobs,
                "jedi_dataset_contents": files + 2 * jobs}  # fmt: skip
    with engine.begin() as tx:
        for table, rows in expected.items():
            found = tx.scalar(text(f"SELECT count(*) FROM {table}"))
            assert found == rows, f"{table}: {found} rows, not {rows}"


_FLOOR = (
    "SET LOCAL enable_nestloop = off",
    """
CREATE TEMP TABLE bench_map ON COMMIT DROP AS
SELECT c.fileid, c.lfn, :first + (row_number() OVER (ORDER BY c.fileid) - 1) / :each AS pandaid
FROM jedi_dataset_contents c WHERE c.datasetid = :input AND c.status = 'ready'""",
    """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'running', pandaid = m.pandaid,
    attemptnr = c.attemptnr + 1, lastattempttime = jedi_now(), proc_status = 'queued'
  FROM bench_map m WHERE c.datasetid = :input AND c.fileid = m.fileid AND c.status = 'ready'
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
SELECT :task, :task, 'user', 'generic', 'me', 'local', 1, 'user', 'SCORE', 1000, :first + g,
  :first + g, g + 1, 1, 'activated', 'BENCH', 1, 0, 0, 9537, :each, CAST(:each AS bigint) * 1000
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
SELECT :first + g, 'BENCH', 'user', 1000, 1, 0, 0, 9537 FROM generate_series(0, :jobs - 1) g""",
    """
INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code, reason)
SELECT :first + g, :task, 'activated', 'JobGenerator', 'generated', 'generated'
FROM generate_series(0, :jobs - 1) g""",
    """
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
VALUES ('BENCH', 1, 'user', 'SCORE', 'activated', :jobs, :jobs)""",
    """
UPDATE jedi_datasets SET nfiles = nfiles + CASE WHEN type = 'input' THEN 0 ELSE :jobs END,
  nfilesused = nfilesused + CASE WHEN type = 'input' THEN CAST(:jobs AS bigint) * :each ELSE 0 END
WHERE jeditaskid = :task""",
    "UPDATE jedi_output_template SET serialnr = serialnr + :jobs WHERE jeditaskid = :task",
    "UPDATE jedi_tasks SET status = 'running' WHERE jeditaskid = :task",
)


def _floor(engine: Engine, task_id: int, each: int) -> None:
    """The same rows in the same tables, all made by the server."""
    with engine.begin() as tx:
        found = tx.execute(
            text("SELECT type, datasetid, nfiles FROM jedi_datasets WHERE jeditaskid = :task"),
            {"task": task_id},
        ).all()
        jobs = sum(row.nfiles for row in found) // each
        ids = text("SELECT setval('jedi_panda_id_seq', nextval('jedi_panda_id_seq') + :jobs)")
        values = {row.type: row.datasetid for row in found} | {
            "task": task_id, "each": each, "jobs": jobs, "endpoint": ENDPOINT,
            "first": tx.execute(ids, {"jobs": jobs}).scalar_one() - jobs,
        }  # fmt: skip
        for statement in _FLOOR:
            tx.execute(text(statement), values)


def _splitting(files: int) -> list[Result]:
    """Files cut into jobs in memory, in a plain way and under three limits."""
    random = np.random.default_rng(1)
    ones, sizes = np.ones(files), random.integers(1, 4 * 2**30, files)
    events = random.integers(1, 10_000, files)
    cases: dict[str, tuple[Weights, Caps]] = {
        "plain": ({"masters": ones}, {"masters": 10.0}),
        "three limits": (
            {"masters": ones, "bytes": sizes, "events": events},
            {"masters": 200.0, "bytes": 20.0 * 2**30, "events": 50_000.0},
        ),
    }
    results = []
    for name, (weights, caps) in cases.items():
        best = float("inf")
        for _ in range(5):
            begin = clock.monotonic()
            walk(Splitter(weights).cuts(caps), 0, files)
            best = min(best, clock.monotonic() - begin)
        results.append(Result(f"split {files:,} files, {name}", "files/s", files / best))
    return results
