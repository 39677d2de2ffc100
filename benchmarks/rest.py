"""The real system without work: its memory, its processor time and its transactions."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from sqlalchemy import Engine, text

from benchmarks import real
from benchmarks.common import Result
from benchmarks.cputime import all_times, tree
from benchmarks.laptop import adopt, spent
from jedi.core import clock

MOST_MB, MOST_SHARE, MOST_A_SECOND = 250.0, 0.01, 5.0
GROWTH = 1.1
JOBS = 10_000
WATCHED_S = 60.0
_SETTLE_S = 40.0
_PSS = re.compile(r"^Pss_(?:Anon|File): +([0-9]+) kB", re.MULTILINE)
_TRANSACTIONS = text("""
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
""")


def measure(engine: Engine, jobs: int = JOBS, watched_s: float = WATCHED_S) -> list[Result]:
    """A new system at rest for a minute, and its memory again after its agents have made, sent and
    ended this many jobs. Shared buffers do not count."""
    adopt()
    with real.system(engine) as jedi:
        del jedi
        time.sleep(_SETTLE_S)
        used, done, begin = spent(engine).all, _transactions(engine), clock.monotonic()
        time.sleep(watched_s)
        took = clock.monotonic() - begin
        share = (spent(engine).all - used) / took
        rate = (_transactions(engine) - done) / took
        new = _memory_mb(engine)
        real.submit(engine, {**real.TINY, "nFiles": jobs, "skipScout": True})
        real.until(lambda: real.ended(engine) == 1)
        time.sleep(_SETTLE_S)
        later = _memory_mb(engine)
    return [
        Result(
            "systems at rest in a GB of memory",
            "1/GB",
            1024 / new,
            least=1024 / MOST_MB,
            note=f"{new:.0f} MB a system",
        ),
        Result(f"memory at rest, floor: after {jobs:,} jobs", "MB", new, later, 1 / GROWTH),
        Result(
            "time at rest a second of processor time",
            "s",
            1 / share,
            least=1 / MOST_SHARE,
            note=f"{100 * share:.2f} % of a core",
        ),
        Result(
            "time at rest a transaction",
            "s",
            1 / rate,
            least=1 / MOST_A_SECOND,
            note=f"{rate:.1f} transactions a second",
        ),
    ]


def _transactions(engine: Engine) -> int:
    with engine.begin() as tx:
        return int(tx.scalar(_TRANSACTIONS) or 0)


def _memory_mb(engine: Engine) -> float:
    """Proportional memory of the system and of the database."""
    with engine.begin() as tx:
        backend = int(tx.scalar(text("SELECT pg_backend_pid()")) or 0)
        times = all_times()
    ours = [*tree(times, os.getpid())[1:], *tree(times, times[backend].parent)]
    return sum(map(_pss_kb, ours)) / 1024


def _pss_kb(pid: int) -> int:
    try:
        found = _PSS.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0
    return sum(map(int, found))
