"""Builders that several tests share with tests of scouts."""

from __future__ import annotations

from dataclasses import replace

from jedi.core.knobs import Knobs
from jedi.model.jobs.scouting import (
    Declared,
    Judgement,
    Progress,
    Scout,
    Scouted,
)
from jedi.postprocessor.scouts import judge

CLASSIC = Knobs()
CURRENT = Knobs({"core.preset": "current", "scout.ram_min_mb": 0})
MB = 2**20
USER = Declared("user", None, "HS06sPerEvent", 90, 600, 1, None, "MBPerCore", 0, 0.0)
MANAGED = replace(USER, label="managed")
JOB = Scout(
    wall_s=7200,
    lasted_s=7200,
    cpu_s=7000,
    cores=8,
    core_power=10,
    n_files=1,
    n_events=500,
    memory_kb=8 * 2000 * 1024,
    workdir_kb=5000,
    input_bytes=100 * MB,
    output_bytes=50 * MB,
    local_bytes=720_000_000,
)


def judged(
    *jobs: Scout,
    task: Declared = USER,
    n_files: int = 100,
    finished: int | None = None,
    failed: int = 0,
    knobs: Knobs = CLASSIC,
) -> Judgement:
    done = sum(job.n_files for job in jobs) if finished is None else finished
    return judge(Scouted(task, Progress(n_files, done, failed), jobs), knobs)
