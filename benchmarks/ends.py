"""How jobs end: reports, files, datasets, logs and retries, by the real doors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from time import sleep
from typing import Any

from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, medians, seconds, statements, together
from benchmarks.jobs_world import Shape, activated_jobs, place, site
from benchmarks.stages import IDLE_S, Order, Service, adder_of, process_of, world_of
from jedi.agent.base import Agent
from jedi.core.errors import JediError
from jedi.jobdispatcher.agent import Adder
from jedi.jobgenerator.agent import JobGenerator
from jedi.service.system.check import check
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd

PANDA = 39.5  # jobs/s, PanDA's own Adder on PostgreSQL 15: 109 statements a job
JOBS, SMOKE = 10_000, 200
SITES, TASKS = 20, 20
CLIENTS = 4
SERVICES = 2
"""Processes of the service, beside an Adder and a JobGenerator."""

REPEATS = 3
BULK = 500
WAITING = 16
"""Pilots that report at the same moment."""

FAILING = 20


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """Jobs of three files in 20 tasks, of which one in twenty fails and is tried again. In bulk: on
    one process, one thing after another, also ten times as many; and at once, as the service and
    the agents do it. One by one: alone, and with the reports of other pilots that wait, as the
    service takes them."""
    place(engine, SITES, 5)
    url = engine.url.render_as_string(hide_password=False)
    counted: list[float] = []

    def bulk(n: int) -> float:
        """Seconds until all have ended; notes the number of statements a job."""
        reports, service = _running(engine, url, n), Service(url)
        agents = adder_of(url), JobGenerator(world_of(url))
        engines = [one.world.engine for one in (service, *agents)]
        with ExitStack() as stack:
            seen = [stack.enter_context(statements(one)) for one in engines]
            took = seconds(lambda: _end_in_bulk(service, reports, agents))
        counted.append(sum(map(len, seen)) / n)
        _verify(engine, n, retried=True)
        return took

    def at_once(n: int, of: int) -> float:
        """Seconds a job, with the system's processes beside each other."""
        _running(engine, url, n)
        took = together(2 + SERVICES, _process, url, n, of)
        _verify(engine, n, retried=True)
        return took / n

    def singly() -> float:
        _running(engine, url, jobs)
        took = together(CLIENTS, _client, url)
        _verify(engine, jobs)
        return took

    def floor() -> float:
        _running(engine, url, jobs)
        return seconds(lambda: _bare(engine))

    took = medians(
        {
            "floor": floor,
            "bulk": lambda: bulk(jobs),
            "singly": singly,
            "bulk at once": lambda: at_once(10 * jobs, BULK) * jobs,
            "singly at once": lambda: at_once(jobs, 1) * jobs,
        },
        REPEATS if jobs == JOBS else 1,
    )
    rate = {name: jobs / value for name, value in took.items()}
    many = 10 * jobs / bulk(10 * jobs)
    cost = [f"{number:.3f} statements a job" for number in counted]
    return [
        Result(
            f"end {jobs:,} jobs, by {BULK}",
            "jobs/s",
            rate["bulk"],
            rate["floor"],
            None,
            PANDA,
            cost[0],
            5_000,
        ),
        Result(
            f"end {10 * jobs:,} jobs, floor: {jobs:,}",
            "jobs/s",
            many,
            rate["bulk"],
            0.8,
            PANDA,
            cost[-1],
        ),
        Result(
            f"end {10 * jobs:,} jobs, by {BULK}, at once",
            "jobs/s",
            rate["bulk at once"],
            rate["floor"],
            None,
            PANDA,
            "service and agents beside each other",
            8_000,
        ),
        Result(
            f"end {jobs:,} jobs, one by one",
            "jobs/s",
            rate["singly at once"],
            rate["floor"],
            None,
            PANDA,
            f"{WAITING} pilots report at a time",
            1_000,
        ),
        Result(
            f"end {jobs:,} jobs, one by one, alone",
            "jobs/s",
            rate["singly"],
            rate["floor"],
            None,
            PANDA,
            f"{CLIENTS} clients",
            500,
        ),
    ]


def _running(engine: Engine, url: str, jobs: int) -> list[list[Order]]:
    """A world of running jobs, in reports' portions: each of one site."""
    activated_jobs(engine, Shape(jobs, sites=SITES, tasks=TASKS))
    service = Service(url)
    portions = []
    for number in range(SITES):
        while orders := service.acquire(site(number), BULK):
            service.start(orders)
            portions.append(orders)
    service.world.engine.dispose()
    return portions


def _end_in_bulk(
    service: Service, portions: Sequence[Sequence[Order]], agents: Sequence[Agent[Any, Any]]
) -> None:
    """Reports, what the Adder makes of them, and new jobs for those that failed."""
    for orders in portions:
        service.finish(orders, FAILING)
    for agent in agents:
        while agent.run_once():
            pass


def _process(number: int, url: str, jobs: int, of: int) -> Work:
    """A process of the system; each pilot reports `of` jobs."""

    def serve(service: Service) -> Work:
        orders = _orders(service, SERVICES, number - 2)
        return lambda: _report(service, orders, of)

    return process_of(number, url, jobs, _try_again, serve)


_FAILING = text(f"""SELECT (SELECT count(*) FROM jedi_jobs WHERE pandaid % {FAILING} = 0
  AND attemptnr = 1) > (SELECT count(*) FROM jedi_job_retry_history)""")


def _try_again(generator: JobGenerator) -> None:
    """Until each failed job has a successor."""
    more = True
    while more:
        if not generator.run_once():
            sleep(IDLE_S)
        with generator.world.engine.begin() as tx:
            more = bool(tx.scalar(_FAILING))


def _report(service: Service, orders: Sequence[Order], of: int) -> None:
    """In bulk, by site; or one by one, in no order."""
    if of == 1:
        for i in range(0, len(orders), WAITING):
            service.finish_each(orders[i : i + WAITING], FAILING)
        return
    sites: dict[str, list[Order]] = defaultdict(list)
    for order in orders:
        sites[order["site"]].append(order)
    for here in sites.values():
        for i in range(0, len(here), of):
            service.finish(here[i : i + of], FAILING)


def _orders(service: Service, clients: int, number: int) -> list[Order]:
    """A client's share of the running jobs, in no order."""
    with service.world.engine.begin() as tx:
        given = {"clients": clients, "number": number}
        return [dict(row._mapping) for row in tx.execute(text(_OURS), given)]


def _client(number: int, url: str) -> Work:
    """One by one, in no order: a report, and the end of its job, in a transaction each."""
    service, world = Service(url), adder_of(url).world
    orders = _orders(service, CLIENTS, number)

    def work() -> None:
        for order in orders:
            service.finish([order], FAILING)
            failed = order["pandaid"] % FAILING == 0
            end = JobEnd(order["pandaid"], "failed" if failed else "finished", "bench", "bench")
            with world.engine.begin() as tx:
                job_ends.end_jobs(tx, [end], Adder.name, ["holding"])

    return work


_OURS = """
SELECT j.pandaid, j.lock_seq, j.site, (SELECT f.lfn FROM jedi_job_files f
    WHERE f.pandaid = j.pandaid AND f.type = 'log') AS log_lfn,
  (SELECT json_agg(json_build_object('lfn', f.lfn)) FROM jedi_job_files f
    WHERE f.pandaid = j.pandaid AND f.type = 'output') AS outputs
FROM jedi_jobs j WHERE j.status = 'running' AND j.pandaid % :clients = :number
ORDER BY hashint8(j.pandaid)
"""

_BARE = (
    """
UPDATE jedi_job_files f SET fsize = 1000000, checksum = '0badcafe', guid = 'x'
FROM unnest(CAST(:ids AS bigint[])) i(id) WHERE f.pandaid = i.id AND f.type IN ('output', 'log')""",
    """
WITH u AS (
  UPDATE jedi_jobs j SET status = 'finished', statechangetime = jedi_now(), endtime = jedi_now(),
    postprocessed_at = jedi_now(), pilot_result = 'finished'
  FROM unnest(CAST(:ids AS bigint[])) i(id) WHERE j.pandaid = i.id
  RETURNING j.pandaid, j.jeditaskid
)
INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, fromstatus, status, agent, reason_code)
SELECT pandaid, jeditaskid, 'running', 'finished', 'Adder', 'job_finished' FROM u""",
    """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'finished', proc_status = 'finished',
    fsize = f.fsize, checksum = f.checksum, guid = f.guid
  FROM jedi_job_files f WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND c.fileid = f.fileid
    AND c.jeditaskid = f.jeditaskid RETURNING c.datasetid
)
UPDATE jedi_datasets d SET nfilesfinished = d.nfilesfinished + g.n
FROM (SELECT datasetid, count(*) AS n FROM u GROUP BY 1) g WHERE d.datasetid = g.datasetid""",
)


def _bare(engine: Engine) -> None:
    """All of them finish, and nothing else is written than their rows, once each."""
    with engine.begin() as tx:
        ids = tx.scalars(text("SELECT pandaid FROM jedi_jobs ORDER BY pandaid")).all()
    for i in range(0, len(ids), BULK):
        with engine.begin() as tx:
            tx.execute(text("SET LOCAL session_replication_role = replica"))  # no such move
            for statement in _BARE:
                tx.execute(text(statement), {"ids": list(ids[i : i + BULK])})


def _verify(engine: Engine, jobs: int, *, retried: bool = False) -> None:
    """All have ended, one of so many without success; the records agree."""
    with engine.begin() as tx:
        rows = tx.execute(text("SELECT status, count(*) AS n FROM jedi_jobs GROUP BY 1"))
        found = {row.status: row.n for row in rows}
        history = tx.scalar(text("SELECT count(*) FROM jedi_job_retry_history"))
        wrong = [finding for finding in check(tx) if finding.violations]
    failed = found.get("failed", 0)
    ended = found.get("finished", 0) + failed == jobs and abs(failed * FAILING - jobs) < FAILING
    if wrong or not ended or history != (failed if retried else 0):
        raise JediError(f"{found}, {history} retries, {wrong}", code="benchmark_failed")
