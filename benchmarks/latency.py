"""How long a person waits: from the submission of a task to the start of its first payload."""

from __future__ import annotations

import statistics
from datetime import datetime

from sqlalchemy import Engine, text

from benchmarks import real
from benchmarks.common import Result
from jedi.core import clock

REPEATS = 20
MOST_S = 2.0

_STARTED = text("SELECT starttime FROM jedi_jobs WHERE jeditaskid = :task")
_PILOTS = text("SELECT count(*) FROM jedi_pilots WHERE endtime IS NULL")


def measure(engine: Engine) -> list[Result]:
    """The median of several submissions to an idle system, where no pilot waits for work."""
    with real.system(engine, pilot_idle_s=0.1):
        took = [_one(engine, number) for number in range(REPEATS + 1)][1:]  # the first one warms up
    median = statistics.median(took)
    note = f"{median:.2f} s; the floor is the goal, {MOST_S:.0f} s; the longest {max(took):.2f} s"
    return [Result("submit to first payload", "1/min", 60 / median, 60 / MOST_S, 1.0, note=note)]


def _one(engine: Engine, before: int) -> float:
    """Seconds that a task waits for its payload."""
    begin = clock.now()
    task = real.submit(engine)
    real.until(lambda: real.ended(engine) > before)
    with engine.begin() as tx:
        started: datetime = tx.execute(_STARTED, {"task": task}).scalar_one()
    real.until(lambda: not _pilots(engine))
    return (started - begin).total_seconds()


def _pilots(engine: Engine) -> int:
    with engine.begin() as tx:
        return int(tx.scalar(_PILOTS) or 0)
