"""Ranges of events: created as the JobGenerator does; handed out and reported through the
service's functions, against plain UPDATEs of the same rows; many consumers of one job set; the same
beside an open transaction, at its beginning, in its middle and at its end."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, run, seconds, together
from jedi.agent.base import World
from jedi.agent.world import make_world
from jedi.api.memory.range_desk import RangeDesk
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.core.settings import Settings
from jedi.model.jobs.event_wire import ConsumerReports, RangeAsks
from jedi.model.jobs.events import NewRanges
from jedi.service.pilots import event_ranges
from jedi.service.pilots.pilot_requests import Answer
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.events.job_sets import write_ranges
from jedi.taskbuffer.users.users import Identity

RANGES, SMOKE = 1_000_000, 20_000
IN_SET = 1_000
"""Ranges of a job set; it has one consumer."""
CROWD = 1_000
"""Consumers of one job set."""
CLIENTS, THREADS = 4, 10
"""Processes of the service, and requests of a crowd that each has at a time."""
BULK, FEW = 100, 10
REPORT = 1_000
HOLD_S = 120
"""Age of the open transaction at the end; less for fewer ranges."""
BURSTS = 3
MOST_MEMORY = 1.1
WHO = Identity("pilot", "BENCH0", None)


def measure(engine: Engine, ranges: int = RANGES, hold: int | None = None) -> list[Result]:
    """One task: half of its ranges in job sets of a thousand, handed out by a hundred to one
    consumer each, then reported by a thousand; half of them in one job set with a crowd of
    consumers, which ask for ten, first alone and then beside a transaction that is open for `hold`
    seconds."""
    url = engine.url.render_as_string(hide_password=False)
    half = ranges // 2
    sets = max(CLIENTS, half // IN_SET)
    run(engine, *_SITE)

    def fresh() -> None:
        _ranges(engine, [(IN_SET, 1)] * sets + [(half, CROWD)])

    few, many = _memory(engine, ranges // 100), _memory(engine, ranges // 10)
    made, copied = _create(engine, ranges)
    fresh()
    bare = sets * IN_SET / together(CLIENTS, _bare_hand_out, url)
    bare_reports = sets * IN_SET / seconds(lambda: run(engine, _BARE_REPORT))
    fresh()
    given = sets * IN_SET / together(CLIENTS, _hand_out, url)
    _expect(engine, "status = 1", sets * IN_SET)
    reported = sets * IN_SET / together(CLIENTS, _report, url)
    _expect(engine, "status = 3", sets * IN_SET)
    calls = half // FEW // (1 + BURSTS) // CLIENTS * 9 // 10  # the last would find others' locks

    def burst(part: int) -> float:
        """Calls a second of the crowd, by new processes."""
        return CLIENTS * calls / together(CLIENTS, _crowd, url, part, calls)

    alone = burst(0)
    beside = _beside(engine, burst, HOLD_S * ranges / RANGES if hold is None else hold)
    _expect(engine, "status = 1", (1 + BURSTS) * CLIENTS * calls * FEW)
    return [
        Result(
            f"memory: {ranges // 100:,} ranges, floor: {ranges // 10:,}",
            "MB",
            few,
            many,
            1 / MOST_MEMORY,
        ),
        Result(f"{ranges:,} ranges created, floor: COPY", "ranges/s", made, copied, 0.5),
        Result(
            f"{sets * IN_SET:,} ranges handed out, by {BULK}", "ranges/s", given, bare, least=20_000
        ),
        Result(
            f"{sets * IN_SET:,} ranges reported, by {REPORT:,}",
            "ranges/s",
            reported,
            bare_reports,
            least=20_000,
        ),
        Result(f"{CROWD:,} consumers of one job set, by {FEW}", "calls/s", alone, least=2_000),
        *(
            Result(
                f"beside a transaction of {age:.0f} s, floor: alone",
                "calls/s",
                rate,
                alone,
                0.8,
                least=2_000,
            )
            for age, rate in beside
        ),
    ]


def _beside(
    engine: Engine, burst: Callable[[int], float], hold: float
) -> list[tuple[float, float]]:
    """Bursts beside a transaction that keeps everything from being vacuumed: its age, and
    calls a second."""
    found = []
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as old:
        old.execute(text("SELECT 1"))
        begin = clock.monotonic()
        for number in range(BURSTS):
            time.sleep(max(0.0, begin + hold * number / (BURSTS - 1) - clock.monotonic()))
            age = clock.monotonic() - begin
            found.append((age, burst(1 + number)))
            old.execute(text("SELECT 1"))  # an idle one would be ended
    return found


_SITE = (
    "INSERT INTO jedi_sites (site, lastpilot) VALUES ('BENCH0', jedi_now())",
    "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, path) VALUES ('BENCH_DATADISK', '/nowhere')",
    "INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES ('BENCH0', 'BENCH_DATADISK')",
)
_CLEAR = "TRUNCATE jedi_tasks, jedi_jobs, jedi_consumers, jedi_events, jedi_dataset_contents"
_SETS = text("""
WITH s AS (
  SELECT n, ranges, consumers, nextval('jedi_panda_id_seq') AS jobset,
    nextval('jedi_file_id_seq') AS file
  FROM unnest(CAST(:ranges AS int[]), CAST(:consumers AS int[])) WITH ORDINALITY
    s(ranges, consumers, n)
), f AS (
  INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, status)
  SELECT file, 1, 1, 'in' || n, 'input', 'running' FROM s
), j AS (
  INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status,
    kind, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb)
  SELECT nextval('jedi_panda_id_seq'), 1, 1, jobset, n, 1, 'activated', 'consumer', 'BENCH0', '',
    1, 1, 0, 600, 0
  FROM s, generate_series(1, s.consumers) RETURNING pandaid, originpandaid
), c AS (
  INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number)
  SELECT pandaid, 1, originpandaid, 'consumer', 1 FROM j
)
INSERT INTO jedi_events (jeditaskid, datasetid, fileid, status, pandaid, job_processid,
  def_min_eventid, def_max_eventid, attemptnr, jobsetid)
SELECT 1, 1, file, 0, jobset, g, g - 1, g - 1, 10, jobset
FROM s, generate_series(1, s.ranges) g
""")


def _ranges(engine: Engine, sets: Sequence[tuple[int, int]]) -> None:
    """Job sets of one file, each with so many ranges and consumers, whose jobs were sent."""
    run(engine, _CLEAR)
    with engine.begin() as tx:
        ranges, consumers = map(list, zip(*sets, strict=True))
        tx.execute(_SETS, {"ranges": ranges, "consumers": consumers})
        tx.execute(text("UPDATE jedi_jobs SET status = 'sent', lock_seq = 1"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE jedi_events, jedi_jobs, jedi_consumers"))


_COLUMNS = (
    "jeditaskid, datasetid, fileid, status, pandaid, job_processid, def_min_eventid, "
    "def_max_eventid, attemptnr, event_offset, jobsetid"
)


def _create(engine: Engine, ranges: int) -> tuple[float, float]:
    """Ranges a second as the JobGenerator writes them, and by COPY of the same rows."""
    sets = max(1, ranges // IN_SET)
    ids = np.arange(1, sets + 1)
    nothing = np.zeros(sets, np.int64)
    new = NewRanges(ids, ids, nothing + 1, nothing, nothing + IN_SET - 1, nothing, 1, 10)

    def write() -> None:
        with engine.begin() as tx:
            write_ranges(tx, 1, new)

    def copy() -> None:
        into = f"COPY jedi_events ({_COLUMNS}) FROM STDIN"
        with psycopg.connect(url) as connection, connection.cursor().copy(into) as stream:
            for line in lines:
                stream.write(line)

    run(engine, _CLEAR)
    made = sets * IN_SET / seconds(write)
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    out = f"COPY jedi_events ({_COLUMNS}) TO STDOUT"
    with psycopg.connect(url) as connection, connection.cursor().copy(out) as stream:
        lines = list(map(bytes, stream))
    run(engine, _CLEAR)
    return made, sets * IN_SET / seconds(copy)


def _memory(engine: Engine, ranges: int) -> float:
    """MB that a new process takes at most which creates so many ranges, hands them out and takes
    their reports."""
    run(engine, _CLEAR)
    sets = max(1, ranges // IN_SET)
    with engine.begin() as tx:
        tx.execute(_SETS, {"ranges": [0] * sets, "consumers": [1] * sets})
        tx.execute(text("UPDATE jedi_jobs SET status = 'sent', lock_seq = 1"))
    url = engine.url.render_as_string(hide_password=False)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_lives_of_ranges, url).result()


_FILES = text("""
SELECT j.originpandaid, c.fileid
FROM (SELECT DISTINCT originpandaid, unit_nr FROM jedi_jobs) j
  JOIN jedi_dataset_contents c ON c.lfn = 'in' || j.unit_nr ORDER BY 1
""")


def _lives_of_ranges(url: str) -> float:
    service = _Service(0, url, crowd=False, clients=1)
    with service.world.engine.begin() as tx:
        jobsets, files = (np.array(one) for one in zip(*tx.execute(_FILES), strict=True))
        zero = np.zeros(len(jobsets), np.int64)
        last = zero + IN_SET - 1
        write_ranges(tx, 1, NewRanges(jobsets, files, zero + 1, zero, last, zero, 1, 10))
    for panda_id in service.consumers:
        for turn in range(IN_SET // BULK):
            ranges = service.ask(panda_id, BULK, str(turn))
            service.report(panda_id, [_finished(one["id"]) for one in ranges])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _expect(engine: Engine, condition: str, n: int) -> None:
    with engine.begin() as tx:
        found = tx.scalar(text(f"SELECT count(*) FROM jedi_events WHERE {condition}"))
    if found != n:
        raise JediError(f"{found} ranges instead of {n}.", code="benchmark_failed")


_CONSUMERS = text("""
SELECT pandaid FROM jedi_consumers WHERE (jobsetid IN (
    SELECT jobsetid FROM jedi_consumers GROUP BY jobsetid HAVING count(*) > 1)) = :crowd
  AND pandaid % :clients = :number ORDER BY pandaid
""")


class _Service:
    """A process of the service, with a part of the consumers."""

    def __init__(self, number: int, url: str, crowd: bool, clients: int = CLIENTS) -> None:
        self.world: World = make_world(Settings(Path(), url), "benchmark")
        self.memory = ConsumerMemory()
        self.desk = RangeDesk(self.world.engine, self.memory)
        with self.world.engine.begin() as tx:
            given = {"clients": clients, "number": number, "crowd": crowd}
            self.consumers = list(tx.scalars(_CONSUMERS, given))

    def ask(self, panda_id: int, n: int, request: str) -> list[Answer]:
        asks = [{"panda_id": panda_id, "lock_seq": 1, "n": n}]
        asked = RangeAsks.model_validate({"request_id": request, "asks": asks})
        ranges: list[Answer] = self.desk.acquire(WHO, asked)["answers"][0]["ranges"]
        if len(ranges) != n:
            raise JediError(f"{len(ranges)} ranges instead of {n}.", code="benchmark_failed")
        return ranges

    def report(self, panda_id: int, entries: Sequence[dict[str, str]]) -> None:
        one = {"panda_id": panda_id, "lock_seq": 1, "ranges": entries}
        read = ConsumerReports.model_validate({"reports": [one]})
        with self.world.engine.begin() as tx:
            (answer,) = event_ranges.report(tx, WHO, read.reports, self.memory)["answers"]
        if answer["accepted"] != len(entries):
            raise JediError(f"{answer} at a report.", code="benchmark_failed")


def _hand_out(number: int, url: str) -> Work:
    service = _Service(number, url, crowd=False)

    def work() -> None:
        for turn in range(IN_SET // BULK):
            for panda_id in service.consumers:
                service.ask(panda_id, BULK, str(turn))

    return work


_HELD = text("""
SELECT concat_ws('-', jeditaskid, pandaid, fileid, job_processid, attemptnr) FROM jedi_events
WHERE jeditaskid = 1 AND pandaid = :job
""")


def _report(number: int, url: str) -> Work:
    service = _Service(number, url, crowd=False)
    with service.world.engine.begin() as tx:
        reports = [
            (panda_id, [_finished(one) for one in tx.scalars(_HELD, {"job": panda_id})])
            for panda_id in service.consumers
        ]

    def work() -> None:
        for panda_id, entries in reports:
            service.report(panda_id, entries)

    return work


def _finished(range_id: str) -> dict[str, str]:
    return {"id": range_id, "status": "finished", "endpoint": "BENCH_DATADISK"}


def _crowd(number: int, url: str, part: int, calls: int) -> Work:
    service = _Service(number, url, crowd=True)
    jobs = service.consumers

    def consume(thread: int) -> None:
        for i in range(thread, calls, THREADS):
            service.ask(jobs[i % len(jobs)], FEW, f"{part}.{i}")

    def work() -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(consume, range(THREADS)))

    return work


_BARE_HAND_OUT = """
UPDATE jedi_events SET status = 1, pandaid = %s WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM jedi_events WHERE ready AND jeditaskid = 1 AND jobsetid = %s
  ORDER BY jeditaskid, jobsetid, fileid, job_processid LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING fileid, job_processid, attemptnr
"""
_BARE_REPORT = "UPDATE jedi_events SET status = 3 WHERE status = 1"


def _bare_hand_out(number: int, url: str) -> Work:
    """The same ranges to the same consumers."""
    service = _Service(number, url, crowd=False)
    with service.world.engine.begin() as tx:
        known = service.memory.consumers(tx, service.consumers)
    jobsets = [(one.panda_id, one.jobset_id) for one in known.values()]
    connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True, prepare_threshold=0)
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET enable_seqscan = off")

    def work() -> None:
        for _ in range(IN_SET // BULK):
            for pair in jobsets:
                connection.execute(_BARE_HAND_OUT, (*pair, BULK)).fetchall()

    return work
