"""Dispatch and the ends of jobs beside a large archive, against the same without one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, run, seconds, together
from benchmarks.jobs_world import Shape, more_jobs, place, site
from benchmarks.stages import Order, Service, adder_of
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.schema import migrate

JOBS, SMOKE = 100_000, 4_000
SITES = 20
CLIENTS = 4
BULK = 100
REPEATS = 5
KEPT = 0.85
PER_TASK = 1_000


def measure(engine: Engine, jobs: int = JOBS, archived: int = 0) -> list[Result]:
    """So many jobs wait in each of two databases of one server, and beside those of the second one
    lies an archive, of ten times as many if it isn't said. In each run 12 % of them are dispatched
    and end, by turns in the one and in the other database."""
    archived = archived or 10 * jobs
    with _another(engine) as second:
        fill(second, jobs, archived)
        fill(engine, jobs, 0)
        rates: dict[tuple[str, Engine], list[float]] = defaultdict(list)
        for repeat in range(REPEATS if jobs == JOBS else 1):
            for one in (engine, second)[:: -1 if repeat % 2 else 1]:
                for stage, rate in _stages(one, jobs):
                    rates[stage, one].append(rate)
        return [
            Result(
                f"{stage} beside {archived:,} archived jobs",
                "jobs/s",
                median(found),
                median(rates[stage, engine]),
                KEPT if jobs == JOBS else None,
            )
            for (stage, one), found in rates.items()
            if one is second
        ]


@contextmanager
def _another(engine: Engine) -> Iterator[Engine]:
    """A second database of the same server."""
    run_alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with run_alone.connect() as connection:
        connection.execute(text("CREATE DATABASE second"))
    second = connect(_url(engine, "second"), "jedi benchmark")
    migrate.upgrade(second)
    yield second
    second.dispose()


def _url(engine: Engine, database: str | None = None) -> str:
    url = engine.url.set(database=database) if database else engine.url
    return url.render_as_string(hide_password=False)


# ------------------------------------------------------------------------------------- archive

_FILE = """
{table} (fileid, pandaid, {more} datasetid, jeditaskid, lfn, type, fsize, checksum, guid)
SELECT 3 * g + k, g, {values} 3 * (:first + g / :each) + k, :first + g / :each,
  t.type || '.' || lpad(g::text, 8, '0'), t.type, 1000000, '0badcafe', 'guid' || g
FROM generate_series(1, :archived) g,
  unnest(ARRAY['input', 'output', 'log']) WITH ORDINALITY t(type, k)
"""
_FILL = (
    """
INSERT INTO jedi_tasks (jeditaskid, reqid, status, vo, prodsourcelabel, processingtype,
  currentpriority, workqueue_id, gshare, resource_type)
SELECT :first + n, :first + n, 'done', 'local', 'user', 'generic', 1000, 1, 'share1', 'SCORE'
FROM generate_series(0, :archived / :each) n""",
    """
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nfiles,
  nfilestobeused, nfilesused, nfilesfinished)
SELECT 3 * (:first + n) + k, :first + n, 'bench:old.' || t.type, t.type, 'done', :each, :each,
  :each, :each
FROM generate_series(0, :archived / :each) n,
  unnest(ARRAY['input', 'output', 'log']) WITH ORDINALITY t(type, k)""",
    """
INSERT INTO jedi_jobs_archived (pandaid, originpandaid, jeditaskid, taskid, unit_nr, attemptnr,
  status, prodsourcelabel, processingtype, username, vo, site, workqueue_id, gshare, resource_type,
  priority, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events, pilot_result, exit_code,
  starttime, endtime, postprocessed_at, lock_seq)
SELECT g, g, :first + g / :each, :first + g / :each, g % :each + 1, 1, 'finished', 'user',
  'generic', 'me', 'local', 'BENCH' || g % :sites, 1, 'share1', 'SCORE', 1000, 1, 0, 0, 9537, 1,
  1000, 'finished', 0, jedi_now(), jedi_now(), jedi_now(), 1
FROM generate_series(1, :archived) g""",
    "INSERT INTO " + _FILE.format(table="jedi_job_files_archived", more="", values=""),
    "INSERT INTO "
    + _FILE.format(
        table="jedi_dataset_contents",
        more="outpandaid, status, proc_status, attemptnr, keeptrack,",
        values="g, 'finished', 'finished', 1, 1,",
    ),
    """
INSERT INTO jedi_job_params (pandaid, jobparameters)
SELECT g, repeat('data.' || g || ' ', 10) FROM generate_series(1, :archived) g""",
    """
INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code, reason)
SELECT g, :first + g / :each, s, 'bench', 'bench', 'What is said of a job when it moves.'
FROM generate_series(1, :archived) g,
  unnest(ARRAY['activated', 'sent', 'running', 'holding', 'finished']) s""",
)


def fill(engine: Engine, jobs: int, archived: int) -> None:
    """Jobs in the archive with all that stays of them, three files each, their contents, parameters
    and logs; then a world of activated ones, which are younger."""
    place(engine, SITES, 5)
    run(
        engine,
        f"SELECT setval('jedi_panda_id_seq', {archived + 1})",
        f"SELECT setval('jedi_file_id_seq', {3 * (archived + 1)})",
    )
    if archived:
        values = {"archived": archived, "each": PER_TASK, "sites": SITES, "first": 1_000_000}
        with engine.begin() as tx:
            for statement in _FILL:
                tx.execute(text(statement), values)
        run(engine, "ANALYZE")
    more_jobs(engine, Shape(jobs, sites=SITES))
    run(engine, "ANALYZE")
    run(engine, "CHECKPOINT")


# ---------------------------------------------------------------------------------------- runs


def _stages(engine: Engine, jobs: int) -> Iterator[tuple[str, float]]:
    """Dispatch 2 % one by one and 10 % in bulk, and let them end, 2 % one by one; jobs/s."""
    url = _url(engine)
    singles, bulks = jobs // 50 // CLIENTS, jobs // 10 // CLIENTS // BULK
    for name, n, times in (("one by one", 1, singles), (f"by {BULK}", BULK, bulks)):
        before = _waiting(engine)
        took = together(CLIENTS, _take, url, n, times)
        yield f"dispatch {name}", (before - _waiting(engine)) / took
    took = together(CLIENTS, _end_singly, url, singles)
    yield "end one by one", CLIENTS * singles / took
    orders = _sent(engine)
    took = seconds(_end_all(url, orders))
    yield f"end, reported by {BULK}", len(orders) / took


def _take(number: int, url: str, n: int, times: int) -> Work:
    """Pilots of any site, so often."""
    service, choose = Service(url), random.Random(number)

    def work() -> None:
        for _ in range(times):
            service.acquire(site(choose.randrange(SITES)), n)

    return work


def _waiting(engine: Engine) -> int:
    with engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) or 0)


_SENT = """
SELECT j.pandaid, j.lock_seq, j.site,
  (SELECT lfn FROM jedi_job_files f WHERE f.pandaid = j.pandaid AND type = 'log') AS log_lfn,
  (SELECT json_agg(json_build_object('lfn', lfn)) FROM jedi_job_files f
   WHERE f.pandaid = j.pandaid AND type = 'output') AS outputs
FROM jedi_jobs j WHERE status = 'sent' AND pandaid % :clients = :number ORDER BY site, pandaid
"""


def _sent(engine: Engine, clients: int = 1, number: int = 0) -> list[Order]:
    """The jobs that pilots have: those of one client."""
    with engine.begin() as tx:
        rows = tx.execute(text(_SENT), {"clients": clients, "number": number})
        return [dict(row._mapping) for row in rows]


def _end_singly(number: int, url: str, times: int) -> Work:
    """One report, and one job's end, in a transaction each."""
    service, engine = Service(url), connect(url, "jedi benchmark")
    orders = _sent(engine, CLIENTS, number)[:times]

    def work() -> None:
        for order in orders:
            service.finish([order])
            with engine.begin() as tx:
                end = JobEnd(order["pandaid"], "finished", "job_finished", "", order["lock_seq"])
                job_ends.end_jobs(tx, [end], Adder.name)

    return work


def _end_all(url: str, orders: list[Order]) -> Work:
    """Reports in bulk, and the Adder."""
    service, adder = Service(url), adder_of(url)
    by_site: dict[str, list[Order]] = defaultdict(list)
    for order in orders:
        by_site[order["site"]].append(order)

    def work() -> None:
        for there in by_site.values():
            for first in range(0, len(there), BULK):
                service.finish(there[first : first + BULK])
        while adder.run_once():
            pass

    return work
