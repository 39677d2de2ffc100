"""Ganga's interface: jobs of a thousand and of ten thousand explicit subjobs go to JEDI and to
Local, and jobs are listed. In processor time, of the client, and of service and database."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from jedi_client.gpi.applications import Executable
from jedi_client.gpi.backends import JEDI, Local
from jedi_client.gpi.job import Job
from jedi_client.gpi.session import SESSION, jobs
from jedi_client.gpi.splitters import ArgSplitter
from sqlalchemy import Engine

from benchmarks.api import BenchService, bench_service
from benchmarks.common import Result, make_world
from benchmarks.jobs_world import place
from jedi.core.errors import JediError
from jedi.core.settings import caller
from jedi.ddm.interface import DDM
from jedi.taskbuffer.users.users import PUT_USER

SUBJOBS, SMOKE = 1_000, 20
LISTED = 1_000
REPEATS = 5
_IMPORT = "import time; import jedi_client; jedi_client.Job; print(time.process_time())"


def measure(engine: Engine, subjobs: int = SUBJOBS) -> list[Result]:
    """Submissions of so many subjobs, of ten times as many, and without keep_going; the list of
    1,000 jobs; the first import."""
    place(engine, 1, 1)
    world = make_world(engine, cast(DDM, None))
    with engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
    whole = subjobs == SUBJOBS
    with bench_service(world) as service, _home():
        jedi = JEDI(server=service.url)
        _submitted(jedi, subjobs, service)  # everything is loaded
        found = [_submissions(jedi, n, service, whole) for n in (subjobs, 10 * subjobs)]
        found.append(_stopping(jedi, subjobs, whole))
        found.append(_submissions(Local(), subjobs, None, whole))
    with _home():
        found.append(_listing(LISTED if whole else subjobs, whole))
    loads = statistics.median(_import_s() for _ in range(REPEATS))
    least = 1 / 0.15 if whole else None
    return [*found, Result("first import, processor time", "imports/s", 1 / loads, least=least)]


@contextmanager
def _home() -> Iterator[None]:
    """A registry of its own."""
    with tempfile.TemporaryDirectory(prefix="jedi-client-") as directory:
        before = os.environ.get("JEDI_CLIENT_HOME")
        os.environ["JEDI_CLIENT_HOME"] = directory
        SESSION.close()
        try:
            yield
        finally:
            jobs[:].kill(keep_going=True)
            SESSION.close()
            os.environ.pop("JEDI_CLIENT_HOME")
            if before is not None:
                os.environ["JEDI_CLIENT_HOME"] = before


def _submitted(
    backend: Any, n: int, service: BenchService | None, *, keep_going: bool = True
) -> tuple[float, float]:
    """Seconds of processor time for a submission, of the client, and of service and database."""
    job = Job(
        application=Executable("true"),
        backend=backend,
        splitter=ArgSplitter([[str(k)] for k in range(n)]),
    )
    served = _served(service)
    begin = time.process_time()
    report = job.submit(keep_going=keep_going)
    own = time.process_time() - begin
    if len(report.done) != n:
        raise JediError(f"{len(report.done)} of {n} subjobs.", code="benchmark_failed")
    return own, _served(service) - served


def _served(service: BenchService | None) -> float:
    return service.cpu_s() + service.database_cpu_s() if service else 0.0


def _submissions(backend: Any, n: int, service: BenchService | None, whole: bool) -> Result:
    """The dearer side decides: 0.3 s for 1,000 on each."""
    times = [_submitted(backend, n, service) for _ in range(REPEATS if whole else 1)]
    own, served = (statistics.median(each) for each in zip(*times, strict=True))
    note = f"client {own:.3f} s" + (f", service and database {served:.3f} s" if service else "")
    name = f"{n:,} explicit subjobs to {type(backend).__name__}"
    least = 1_000 / 0.3 if whole else None
    return Result(name, "subjobs/s", n / max(own, served), least=least, note=note)


def _stopping(backend: Any, n: int, whole: bool) -> Result:
    """`keep_going=True` is never slower than False."""
    times = [
        [_wall(partial(_submitted, backend, n, None, keep_going=keep)) for keep in (True, False)]
        for _ in range(2 * REPEATS if whole else 1)
    ]
    going, stopping = (n / min(each) for each in zip(*times, strict=True))
    goal = 0.9 if whole else None
    return Result("keep_going=True beside False", "subjobs/s", going, stopping, goal)


def _wall(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def _listing(n: int, whole: bool) -> Result:
    """A new session reads the jobs of a registry: 1,000 in 50 ms."""
    for _ in range(n - len(jobs)):
        Job(application=Executable("true"))

    def listed() -> list[Any]:
        SESSION.close()
        return [(job.id, job.name, job.status) for job in jobs]

    took = statistics.median(_wall(listed) for _ in range(REPEATS))
    least = 20_000.0 if whole else None
    return Result(
        f"list of {len(jobs):,} jobs in a new session", "jobs/s", len(jobs) / took, least=least
    )


def _import_s() -> float:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, check=True)
    return float(done.stdout)
