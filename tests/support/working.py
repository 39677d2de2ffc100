"""The way of tasks through the agents, without pilots: jobs end as a test wants them to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from jedi.agent.base import Agent, World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.jobgenerator.agent import JobGenerator
from jedi.postprocessor.agent import PostProcessor
from jedi.service.system.check import check
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.jobs.jobs import JobMove
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner
from support.helpers import publish

ENDPOINT = "SITE_A_DATADISK"
AGENTS: tuple[type[Agent[Any, Any]], ...] = (
    TaskRefiner,
    ContentsFeeder,
    JobGenerator,
    PostProcessor,
    TaskCommando,
)


def end_jobs(world: World, target: str = "finished", of: Sequence[int] | None = None) -> int:
    """End all live jobs (or those of these tasks), at SITE_A with their outputs; how many."""
    with world.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT pandaid FROM jedi_jobs WHERE postprocessed_at IS NULL "
                "AND jeditaskid = ANY(coalesce(CAST(:of AS bigint[]), ARRAY[jeditaskid]))"
            ),
            {"of": of and list(of)},
        )
        ids = sorted(row.pandaid for row in rows)
        if target == "finished":
            datasets.wake_consumers(tx, publish(world, tx, ids, ENDPOINT))
        for source, now in (("activated", "sent"), ("sent", "holding")):
            jobs.move_jobs(tx, [JobMove(job, now, "c", "r") for job in ids], "test", [source])
        ended = job_ends.end_jobs(tx, [JobEnd(job, target, "c", "r") for job in ids], "test")
    return len(ended)


def turn(agent: Agent[Any, Any]) -> int:
    """A cycle as an idle agent has it; its first look misses nothing."""
    found = agent.look()
    assert found or not agent.run_once()
    return found


def cycle(world: World, *, jobs_end_too: bool = True) -> None:
    """All that can be done now; the system's records agree afterwards."""
    agents = [agent(world) for agent in AGENTS]
    for _ in range(100):
        if not sum(turn(agent) for agent in agents) + (jobs_end_too and end_jobs(world)):
            break
    else:
        raise AssertionError("the agents don't come to rest")
    with world.engine.begin() as tx:
        assert [found for found in check(tx) if found.violations] == []
