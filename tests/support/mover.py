"""Builders that several tests share with tests of mover."""

# Raw UPDATEs: the generator makes such jobs only with data management that has copies elsewhere.

from __future__ import annotations

import zlib
from typing import Any

from sqlalchemy import Connection, text

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.wire import Report, Resources, StagedOutput
from jedi.taskbuffer.jobs import dispatch
from support.helpers import put_file_dataset
from support.job_rows import Made, make_jobs
from support.statuses import statuses

A, B = "SITE_A_DATADISK", "SITE_B_DATADISK"


def assign(tx: Connection, made: Made) -> None:
    """Jobs as the generator leaves them when their inputs are elsewhere."""
    tx.execute(text("SET LOCAL session_replication_role = replica"))  # no such move in real life
    values = {"task": made.task, "ids": made.jobs}
    tx.execute(text("UPDATE jedi_jobs SET status = 'assigned' WHERE jeditaskid = :task"), values)
    tx.execute(text("DELETE FROM jedi_job_ready WHERE pandaid = ANY(:ids)"), values)
    tx.execute(text("UPDATE job_stats_delta SET status = 'assigned'"))


def assigned_jobs(world: World, n: int, missing: int = 0, **options: Any) -> Made:
    """`n` jobs of SITE_A whose inputs, but for the last `missing` files, are at SITE_B."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, n, **options)
        assign(tx, made)
        lfns = tx.scalars(
            text("SELECT lfn FROM jedi_dataset_contents WHERE datasetid = :d ORDER BY fileid"),
            {"d": made.input},
        ).all()
    there = lfns[: len(lfns) - missing]
    put_file_dataset(world, f"test:{made.task}.input", dict.fromkeys(there, b"abc"), B)
    return made


def transferring_jobs(world: World, n: int) -> Made:
    """`n` jobs that ran at SITE_A, whose outputs and logs belong to SITE_B."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, n, destination=B)
        held = dispatch.acquire(tx, "SITE_A", n, Resources(cores=1), "r", "p")
    for kind in ("output", "log"):
        world.ddm.create(f"test:{made.task}.{kind}", B)
    reports = []
    for job in held:
        staging = world.ddm.staging_dir(A, job.panda_id, job.lock_seq)
        staging.mkdir(parents=True)
        outputs = []
        for file in job.files:
            if file.type in ("output", "log"):
                data = file.lfn.encode()
                (staging / file.lfn).write_bytes(data)
                outputs.append(
                    StagedOutput(
                        lfn=file.lfn,
                        size=len(data),
                        guid="0" * 36,
                        adler32=f"{zlib.adler32(data):08x}",
                    )
                )
        reports.append(
            Report(pandaid=job.panda_id, lock_seq=job.lock_seq, status="finished", outputs=outputs)
        )
    with world.engine.begin() as tx:
        dispatch.accept_reports(tx, "SITE_A", reports)
    Adder(world).run_once()
    assert statuses(world, made.task) == ["transferring"] * n
    return made
