"""The whole life of jobs: generated, dispatched, running, reported and added, on two CPUs."""

from __future__ import annotations

from contextlib import ExitStack
from time import sleep

import psycopg
from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, medians, run, statements, together
from benchmarks.jobs_world import clear, fed_task, make_jobs, place, site
from benchmarks.stages import IDLE_S, Service, add, adder_of, process_of, world_of
from jedi.core.errors import JediError
from jedi.jobgenerator.agent import JobGenerator
from jedi.service.system.check import check
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect

PANDA = 19.5  # jobs/s, PanDA's own code on PostgreSQL 15: 206 statements a job
JOBS, SMOKE = 50_000, 500
TASKS = 10
BULK = 100
CPUS = 2  # for the server, too
SERVICES = 3  # two CPUs would idle while two wait for the disk
REPEATS = 3
LEAST = {1: 5_000, 10: 2_000}


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """Jobs of one input file and of ten, in ten tasks: a JobGenerator, an Adder and some processes
    of the service, whose pilots take, start, keep alive and end a hundred jobs at a time."""
    place(engine)
    with engine.begin() as tx:  # what was generated is dispatched while the next task is served
        knobs.put(tx, "jobgen.batch", 1, "benchmark")
    repeats = REPEATS if jobs == JOBS else 1
    return [_life(engine, jobs, each, repeats) for each in LEAST]


def _life(engine: Engine, jobs: int, each: int, repeats: int) -> Result:
    url = engine.url.render_as_string(hide_password=False)

    def ours() -> float:
        _feed(engine, url, jobs, each)
        took = together(2 + SERVICES, _process, url, jobs)
        verify(engine, jobs)
        return took

    def floor() -> float:
        tasks = _feed(engine, url, jobs, each)
        took = together(CPUS, _bare, url, tasks, each)
        _finished(engine, jobs)
        return took

    took = medians({"floor": floor, "ours": ours}, repeats)
    return Result(
        f"{jobs:,} lives with {each} input files",
        "jobs/s",
        jobs / took["ours"],
        jobs / took["floor"],
        None,
        PANDA,
        _statements(engine, url, jobs, each),
        LEAST[each],
    )


def _feed(engine: Engine, url: str, jobs: int, each: int) -> list[int]:
    """Tasks with ready files and no jobs yet."""
    clear(engine)
    run(engine, "TRUNCATE jedi_tasks, jedi_tasks_statuslog, jedi_datasets, jedi_datasets_statuslog")
    world = world_of(url, jobs * each // TASKS)
    tasks = [fed_task(engine, world, each) for _ in range(TASKS)]
    world.engine.dispose()
    run(engine, "ANALYZE")
    run(engine, "CHECKPOINT")
    return tasks


def verify(engine: Engine, jobs: int) -> None:
    """All jobs are finished, and the records agree."""
    _finished(engine, jobs)
    with engine.begin() as tx:
        wrong = [finding for finding in check(tx) if finding.violations]
    if wrong:
        raise JediError(f"The records do not agree: {wrong}.", code="benchmark_failed")


def _finished(engine: Engine, jobs: int) -> None:
    with engine.begin() as tx:
        finished = tx.scalar(text("SELECT count(*) FROM jedi_jobs WHERE status = 'finished'"))
    if finished != jobs:
        raise JediError(f"{finished} of {jobs} jobs finished.", code="benchmark_failed")


# ---------------------------------------------------------------------------------------- ours


def _process(number: int, url: str, jobs: int) -> Work:
    return process_of(number, url, jobs, generate, lambda service: lambda: _serve_all(service))


def generate(generator: JobGenerator) -> None:
    """Generate until there is nothing."""
    while generator.run_once():
        pass


_MORE = text("SELECT EXISTS (SELECT FROM jedi_datasets WHERE nfilestobeused > nfilesused)")


def _serve_all(service: Service) -> None:
    """Serve until nothing waits and nothing more will be made."""
    more = True
    while more:
        with service.world.engine.begin() as tx:
            more = bool(tx.scalar(_MORE))
        while serve(service):
            pass
        sleep(IDLE_S)


def serve(service: Service, where: int = 0) -> int:
    """Take a hundred jobs of a site from the queue to the report of their end; how many there
    were."""
    if orders := service.acquire(site(where), BULK):
        service.start(orders)
        service.beat(orders)
        service.finish(orders)
    return len(orders)


def _statements(engine: Engine, url: str, jobs: int, each: int) -> str:
    """What one life takes when one process does one thing after another."""
    _feed(engine, url, jobs, each)
    service, generator, adder = Service(url), JobGenerator(world_of(url)), adder_of(url)
    with ExitStack() as stack:
        seen = [
            stack.enter_context(statements(one.world.engine)) for one in (service, generator, adder)
        ]
        generate(generator)
        while serve(service):
            pass
        add(adder, jobs)
    verify(engine, jobs)
    return f"{sum(map(len, seen)) / jobs:.2f} statements a job"


# --------------------------------------------------------------------------------------- floor

_MOVE = """
WITH u AS (
  UPDATE jedi_jobs SET status = '{after}', statechangetime = jedi_now(), heartbeat_at = jedi_now(),
    {more} WHERE pandaid = ANY(%(ids)s) RETURNING pandaid, jeditaskid
)
INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, fromstatus, status, agent, reason_code)
SELECT pandaid, jeditaskid, '{before}', '{after}', 'bench', 'bench' FROM u
"""
_MOVES = [
    _MOVE.format(before=before, after=after, more=more)
    for before, after, more in (
        ("activated", "sent", "lock_seq = lock_seq + 1, pilot_id = 'bench'"),
        ("sent", "running", "starttime = jedi_now()"),
        ("running", "holding", "pilot_result = 'finished', endtime = jedi_now(), exit_code = 0"),
        ("holding", "finished", "postprocessed_at = jedi_now()"),
    )
]
_LIFE = (
    "DELETE FROM jedi_job_ready WHERE pandaid = ANY(%(ids)s)",
    *_MOVES[:2],
    "UPDATE jedi_dataset_contents c SET status = 'running', proc_status = 'running' "
    "FROM jedi_job_files f WHERE f.pandaid = ANY(%(ids)s) AND f.type IN ('output', 'log') "
    "AND c.fileid = f.fileid AND c.datasetid = f.datasetid",
    "UPDATE jedi_jobs SET heartbeat_at = jedi_now(), cpu_s = 60 WHERE pandaid = ANY(%(ids)s)",
    _MOVES[2],
    "UPDATE jedi_job_files SET fsize = 1000000, checksum = '0badcafe', guid = 'bench' "
    "WHERE pandaid = ANY(%(ids)s) AND type IN ('output', 'log')",
    _MOVES[3],
    """
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'finished', proc_status = 'finished',
    fsize = f.fsize, checksum = f.checksum, guid = f.guid
  FROM jedi_job_files f WHERE f.pandaid = ANY(%(ids)s) AND c.fileid = f.fileid
    AND c.datasetid = f.datasetid RETURNING c.datasetid
)
UPDATE jedi_datasets d SET nfilesfinished = nfilesfinished + g.n
FROM (SELECT datasetid, count(*) AS n FROM c GROUP BY datasetid) g WHERE d.datasetid = g.datasetid
""",
)


def _bare(number: int, url: str, tasks: list[int], each: int) -> Work:
    """One process of two, each with every other task: nothing but the statements, durable as
    those of the service and the agents."""
    engine = connect(url, "jedi benchmark")
    plain = psycopg.connect(url.replace("+psycopg", ""), autocommit=True, prepare_threshold=0)
    plain.execute("SET enable_seqscan = off")

    def work() -> None:
        for task_id in tasks[number::2]:
            make_jobs(engine, task_id, each)
            query = "SELECT array_agg(pandaid) FROM jedi_jobs WHERE jeditaskid = %s"
            (ids,) = plain.execute(query, (task_id,)).fetchone() or ([],)
            for first in range(0, len(ids), BULK):
                for statement in _LIFE:
                    plain.execute(statement, {"ids": ids[first : first + BULK]})

    return work
