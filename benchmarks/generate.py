"""JobGenerator end to end, against the bare set-based SQL that writes the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, medians, run, seconds
from benchmarks.jobs_world import Held, clear, fed_task, make_jobs, place
from jedi.agent.base import World
from jedi.core import clock
from jedi.jobgenerator.agent import JobGenerator
from jedi.splitter.cap_cutter import CapCutter, Caps, Weights, walk

PANDA = 300.0  # jobs/s, PanDA's own code on PostgreSQL 15
REPEATS = 5


def measure(engine: Engine) -> list[Result]:
    """10 files a job and 1, ten times as many files, and the splitter alone."""
    place(engine)
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
        clear(engine)
        task_id = fed_task(engine, world, each)
        run(engine, "CHECKPOINT")
        took = seconds(lambda: work(task_id))
        _check(engine, files, each)
        return took

    jobs = files // each
    took = medians(
        {
            "floor": lambda: fresh(lambda task: make_jobs(engine, task, each)),
            "ours": lambda: fresh(lambda _: _ours(world)),
        },
        repeats,
    )
    return Result(
        f"generate {jobs:,} jobs of {each}",
        "jobs/s",
        jobs / took["ours"],
        jobs / took["floor"],
        goal,
        PANDA,
    )


def _ours(world: World) -> None:
    generator = JobGenerator(world)
    while generator.run_once():
        pass


def _check(engine: Engine, files: int, each: int) -> None:
    """Both ways left the same behind."""
    jobs = files // each
    expected = {
        "jedi_jobs": jobs,
        "jedi_job_params": jobs,
        "jedi_job_ready": jobs,
        "jedi_jobs_statuslog": jobs,
        "jedi_job_files": files + 2 * jobs,
        "jedi_dataset_contents": files + 2 * jobs,
    }
    with engine.begin() as tx:
        for table, rows in expected.items():
            found = tx.scalar(text(f"SELECT count(*) FROM {table}"))
            assert found == rows, f"{table}: {found} rows, not {rows}"


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
            walk(CapCutter(weights).cuts(caps), 0, files)
            best = min(best, clock.monotonic() - begin)
        results.append(Result(f"split {files:,} files, {name}", "files/s", files / best))
    return results
