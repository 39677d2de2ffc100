"""Dispatch through the service function, against a plain claim from the queue of ready jobs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
from sqlalchemy import Engine, text

from benchmarks.common import Result, Work, medians, statements, together
from benchmarks.jobs_world import Shape, activated_jobs, place, site
from jedi.agent.base import World
from jedi.agent.world import make_world
from jedi.core.errors import JediError
from jedi.core.settings import Settings
from jedi.model.jobs.wire import AcquireRequest, Resources
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.users.users import Identity

PANDA = 167.0  # jobs/s with 1,000 waiting, 57 with 10,000; PanDA's own code on PostgreSQL 15
JOBS, SMOKE = 100_000, 4_000
CLIENTS = 4
WAITING = 16
"""Pilots that wait at the same moment."""

REPEATS = 3
BULK = 100
SLOT = Resources(cores=1, memory_mb=2000, walltime_s=86_400, disk_mb=20_000)
Take = Callable[[str, int], int]


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """So many jobs over 20 sites, 5 shares and 50 priorities; four processes are handed two
    fifths of them one at a time, and a fifth in hundreds. One at a time: alone, and with the
    requests of other pilots that wait, as the service answers them."""
    place(engine, 20, 5)
    url = engine.url.render_as_string(hide_password=False)

    def rate(client: Callable[..., Work], n: int, share: float) -> float:
        """Seconds a job, all jobs waiting at first."""
        activated_jobs(engine, Shape(jobs))
        times = int(jobs * share) // n // CLIENTS
        took = together(CLIENTS, client, url, n, times)
        gone = jobs - _waiting(engine)
        if gone != CLIENTS * times * n:
            raise JediError(f"{gone} jobs were handed out.", code="benchmark_failed")
        return took / gone

    took = medians(
        {
            "floor": lambda: rate(_plain, 1, 0.4),
            "ours": lambda: rate(_ours, 1, 0.4),
            "ours together": lambda: rate(_ours_together, 1, 0.4),
            "floor in bulk": lambda: rate(_plain, BULK, 0.2),
            "ours in bulk": lambda: rate(_ours, BULK, 0.2),
        },
        REPEATS if jobs == JOBS else 1,
    )
    return [
        Result(
            f"dispatch of {jobs:,}, one by one",
            "jobs/s",
            1 / took["ours together"],
            1 / took["floor"],
            0.5,
            PANDA,
            f"{WAITING} pilots wait at a time",
            3_500,
        ),
        Result(
            f"dispatch of {jobs:,}, one by one, alone",
            "jobs/s",
            1 / took["ours"],
            1 / took["floor"],
            None,
            PANDA,
            _statements(url, 1),
        ),
        Result(
            f"dispatch of {jobs:,}, by {BULK}",
            "jobs/s",
            1 / took["ours in bulk"],
            1 / took["floor in bulk"],
            None,
            PANDA,
            _statements(url, BULK),
            30_000,
        ),
    ]


def _ours(number: int, url: str, n: int, times: int) -> Work:
    """A process of the service, and the pilots that it answers."""
    world, first_waiting = _service(url), DispatchCache()
    return lambda: _at_sites(
        number, times, n, lambda name, i: _acquire(world, first_waiting, name, n, number, i)
    )


def _ours_together(number: int, url: str, n: int, times: int) -> Work:
    """The same for pilots that wait at the same moment, at any sites."""
    world, first_waiting = _service(url), DispatchCache()
    choose = random.Random(number)

    def take() -> None:
        for first in range(0, times, WAITING):
            requests = [
                _request(site(choose.randrange(20)), n, number, i)
                for i in range(first, min(first + WAITING, times))
            ]
            given = pilot_requests.take_all(
                world.engine, world.ddm, world.knobs, requests, first_waiting=first_waiting
            )
            if [len(orders) for orders in given] != [n] * len(requests):
                raise JediError("There was no job.", code="benchmark_failed")

    return take


def _service(url: str) -> World:
    world = make_world(Settings(Path(), url), "benchmark")
    world.refresh()
    world.engine.connect().close()
    return world


def _acquire(
    world: World, first_waiting: DispatchCache, name: str, n: int, number: int, i: int
) -> int:
    who = Identity("pilot", name, None)
    request = _request(name, n, number, i)
    answer = pilot_requests.acquire(
        world.engine, world.ddm, world.knobs, who, request, first_waiting=first_waiting
    )
    return len(answer["jobs"])


def _request(name: str, n: int, number: int, i: int) -> AcquireRequest:
    return AcquireRequest(
        request_id=f"{number}.{i}", pilot_id=f"pilot{number}", site=name, n=n, resources=SLOT
    )


_CLAIM = """
DELETE FROM jedi_job_ready WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM jedi_job_ready WHERE site = %s
  ORDER BY site, gshare, priority DESC, pandaid LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING pandaid
"""


def _plain(number: int, url: str, n: int, times: int) -> Work:
    """Nothing but ids, in the order of the index."""
    connection = psycopg.connect(url.replace("+psycopg", ""), autocommit=True, prepare_threshold=0)
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET enable_seqscan = off")
    return lambda: _at_sites(
        number, times, n, lambda name, _: len(connection.execute(_CLAIM, (name, n)).fetchall())
    )


def _at_sites(number: int, times: int, n: int, take: Take) -> None:
    """Take `n` jobs so often, each time at any site."""
    choose = random.Random(number)
    for i in range(times):
        got = take(site(choose.randrange(20)), i)
        if got != n:
            raise JediError(f"{got} jobs instead of {n}.", code="benchmark_failed")


def _waiting(engine: Engine) -> int:
    with engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) or 0)


def _statements(url: str, n: int) -> str:
    """How many statements a job takes."""
    world, first_waiting = _service(url), DispatchCache()
    for i in range(2):  # no site, no dataset is known yet
        _acquire(world, first_waiting, site(0), BULK, CLIENTS, i)
    with statements(world.engine) as seen:
        _acquire(world, first_waiting, site(0), n, CLIENTS, BULK)
    return f"{len(seen) / n:.2f} statements a job"
