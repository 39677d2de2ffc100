"""Builders that several tests share with tests of generate."""

from __future__ import annotations

from typing import Any

from jedi.agent.base import World
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from support.generating import rows


def turn(world: World, **values: Any) -> None:
    """Set knobs, `component__key`."""
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, name.replace("__", "."), value, "test")


def jobs_of(world: World, task_id: int) -> list[Any]:
    """The jobs of a task with their commands and the number of their ends."""
    return rows(
        world,
        "SELECT j.*, pandaid AS panda_id, p.jobparameters AS command "
        "FROM jedi_jobs j JOIN jedi_job_params p "
        "USING (pandaid) WHERE jeditaskid = :t ORDER BY pandaid",
        t=task_id,
    )


def inputs_of(world: World, task_id: int, kind: str = "input") -> dict[int, list[str]]:
    """The input files of each job."""
    found: dict[int, list[str]] = {}
    for row in rows(
        world,
        "SELECT pandaid, lfn FROM jedi_job_files WHERE jeditaskid = :t AND type = :k "
        "ORDER BY pandaid, fileid",
        t=task_id,
        k=kind,
    ):
        found.setdefault(row.pandaid, []).append(row.lfn)
    return found


def end(world: World, target: str, *panda_ids: int) -> None:
    """End jobs that wait; a success has been handed out and reported before."""
    with world.engine.begin() as tx:
        for before, after in (("activated", "sent"), ("sent", "holding")):
            if target == "finished":
                moves = [JobMove(i, after, "test", "test") for i in panda_ids]
                move_jobs(tx, moves, "test", [before])
        ends = [JobEnd(i, target, "test", "test") for i in panda_ids]
        assert len(end_jobs(tx, ends, "test")) == len(panda_ids)
