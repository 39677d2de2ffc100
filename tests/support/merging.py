"""Builders that several tests share with tests of merging."""

# Raw UPDATEs: sizes of outputs; the pilots are not there.

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jedi.agent.base import World
from jedi.taskbuffer.jobs import dispatch, merging
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from support.commanding import add_inputs, counts, end, everything, jobs, status, take
from support.generating import document, generate, ready, rows
from support.helpers import publish
from support.situations import make_due

SPEC = {"transPath": "sort -m", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"}


def task_of(world: World, n_files: int = 4, **keys: Any) -> int:
    """A merging task of a job a file, whose jobs are made."""
    add_inputs(world, n_files)
    said: dict[str, Any] = {
        "nFilesPerJob": 1,
        "site": "SITE_A",
        "mergeOutput": True,
        "mergeSpec": SPEC,
        **keys,
    }
    [task] = ready(world, document(**said))
    assert generate(world) == 1
    return task


def make(world: World, panda_ids: Sequence[int], size: int = 100) -> None:
    """Pilots run these jobs; what they made waits to be merged."""
    take(world, panda_ids)
    with world.engine.begin() as tx:
        publish(world, tx, panda_ids, "SITE_A_DATADISK")
        tx.exec_driver_sql(
            "UPDATE jedi_job_files SET fsize = %s WHERE pandaid = ANY(%s) AND type = 'output'",
            (size, list(panda_ids)),
        )
        moves = [JobMove(job, "holding", "reported", "Reported.") for job in panda_ids]
        move_jobs(tx, moves, dispatch.AGENT, ["sent"])
        moves = [JobMove(job, "merging", "to_be_merged", "Made.") for job in panda_ids]
        assert len(merging.await_merge(tx, moves, "Adder", 3)) == len(panda_ids)


def run(world: World, panda_ids: Sequence[int], target: str = "finished") -> None:
    take(world, panda_ids)
    end(world, panda_ids, target)


def kinds(world: World, task: int) -> Counter[tuple[str, str]]:
    query = "SELECT kind, status FROM jedi_jobs WHERE jeditaskid = :t"
    return Counter((row.kind, row.status) for row in rows(world, query, t=task))


def merge_jobs(world: World, task: int) -> list[Any]:
    query = (
        "SELECT j.*, pandaid AS panda_id FROM jedi_jobs j "
        "WHERE jeditaskid = :t AND kind = 'merge' ORDER BY pandaid"
    )
    return rows(world, query, t=task)


def merged_at_last(world: World, task: int) -> str:
    """All jobs succeed until the task has ended."""
    for _ in range(20):
        make_due(world)
        everything(world)
        waiting = jobs(world, task, "activated")
        if not waiting:
            return status(world, task)
        merges = {job.panda_id for job in merge_jobs(world, task)}
        make(world, [job for job in waiting if job not in merges])
        run(world, [job for job in waiting if job in merges])
    raise AssertionError(f"task {task} does not end: {counts(world, task)}")
