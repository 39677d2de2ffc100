"""Builders that several tests share with tests of adder."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.attempt import HeldJob, ReportedJob
from jedi.model.jobs.wire import Report, Resources, StagedOutput
from jedi.taskbuffer.jobs import dispatch
from support.job_rows import Made, make_jobs
from support.statuses import statuses

SITE, ENDPOINT = "SITE_A", "SITE_A_DATADISK"


class Pilot:
    """Plays the part of pilots: takes jobs, stages files, reports."""

    def __init__(self, world: World, n: int = 1, **task: Any) -> None:
        self.world = world
        with world.engine.begin() as tx:
            self.made: Made = make_jobs(tx, n, **task)
            self.jobs: list[HeldJob] = dispatch.acquire(
                tx, SITE, n, Resources(cores=1), str(self.made.task), "p"
            )
        for kind in ("output", "log"):
            world.ddm.create(self.dataset(kind), task.get("destination") or ENDPOINT)

    def dataset(self, kind: str) -> str:
        return f"test:{self.made.task}.{kind}"

    def staging(self, job: HeldJob) -> Path:
        return self.world.ddm.staging_dir(ENDPOINT, job.panda_id, job.lock_seq)

    def stage(self, job: HeldJob, *kinds: str) -> list[StagedOutput]:
        self.staging(job).mkdir(parents=True)
        made = []
        for file in job.files:
            if file.type in kinds:
                data = f"made by {job.panda_id}".encode()
                (self.staging(job) / file.lfn).write_bytes(data)
                made.append(
                    StagedOutput(
                        lfn=file.lfn, size=len(data), guid="ab", adler32=f"{zlib.adler32(data):08x}"
                    )
                )
        return made

    def tell(self, job: HeldJob, status: Any, outputs: list[StagedOutput], **more: Any) -> None:
        said = Report(
            pandaid=job.panda_id, lock_seq=job.lock_seq, status=status, outputs=outputs, **more
        )
        with self.world.engine.begin() as tx:
            assert dispatch.accept_reports(tx, SITE, [said]) == [status]

    def finish(self) -> None:
        for job in self.jobs:
            self.tell(job, "finished", self.stage(job, "output", "log"))

    def published(self, kind: str) -> list[str]:
        return [file.lfn for file in self.world.ddm.list_files(self.dataset(kind))]

    def statuses(self) -> list[str]:
        return statuses(self.world, self.made.task)

    def error(self) -> tuple[str, str, str]:
        with self.world.engine.begin() as tx:
            row = tx.execute(text("SELECT error_source, error_code, error_diag FROM jedi_jobs"))
            return tuple(row.one())


def adder(world: World) -> Adder:
    return Adder(World(world.engine, world.settings, world.load_knobs, world.load_ddm))


def claimed(world: World) -> tuple[Adder, list[ReportedJob]]:
    """An Adder, and the jobs that it has taken and not yet ended."""
    agent = adder(world)
    agent.world.refresh()
    with world.engine.begin() as tx:
        return agent, agent.claim(tx, 10)
