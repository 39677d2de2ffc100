"""The dog that looks for jobs which do not get on, among 100,000 live ones."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, medians, run, seconds
from benchmarks.jobs_world import Held, Shape, activated_jobs, place
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

JOBS, SMOKE = 100_000, 500
OVERDUE = 10
"""One job in so many waits for too long."""
REPEATS = 5
GOAL_MS = 1000.0
"""A look may take so long; there is one a minute."""

_ELSEWHERE = """
UPDATE jedi_jobs SET pilot_id = 'bench', lock_seq = 1, heartbeat_at = jedi_now(),
  status = (ARRAY['activated', 'running', 'holding', 'transferring', 'assigned'])[1 + pandaid % 5]
"""


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """Live jobs in five statuses: first none is overdue, then one in ten, which the dog closes."""
    place(engine, 20, 5)
    activated_jobs(engine, Shape(jobs))
    # moves that no agent makes in one step are not guarded meanwhile
    run(engine, "SET LOCAL session_replication_role = replica", _ELSEWHERE)
    run(engine, "ANALYZE")
    ddm: Any = Held(0)
    world = make_world(engine, ddm)

    def look() -> float:
        def work() -> None:
            assert walk(world, DOGS["timeouts"]) == Counts()

        return seconds(work)

    def floor() -> float:
        def work() -> None:
            with engine.begin() as tx:
                read = "SELECT max(statechangetime) FROM jedi_jobs WHERE postprocessed_at IS NULL"
                tx.execute(text(read)).one()

        return seconds(work)

    took = medians({"look": look, "floor": floor}, REPEATS if jobs == JOBS else 1)
    with engine.begin() as tx:
        waiting = "UPDATE jedi_jobs SET statechangetime = jedi_now() - interval '30 d' WHERE "
        late = tx.execute(text(f"{waiting} status = 'activated' AND pandaid % {OVERDUE} = 0"))
    closed: list[Counts] = []
    close = seconds(lambda: closed.append(walk(world, DOGS["timeouts"])))
    number = closed[0].total()
    assert number == late.rowcount > 0, closed
    look_ms, allowed = 1000 * took["look"], GOAL_MS * jobs / JOBS
    return [
        Result(
            f"a look at {jobs:,} live jobs, floor: reading them",
            "looks/s",
            1 / took["look"],
            1 / took["floor"],
            note=f"{look_ms:.0f} ms, {allowed:.0f} are allowed",
            least=1000 / allowed if jobs == JOBS else None,
        ),
        Result(f"close {number:,} of {jobs:,} jobs", "jobs/s", number / close),
    ]
