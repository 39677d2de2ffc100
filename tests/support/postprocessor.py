"""Builders that several tests share with tests of postprocessor."""

# Raw UPDATEs: inputs in every status, also those to which no short way leads.

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text

from jedi.agent.base import World
from jedi.postprocessor.outcome import EndingDataset, PostProcessing
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from support.job_rows import Made, make_jobs
from support.situations import lead

PLUGIN = PostProcessing()


def master(
    wanted: int, finished: int, failed: int = 0, missing: int = 0, **more: Any
) -> EndingDataset:
    values = {
        "dataset_id": 1,
        "name": "s:d",
        "type": "input",
        "master_id": None,
        "status": "ready",
        **more,
    }
    return EndingDataset(
        to_be_used=wanted, finished=finished, failed=failed, missing=missing, **values
    )


def end(tx: Connection, made: Made, targets: list[str]) -> None:
    ends = [JobEnd(job, target, "c", "r") for job, target in zip(made.jobs, targets, strict=True)]
    assert len(job_ends.end_jobs(tx, ends, "test")) == len(targets)


def finish_jobs(tx: Connection, made: Made, targets: list[str]) -> None:
    lead(tx, made.jobs, "sent", "holding")
    end(tx, made, targets)


def processed(world: World, input_status: str) -> Made:
    """A task whose only job has finished, with its input in this status."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, max_attempt=1)
        finish_jobs(tx, made, ["finished"])
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text("UPDATE jedi_datasets SET status = :s WHERE type = 'input'"), {"s": input_status}
        )
    return made
