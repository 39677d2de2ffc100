"""Real jobs of the real system on one machine: pilots, payloads, service, agents and database."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from benchmarks import real
from benchmarks.common import Result, seconds
from benchmarks.cputime import all_times, tree, tree_s
from jedi.core import clock

CPUS = 2
JOBS = 1_000
SLURM_JOBS = 100
BARE, FILES = 50.0, 35.0
MOST_MS = 35.0
_PR_SET_CHILD_SUBREAPER = 36
_FINISHED = text(
    "SELECT count(*), count(*) FILTER (WHERE status = 'finished') FROM jedi_jobs "
    "WHERE jeditaskid = :task"
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor time in seconds: of the database, of the service and the agents, of the rest,
    which are pilots and payloads."""

    database: float
    parts: dict[str, float]
    all: float

    def since(self, before: Spent) -> dict[str, float]:
        """Seconds since then, by part of the system."""
        parts = {name: s - before.parts.get(name, 0.0) for name, s in self.parts.items()}
        database = self.database - before.database
        rest = self.all - before.all - database - sum(parts.values())
        return {"pilots and payloads": rest, "database": database, **parts}


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """Jobs of `true` a second in two slots, from the submission of their task to its end, without
    and with an input and an output file each; processor time of a job by part of the system. The
    floor of the first is a real Slurm with two slots, if it is installed: an array of `true`."""
    slurm = _slurm_rate(min(jobs, SLURM_JOBS))
    adopt()
    with real.system(engine) as jedi, tempfile.TemporaryDirectory(prefix="jedi-bench-") as place:
        _run(engine, _bare("warm", 20))
        results = _results(engine, "jobs of `true`", _bare("bare", jobs), BARE, slurm)
        jedi("dataset", "add", "bench:files", *_files(Path(place), jobs))
        document = _with_files("files", "bench:files")
        results += _results(engine, "jobs with a file in and out", document, FILES)
    return results


def _results(
    engine: Engine, name: str, document: dict[str, Any], least: float, slurm: float | None = None
) -> list[Result]:
    """The rate of a task's jobs, and their rate a second of processor time."""
    before, begin = spent(engine), clock.monotonic()
    jobs = _run(engine, document)
    took, used = clock.monotonic() - begin, spent(engine).since(before)
    each = {part: 1000 * s / jobs for part, s in used.items()}
    total = sum(each.values())
    parts = ", ".join(
        f"{part} {ms:.1f}" for part, ms in sorted(each.items(), key=lambda x: -x[1]) if ms >= 0.1
    )
    return [
        Result(name, "1/s", jobs / took, slurm, slurm and 1.0, least=least),
        Result(
            f"{name}, a second of processor time",
            "1/s",
            1000 / total,
            least=1000 / MOST_MS,
            note=f"{total:.1f} ms a job: {parts}",
        ),
    ]


def _run(engine: Engine, document: dict[str, Any]) -> int:
    """Submit a task and wait for its end; the number of its jobs, all of which finished."""
    ended = real.ended(engine)
    task = real.submit(engine, document)
    real.until(lambda: real.ended(engine) > ended)
    with engine.begin() as tx:
        jobs, finished = tx.execute(_FINISHED, {"task": task}).one()
    if jobs != finished:
        raise RuntimeError(f"{finished} of {jobs} jobs finished")
    return int(jobs)


def _bare(name: str, jobs: int) -> dict[str, Any]:
    return {
        "taskName": f"bench.{name}",
        "noInput": True,
        "nFiles": jobs,
        "skipScout": True,
        "transPath": "true",
        "jobParameters": [{"type": "constant", "value": "."}],
    }


def _files(place: Path, number: int) -> list[str]:
    place.chmod(0o755)
    files = [place / f"in.{nr:05}.txt" for nr in range(number)]
    for nr, file in enumerate(files):
        file.write_text(f"{nr}\n")
    return [*map(str, files)]


def _with_files(name: str, dataset: str) -> dict[str, Any]:
    return {
        "taskName": f"bench.{name}",
        "nFilesPerJob": 1,
        "skipScout": True,
        "jobParameters": [
            {"type": "template", "param_type": "input", "value": "cat ${IN}", "dataset": dataset},
            {
                "type": "template",
                "param_type": "output",
                "value": "> out.${SN}.txt",
                "dataset": "user.bench:laptop",
            },
        ],
    }


def _slurm_rate(jobs: int) -> float | None:
    """Jobs of an array a second in Slurm; None if it is not installed."""
    spec = spec_from_file_location("cluster", Path(__file__).parents[1] / "tests/slurm/cluster.py")
    assert spec and spec.loader
    cluster = module_from_spec(spec)
    spec.loader.exec_module(cluster)
    if cluster.missing():
        return None
    with tempfile.TemporaryDirectory(prefix="jedi-bench-") as place:
        slurm = cluster.Cluster(Path(place, "slurm"), cpus=2)
        os.environ["SLURM_CONF"] = str(slurm.conf)
        slurm.start()
        try:
            command = ["sbatch", "--wait", f"--array=1-{jobs}", "--output=/dev/null", "--wrap=true"]
            took = seconds(lambda: subprocess.run(command, check=True, capture_output=True))
        finally:
            slurm.stop()
    return jobs / took


# ----------------------------------------------------------------------------- processor time


def adopt() -> None:
    """Become the parent of orphans, so that the time of all that ends is ours."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def spent(engine: Engine) -> Spent:
    """Processor time so far: of what lives, and of what has ended below us or the database."""
    with engine.begin() as tx:
        backend = int(tx.scalar(text("SELECT pg_backend_pid()")) or 0)
        while reap():
            continue
        times = all_times()
    database = tree_s(times, times[backend].parent)
    me = os.getpid()
    parts: dict[str, float] = {}
    for pid in tree(times, me):
        if part := _part(pid):
            parts[part] = parts.get(part, 0.0) + times[pid].own_s
    return Spent(database, parts, database + tree_s(times, me) - times[me].own_s)


def _part(pid: int) -> str | None:
    """The part of the system that a process is; None for pilots and payloads."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
    except OSError:
        return None
    for mark, part in ((b"agent", "agents"), (b"api", "service"), (b"up", "supervisor")):
        if mark in words[1:]:
            return part
    return None


def reap() -> bool:
    """Collect a dead orphan. At this time nobody here waits for a child of his own."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False
