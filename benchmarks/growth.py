"""Cycles of agents that find nothing to do, and looks of people, in a large database."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
from sqlalchemy import Engine, event, text

from benchmarks.api import BenchService, RawWire, bench_service
from benchmarks.common import Result, make_world
from benchmarks.growth_world import Size, fill
from benchmarks.stages import Kept
from jedi.agent.base import World
from jedi.agent.registry import AGENTS, load
from jedi.core import clock
from jedi.core.settings import caller
from jedi.ddm.interface import DDM
from jedi.taskbuffer.users.users import PUT_USER
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

SMOKE = 1_000
REPEATS, REQUESTS = 5, 20
LOOK_MS, REQUEST_MS, OF_PERIOD = 5.0, 50.0, 0.02
OUTSIDE = ("notifier", "sweep", "space", "copies", "lookup")
"""Dogs that look outside the database."""


def measure(engine: Engine, part: int = 1) -> list[Result]:
    """In a database of 1,000,000 live jobs and 5,000,000 archived ones (or that `part` of it): how
    long the database works on an idle agent's look, and on a dog's round; the processor time of
    operations on tasks."""
    fill(engine, Size().part(part))
    ddm: Any = Kept(0)
    world = make_world(engine, ddm)
    return [*_looks(world, part == 1), *_rounds(world, part == 1), *_requests(world, part == 1)]


class _Clock:
    """The time that an engine's statements take, as their client sees it."""

    def __init__(self, engine: Engine) -> None:
        self.ms = 0.0
        watch = self

        class Timed(psycopg.Cursor[Any]):
            """Counts what each statement takes."""

            def execute(self, *args: Any, **kwargs: Any) -> Any:
                begin = clock.monotonic()
                try:
                    return super().execute(*args, **kwargs)
                finally:
                    watch.ms += 1_000 * (clock.monotonic() - begin)

        event.listen(engine, "checkout", lambda found, *_: setattr(found, "cursor_factory", Timed))

    def median(self, work: Callable[[], object]) -> float:
        """ms of the statements of a work: the median, after a first time."""
        found = []
        for _ in range(1 + REPEATS):
            self.ms = 0.0
            work()
            found.append(self.ms)
        return statistics.median(found[1:])


def _looks(world: World, full: bool) -> Iterator[Result]:
    """Agents that have found nothing look again."""
    watch = _Clock(world.engine)
    for name in AGENTS:
        if name != "WatchDog":
            agent = load(name)(world)
            while agent.run_once():
                pass
            ms = watch.median(agent.look)
            yield Result(
                f"idle {name}",
                "looks/s",
                1_000 / ms,
                note=f"{ms:.1f} ms",
                least=1_000 / LOOK_MS if full else None,
            )


def _rounds(world: World, full: bool) -> Iterator[Result]:
    """Dogs go their rounds; a round may take this part of its period, or as long as a look."""
    watch = _Clock(world.engine)
    for name, dog in DOGS.items():
        if name not in OUTSIDE:
            ms = watch.median(lambda dog=dog: walk(world, dog))  # type: ignore[misc]
            most = max(LOOK_MS, 1_000 * OF_PERIOD * float(world.knobs[dog.period]))
            yield Result(
                f"dog {name}",
                "rounds/s",
                1_000 / ms,
                note=f"{ms:.1f} ms of {most:.0f}",
                least=1_000 / most if full else None,
            )


def _requests(world: World, full: bool) -> Iterator[Result]:
    """Operations on tasks over HTTP, one by one; the service and the database together."""
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
        ids = text("SELECT min(jeditaskid) + 1, max(jeditaskid) FROM jedi_tasks")
        ended, last = tx.execute(ids).one()
    paths = {
        "list, 20 rows": "/v1/tasks?limit=20",
        "list, 1,000 rows": "/v1/tasks",
        "list 1,000 that run": "/v1/tasks?status=running",
        "list 50 of a user": "/v1/tasks?user=user7&limit=50",
        "jobs of a user": "/v1/jobs?user=user7",
        "jobs of a user that failed": "/v1/jobs?user=user7&status=failed",
    }
    for one, task in (
        ("at work", last - 2),
        ("ended", ended),
        ("large", last - 1),
        ("large, ended", last),
    ):
        paths |= {
            f"show, {one}": f"/v1/tasks/{task}",
            f"why, {one}": f"/v1/tasks/{task}/why",
            f"jobs, {one}": f"/v1/tasks/{task}/jobs",
        }
    with bench_service(make_world(world.engine, cast(DDM, None))) as service:
        wire = RawWire(str(service.home.api_socket))
        for name, path in paths.items():
            ms = _cost(service, lambda wire=wire, path=path: wire.ask(wire.request("GET", path)))  # type: ignore[misc]
            yield Result(
                f"task {name}",
                "1/s",
                1_000 / ms,
                note=f"{ms:.1f} ms",
                least=1_000 / REQUEST_MS if full else None,
            )


def _cost(service: BenchService, ask: Callable[[], object]) -> float:
    """ms of processor time of the service and the database for a request, at least 0.1."""
    ask()
    before = service.cpu_s() + service.database_cpu_s()
    for _ in range(REQUESTS):
        ask()
    took = service.cpu_s() + service.database_cpu_s() - before
    return max(0.1, 1_000 * took / REQUESTS)
