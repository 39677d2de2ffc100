"""A whole task in the simulator, from its submission to its end: the cost of a job, and memory."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, text

from benchmarks.common import Result
from benchmarks.cputime import all_times, tree, tree_s
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.simulator.measure import SimulationOutcome
from jedi.simulator.measure import measure as outcome_of
from jedi.simulator.run import SERVER, Simulation
from jedi.simulator.scenario import Scenario, ScenarioTask, read_scenario
from jedi.standalone.scratch import database
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs

SMOKE, FEW, JOBS, EACH = 1_000, 10_000, 100_000, 10
MOST_MB, DEARER = 600.0, 1.2
_WATCH_S = 10.0
_SCENARIO = Path(__file__).parents[1] / "examples" / "simulations" / "million.yaml"
_FIELD = re.compile(r"^(VmHWM|Pss):\s+([0-9]+) kB", re.MULTILINE)
_KIND = {"VmHWM": "RSS", "Pss": "PSS"}
_BACKEND = text("SELECT pg_backend_pid()")
_ONCE = text(f"""
SELECT count(*) AS files, count(DISTINCT f.fileid) AS once, count(DISTINCT j.pandaid) AS jobs
FROM {all_files("pandaid, fileid, type")} f JOIN {all_jobs("pandaid, status")} j USING (pandaid)
WHERE f.type = 'input' AND j.status = 'finished'
""")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time, of the simulator and of its database."""

    simulator: float
    database: float

    @property
    def all(self) -> float:
        """Of both."""
        return self.simulator + self.database

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.simulator + other.simulator, self.database + other.database)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.simulator - other.simulator, self.database - other.database)


@dataclass(frozen=True, slots=True)
class Life:
    """A task of so many jobs, or several alike: what it took, what creating its input took, the
    largest RSS and PSS (in MB) of the simulator and of a process of the database, and when it was
    done, in hours."""

    jobs: int
    spent: Spent
    making_input: Spent
    peaks: dict[str, float]
    done_h: float | None

    def __add__(self, other: Life) -> Life:
        peaks = {what: max(mb, other.peaks[what]) for what, mb in self.peaks.items()}
        return Life(
            self.jobs + other.jobs,
            self.spent + other.spent,
            self.making_input + other.making_input,
            peaks,
            self.done_h,
        )

    @property
    def rate(self) -> float:
        """Jobs a second of processor time."""
        return self.jobs / self.spent.all

    @property
    def note(self) -> str:
        """The same in words."""
        us, spent = 1e6 / self.jobs, self.spent
        peaks = ", ".join(f"{what} {mb:.0f}" for what, mb in self.peaks.items())
        return (
            f"{us * spent.all:,.0f} us a job ({us * spent.database:,.0f} the database's), "
            f"{us * self.making_input.all:,.0f} more for creating input; MB: {peaks}; "
            f"done after {self.done_h} h"
        )


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """A task of ten thousand jobs, ten files each, before and after one of `jobs`, on the same
    10,000 slots; each simulation is a process of its own. A job of the large one may cost 1.2 times
    as much."""
    del engine  # a simulation has a database of its own
    few = FEW if jobs > FEW else jobs // 10
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        before, large, after = (pool.apply(live, (n,)) for n in (few, jobs, few))
    return results(before + after, large)


def results(small: Life, large: Life) -> list[Result]:
    """The cost of a job of the large task beside that of the two small ones, and the memory."""
    most = max(large.peaks[f"RSS of the {what}"] for what in ("simulator", "database"))
    return [
        Result(f"twice {small.jobs // 2:,} jobs", "jobs/s", small.rate, note=small.note),
        Result(
            f"{large.jobs:,} jobs, floor: {small.jobs // 2:,}",
            "jobs/s",
            large.rate,
            small.rate,
            1 / DEARER if large.jobs > FEW else None,
            note=large.note,
        ),
        Result("the limit, floor: the largest process", "MB", MOST_MB, most, 1.0),
    ]


def scenario_of(jobs: int) -> Scenario:
    """The example with so many jobs, until the task has ended."""
    found = read_scenario(_SCENARIO.read_text())
    task = found.tasks[0].model_copy(update={"files": EACH * jobs})
    return found.model_copy(update={"days": (5 + jobs / 9_500) / 24, "tasks": [task]})


class Watched(Simulation):
    """A simulation that knows what it takes."""

    def __init__(self, scenario: Scenario, engine: Engine) -> None:
        super().__init__(scenario, engine)
        with engine.begin() as tx:
            self._server = all_times()[int(tx.scalar(_BACKEND) or 0)].parent
        self.begin, self.making_input = self.spent(), Spent(0, 0)
        self.peaks: Counter[str] = Counter()
        self._over = threading.Event()

    def put_input(self, task: ScenarioTask, dataset: str) -> None:
        before = self.spent()
        super().put_input(task, dataset)
        self.making_input = self.spent() - before

    def spent(self) -> Spent:
        """Processor time until now."""
        return Spent(sum(os.times()[:2]), tree_s(all_times(), self._server))

    def to_the_end(self) -> SimulationOutcome:
        """Run it and make its results; its memory is noted every 10 s and in the end."""
        watch = threading.Thread(target=self._watch, daemon=True)
        watch.start()
        try:
            self.run(lambda _: None)
            return outcome_of(self.record)
        finally:
            self._over.set()
            watch.join()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_WATCH_S)  # the last look comes after the end
            servers = tree(all_times(), self._server)
            for what, pids in (("simulator", [os.getpid()]), ("database", servers)):
                for kind, mb in (one for pid in pids for one in _memory_mb(pid)):
                    name = f"{kind} of the {what}"
                    self.peaks[name] = max(self.peaks[name], mb)  # type: ignore[assignment]


def live(jobs: int) -> Life:
    """Simulate a task in this process until it has ended."""
    scenario = scenario_of(jobs)
    with database("jedi simulator", **SERVER) as engine:
        clock.turn_to(scenario.start)
        try:
            run = Watched(scenario, engine)
            done = run.to_the_end().task_ends[0].took_h
        finally:
            clock.turn_to(None)
        spent = run.spent() - run.begin - run.making_input
        _check(engine, run, jobs)
        return Life(jobs, spent, run.making_input, dict(run.peaks), done)


def _check(engine: Engine, run: Simulation, jobs: int) -> None:
    """The task is done, the records agree, and each file was processed exactly once."""
    record, files = run.record, EACH * jobs
    with engine.begin() as tx:
        once = tuple(tx.execute(_ONCE).one())
    ends = Counter(row.status for row in record.jobs)
    tasks = [row.status for row in record.tasks]
    good = (once, ends, tasks) == ((files, files, jobs), Counter(finished=jobs), ["done"])
    if not good or record.wrong or record.troubles:
        facts = f"{once}, {ends}, {tasks}, {record.wrong}, {record.troubles}"
        raise JediError(f"The task did not end as it should: {facts}.", code="benchmark_failed")


def _memory_mb(pid: int) -> list[tuple[str, float]]:
    """The largest RSS of a process until now, and its PSS; none if it has ended."""
    try:
        texts = [Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "smaps_rollup")]
    except OSError:
        return []
    return [(_KIND[field], int(kb) / 1024) for field, kb in _FIELD.findall("\n".join(texts))]
