"""The whole system beside a transaction that holds an old snapshot, so that nothing that is
deleted or updated can be vacuumed: what each stage does in every stretch of ten seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from time import sleep

from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, together
from benchmarks.jobs_world import fed_task, place
from benchmarks.life import serve, verify
from benchmarks.stages import IDLE_S, Service, add, adder_of, world_of
from jedi.agent.base import World
from jedi.core import clock
from jedi.jobgenerator.agent import JobGenerator

HOLD_S, SMOKE = 120, 10
WINDOW_S = 10
SITES, SHARES = 20, 5
LEAST = 1_000
TASK = 1_250
"""Jobs of a task. One task a second is fed and generated."""


def measure(engine: Engine, hold: int = HOLD_S) -> list[Result]:
    """Tasks are fed, generated, dispatched, run and ended in three processes for `hold` seconds:
    the worst window of each stage. Fewer seconds than HOLD_S are a trial, without a goal."""
    place(engine, SITES, SHARES)
    url = engine.url.render_as_string(hide_password=False)
    with _old_snapshot(engine):
        together(3, _process, url, hold)
        worst = _worst(engine, hold // WINDOW_S)
        dead = _dead(engine)
    verify(engine, hold * TASK)
    note = f"worst of {hold // WINDOW_S} windows; {dead:,} dead rows in the queue"
    least = LEAST if hold >= HOLD_S else None
    return [
        Result(f"{stage} in {WINDOW_S} s", "jobs/s", rate, note=note, least=least)
        for stage, rate in worst.items()
    ]


@contextmanager
def _old_snapshot(engine: Engine) -> Iterator[None]:
    """A transaction that sees the database as it was, all the time."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as tx:
        tx.execute(text("SET idle_in_transaction_session_timeout = 0"))
        tx.execute(text("SELECT count(*) FROM jedi_jobs"))
        yield


def _process(number: int, url: str, hold: int) -> Work:
    """One of three, as in life: feeder and generator, the service, the Adder."""
    if number == 0:
        world = world_of(url, TASK)
        return lambda: _feed(world, hold)
    if number == 1:
        service = Service(url)
        return lambda: _serve(service, hold * TASK)
    adder = adder_of(url)
    return lambda: add(adder, hold * TASK)


def _feed(world: World, tasks: int) -> None:
    """A task each second, or as soon as can be."""
    generator, begin = JobGenerator(world), clock.monotonic()
    for due in range(tasks):
        sleep(max(0.0, begin + due - clock.monotonic()))
        fed_task(world.engine, world, 1, 1 + due % SHARES)
        generator.run_once()


def _serve(service: Service, jobs: int) -> None:
    """Site after site, until all jobs were there."""
    idle = 0
    for where in cycle(range(SITES)):
        served = serve(service, where)
        jobs -= served
        if jobs <= 0:
            return
        idle = 0 if served else idle + 1
        if idle >= SITES:
            sleep(IDLE_S)


_STAGES = {"activated": "generate", "sent": "dispatch", "finished": "end"}
_SEEN = """
WITH seen(stage, at) AS (
  SELECT 'feed', creationdate FROM jedi_dataset_contents WHERE type = 'input'
  UNION ALL
  SELECT status, modificationtime FROM jedi_jobs_statuslog
)
SELECT stage, CAST(div(extract(epoch FROM at - (SELECT min(at) FROM seen)), :window) AS int),
  count(*)
FROM seen GROUP BY 1, 2
"""


def _worst(engine: Engine, windows: int) -> dict[str, float]:
    """The least rate of each stage in one of the windows."""
    with engine.begin() as tx:
        rows = tx.execute(text(_SEEN), {"window": WINDOW_S}).all()
    found = {(_STAGES.get(stage, stage), window): jobs for stage, window, jobs in rows}
    return {
        stage: min(found.get((stage, window), 0) for window in range(windows)) / WINDOW_S
        for stage in ("feed", *_STAGES.values())
    }


def _dead(engine: Engine) -> int:
    """Rows that nobody may clear away."""
    with engine.begin() as tx:
        query = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'jedi_job_ready'"
        return int(tx.scalar(text(query)) or 0)
