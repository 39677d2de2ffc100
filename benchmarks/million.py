"""A task of a million files: what feeding it and making its jobs take, in time and memory."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator

from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, run, seconds
from benchmarks.feed import insert
from benchmarks.jobs_world import Held, place
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import JediError
from jedi.jobgenerator.agent import JobGenerator
from jedi.taskbuffer.db.engine import connect
from jedi.taskrefiner.agent import TaskRefiner

SIZES = (10_000, 100_000, 1_000_000)
EACH = 10
MOST_MB = 1024.0
LINEAR = 0.5
AGENTS: dict[str, type[ContentsFeeder] | type[JobGenerator]] = {
    "feed": ContentsFeeder,
    "split and generate": JobGenerator,
}


def measure(engine: Engine) -> list[Result]:
    """Tasks of ten thousand, a hundred thousand and a million files, ten a job; each agent is a
    process of its own. The rate with most files is held against that with a tenth of them."""
    place(engine)
    took = {n: _task(engine, n) for n in SIZES}
    return [result for step in AGENTS for result in _results(step, took)]


def _results(step: str, took: dict[int, dict[str, tuple[float, float]]]) -> Iterator[Result]:
    rates = {n: n / took[n][step][0] for n in SIZES}
    for n in SIZES:
        note = f"{took[n][step][1]:.0f} MB"
        if n == SIZES[-1]:
            yield Result(
                f"{step} {n:,} files, floor: {SIZES[-2]:,}",
                "files/s",
                rates[n],
                rates[SIZES[-2]],
                LINEAR,
                note=note,
            )
        else:
            yield Result(f"{step} {n:,} files", "files/s", rates[n], note=note)
    yield Result(
        f"{step}: the limit, floor: memory used", "MB", MOST_MB, took[SIZES[-1]][step][1], 1.0
    )


def _task(engine: Engine, n: int) -> dict[str, tuple[float, float]]:
    """Seconds and MB of each agent for a new task with so many files."""
    run(engine, "TRUNCATE jedi_dataset_contents, jedi_jobs, jedi_job_files, jedi_job_params")
    items = [
        {"type": "template", "param_type": "input", "value": "${IN/S}", "dataset": "bench:in"},
        {
            "type": "template",
            "param_type": "output",
            "value": "> o.${SN}",
            "dataset": f"bench:out{n}",
        },
    ]
    document = {"taskName": "bench", "transPath": "cat", "nFilesPerJob": EACH, "skipScout": True}
    insert(engine, {**document, "jobParameters": items})
    ddm = Held(0)
    TaskRefiner(make_world(engine, ddm)).run_once()  # type: ignore[arg-type]
    url = engine.url.render_as_string(hide_password=False)
    found = {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for step in AGENTS:
            found[step] = pool.apply(_work, (url, step, n))
    with engine.begin() as tx:
        jobs = tx.scalar(text("SELECT count(*) FROM jedi_jobs"))
    if jobs != n // EACH:
        raise JediError(f"{jobs} jobs were made of {n} files.", code="benchmark_failed")
    return found


def _work(url: str, step: str, n: int) -> tuple[float, float]:
    """Let one agent do all there is, in this process: seconds, and MB at the most."""
    engine = connect(url, "jedi benchmark")
    agent = AGENTS[step](make_world(engine, Held(n)))  # type: ignore[arg-type]

    def work() -> None:
        while agent.run_once():
            pass

    took = seconds(work)
    engine.dispose()
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
