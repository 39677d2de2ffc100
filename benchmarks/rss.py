"""Whether agents grow: their resident memory after few tasks and after many."""

from __future__ import annotations

from sqlalchemy import Engine

from benchmarks import real
from benchmarks.common import Result
from jedi.agent.registry import AGENTS
from jedi.core import clock
from jedi.taskbuffer.housekeeping import agents

FEW, MANY = 200, 2_000
MOST = 1.1


def measure(engine: Engine) -> list[Result]:
    """Memory of every agent after `FEW` tasks, beside that after `MANY`."""
    with real.system(engine, agent_heartbeat_s=1.0, pilot_max_jobs=1000, agent_rest_s=0):
        before, after = _after(engine, FEW), _after(engine, MANY)
    return [
        Result(f"{agent} after {FEW:,} tasks, floor: {MANY:,}", "MB", rss, after[agent], 1 / MOST)
        for agent, rss in before.items()
    ]


def _after(engine: Engine, tasks: int) -> dict[str, float]:
    """What each agent needs when so many tasks are done, in MB, told in a later heartbeat."""
    for _ in range(real.ended(engine), tasks):
        real.submit(engine)
    real.until(lambda: real.ended(engine) == tasks)
    done = clock.monotonic()

    def told() -> bool:
        with engine.begin() as tx:
            found = [row for row in agents.ALL_AGENTS.rows(tx) if row.rss_kb is not None]
        awake = {row.agent for row in found} == {*AGENTS}
        return awake and max(row.age_s for row in found) < clock.monotonic() - done

    real.until(told)
    with engine.begin() as tx:
        found = agents.ALL_AGENTS.rows(tx)
    return {row.agent: row.rss_kb / 1024 for row in found if row.rss_kb is not None}
