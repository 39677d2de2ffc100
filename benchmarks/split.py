"""Herds: one manifest becomes 10,000 units, a hundred manifests a hundred each, against COPY of the
same rows; JDL is read. All in processor time, of this process and of the database's."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, medians, run
from benchmarks.jobs_world import Held, clear, place
from jedi.agent.base import World
from jedi.model.jdl.parse import parse
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.storing import submit
from jedi.splitter.agent import Splitter
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.copying import copy_rows
from jedi.taskrefiner.agent import TaskRefiner

UNITS, SMOKE = 10_000, 200
HERDS = 100
REPEATS = 5
MANIFEST = """Executable = "/bin/echo"; JobName = "bench{name}";
Splitter = Parametric; Parameters = {units}; ParameterStep = 1; ParameterFactor = 1;
Arguments = "$Parameter"; StdOutput = "StdOut_$SplitID"; StdError = "StdErr_$SplitID";
OutputSandbox = {{"StdOut_$SplitID", "StdErr_$SplitID"}};
"""
_numbers = count()


def measure(engine: Engine, units: int = UNITS) -> list[Result]:
    """One herd, a hundred herds of a hundredth, and texts of JDL."""
    place(engine)
    ddm: Any = Held(1)
    world = make_world(engine, ddm)
    with engine.begin() as tx:
        knobs.put(tx, "split.batch", HERDS, "bench")
    world.refresh()
    many = min(HERDS, units // 10)
    return [
        _split(world, 1, units),
        _split(world, many, units // many),
        _submissions(world, many),
        *_reading(units),
    ]


def _split(world: World, herds: int, units: int) -> Result:
    """The split alone, after herds are refined: plans, PandaIDs, variables, and all rows."""
    engine, n = world.engine, herds * units
    copies: list[float] = []

    def ours() -> float:
        clear(engine)
        run(engine, "TRUNCATE jedi_herds, jedi_units")
        _submit(world, herds, units)
        while TaskRefiner(world).run_once():
            pass
        run(engine, "CHECKPOINT")
        took = _cpu(engine, Splitter(world).run_once)
        blocks = _blocks(engine)
        assert len(blocks["unit_nr"]) == n
        run(engine, "TRUNCATE jedi_units", "CHECKPOINT")
        copies.append(_cpu(engine, lambda: _copy(engine, blocks)))
        return took

    took = medians({"ours": ours}, REPEATS if n == UNITS else 1)["ours"]
    floor = statistics.median(copies)
    least = 10_000 if n == UNITS else None  # 10,000 units take at most 1 s
    return Result(f"split {herds} x {units:,}", "units/s", n / took, n / floor, least=least)


def _submissions(world: World, herds: int) -> Result:
    """Herds submitted in one transaction, each as a JDL text with all checks."""
    took = _cpu(world.engine, lambda: _submit(world, herds, 10))
    return Result(f"submit {herds} manifests", "texts/s", herds / took)


def _reading(units: int) -> Iterator[Result]:
    """Statements one by one, and a list of file names; ten times as many take ten times as long."""
    for times in (1, 10):
        n = units * times
        small = "".join(f'Name{i} = "value {i}";\nNumber{i} = {i};\n' for i in range(n))
        files = ", ".join(f'"/lhcb/data/2026/RAW/file{i:08d}.raw"' for i in range(n))
        for name, jdl in ("statements", small), ("file names", f"InputData = {{{files}}};"):
            cpu = sorted(_spent(lambda: parse(jdl)) for _ in range(3))[1]  # noqa: B023
            least = 2000 if units == UNITS else None  # 2 MB/s
            rate = len(jdl) / 1000 / cpu
            yield Result(f"read {n:,} {name} of JDL", "kB/s", rate, least=least)


def _submit(world: World, herds: int, units: int) -> None:
    with world.engine.begin() as tx:
        for _ in range(herds):
            jdl = MANIFEST.format(name=next(_numbers), units=units)
            submit(tx, world.ddm, examined(Document(jdl, "jdl", Path()), "bench"))


def _blocks(engine: Engine) -> dict[str, list[Any]]:
    """The rows of all units, column by column."""
    query = "SELECT jeditaskid, unit_nr, originpandaid, options::text AS options FROM jedi_units"
    with engine.begin() as tx:
        rows = tx.execute(text(query)).mappings().all()
    names = ("jeditaskid", "unit_nr", "originpandaid", "options")
    return {name: [row[name] for row in rows] for name in names}


def _copy(engine: Engine, blocks: dict[str, list[Any]]) -> None:
    with engine.begin() as tx:
        copy_rows(tx, "jedi_units", [blocks])


def _spent(work: Callable[[], object]) -> float:
    """Seconds of processor time of this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _cpu(engine: Engine, work: Callable[[], object]) -> float:
    """Seconds of processor time of this process and of the database's for its connections."""
    before = _backends(engine)
    own = _spent(work)
    after = _backends(engine)
    return own + sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def _backends(engine: Engine) -> dict[int, float]:
    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    with engine.begin() as tx:
        pids = list(tx.scalars(text(query)))
    stats = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids}
    tick = os.sysconf("SC_CLK_TCK")
    return {pid: (int(fields[11]) + int(fields[12])) / tick for pid, fields in stats.items()}
