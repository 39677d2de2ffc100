"""What every benchmark needs: a server of its own, interleaved runs, results with their host."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import platform
import statistics
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
from sqlalchemy import Engine, event, text

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.settings import Settings
from jedi.ddm.interface import DDM
from jedi.taskbuffer.db import knobs

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Result:
    """Rates of one measurement in `unit` (larger is better): ours, the floor's (what the bare
    database does with the same rows), PanDA's. `goal` is the least ratio of ours to the floor,
    `least` the least rate."""

    name: str
    unit: str
    ours: float
    floor: float | None = None
    goal: float | None = None
    panda: float | None = None
    note: str = ""
    least: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours as a share of the floor."""
        return self.ours / self.floor if self.floor else None

    @property
    def good(self) -> bool:
        """The goals are reached, if there are any."""
        fair = self.goal is None or self.ratio is None or self.ratio >= self.goal
        return fair and (self.least is None or self.ours >= self.least)


def make_world(engine: Engine, ddm: DDM) -> World:
    """What agents need; data management is `ddm`."""
    url = engine.url.render_as_string(hide_password=False)
    world = World(engine, Settings(Path(), url), knobs.load, lambda _tx, _knobs: ddm)
    gc.freeze()  # as in every process of ours
    world.refresh()
    return world


def run(engine: Engine, *statements: str) -> None:
    """Execute statements in one transaction."""
    with engine.begin() as tx:
        for statement in statements:
            tx.execute(text(statement))


def medians(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The median of what each of the runs returns; they alternate, first the one, then the other
    way round, so that a change of the machine's mood meets all alike."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats):
        for name in list(runs)[:: -1 if repeat % 2 else 1]:
            found[name].append(runs[name]())
    return {name: statistics.median(values) for name, values in found.items()}


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begin = clock.monotonic()
    work()
    return clock.monotonic() - begin


Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class ClientSpan:
    """The work of a client: its begin, its end, its processor time, and its result."""

    begin: float
    end: float
    cpu_s: float
    found: Any


def spans(clients: int, client: Callable[..., Work], *args: object) -> list[ClientSpan]:
    """The works of clients, each a process of its own, from their common start. `client(number,
    *args)` makes ready and returns the work to be timed."""
    context = multiprocessing.get_context("forkserver")  # modules are loaded once
    context.set_forkserver_preload([client.__module__])
    with context.Manager() as manager, ProcessPoolExecutor(clients, context) as pool:
        ready = manager.Barrier(clients)
        cpus = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
        works = [pool.submit(_span, ready, cpus, client, n, *args) for n in range(clients)]
        return [one.result() for one in works]


def seconds_of(found: list[ClientSpan]) -> float:
    """Seconds from the common start of clients to the end of the last one."""
    return max(one.end for one in found) - min(one.begin for one in found)


def together(clients: int, client: Callable[..., Work], *args: object) -> float:
    """Seconds that clients take; see `spans`."""
    return seconds_of(spans(clients, client, *args))


def _span(ready: Barrier, cpus: Set[int], client: Callable[..., Work], *args: object) -> ClientSpan:
    """`cpus` are those of the benchmark: the server of forks may have others."""
    if cpus:
        os.sched_setaffinity(0, cpus)
    work = client(*args)
    ready.wait()
    begin, cpu = clock.monotonic(), sum(os.times()[:2])
    found = work()
    return ClientSpan(begin, clock.monotonic(), sum(os.times()[:2]) - cpu, found)


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that an engine sends meanwhile, without BEGIN and COMMIT; its connections are
    closed afterwards."""
    seen: list[str] = []

    class Noted(psycopg.Cursor[Any]):
        """Sees also what does not pass through SQLAlchemy."""

        def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(query)
            return super().execute(query, *args, **kwargs)

        def executemany(self, query: Any, params_seq: Any, **kwargs: Any) -> None:
            seen.extend([query] * len(params_seq))
            super().executemany(query, params_seq, **kwargs)

        def copy(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(statement)
            return super().copy(statement, *args, **kwargs)

    def note(connection: Any, *_: Any) -> None:
        connection.cursor_factory = Noted

    event.listen(engine, "checkout", note)
    yield seen
    event.remove(engine, "checkout", note)
    engine.dispose()


def host(engine: Engine) -> dict[str, Any]:
    """Where a result was measured, and with what."""
    with engine.begin() as tx:
        server = tx.scalar(text("SHOW server_version"))
    # distributions build it so (Debian's does not say it); many others do not
    said = sysconfig.get_config_var("CONFIG_ARGS") or ""
    optimised = sys.base_prefix == "/usr" or "--enable-optimizations" in said
    return {
        "measured_at": clock.now().isoformat(timespec="seconds"),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "versions": {
            "python": f"{platform.python_version()}, {'' if optimised else 'not '}optimised",
            "postgresql": server,
            **{name: version(name) for name in ("SQLAlchemy", "psycopg", "numpy")},
        },
    }


def save(name: str, results: list[Result], where: dict[str, Any]) -> None:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    rows = [asdict(result) | {"ratio": result.ratio} for result in results]
    document = json.dumps({"name": name, **where, "results": rows}, indent=2)
    (RESULTS / f"{name}.json").write_text(document + "\n")


def show(results: list[Result]) -> None:
    """Print results side by side."""
    print(f"{'':<46}{'ours':>10}{'floor':>10}{'ratio':>7}{'goal':>6}{'PanDA':>9}")
    for r in results:
        cells = (r.ours, r.floor), (r.ratio, r.goal), r.panda
        (ours, floor), (ratio, goal), panda = cells
        print(
            f"{r.name[:45]:<46}{ours:>10,.0f}{_cell(floor, ',.0f'):>10}{_cell(ratio, '.2f'):>7}"
            f"{_cell(goal, '.2f'):>6}{_cell(panda, ',.0f'):>9} {r.unit}"
            f"{'' if r.good else '  GOAL MISSED'}{r.note and '  ' + r.note}"
        )


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
