"""Builders that several tests share with tests of scouting."""

# Raw UPDATEs: measurements; the pilots are not there.

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from support.calls import call
from support.commanding import (
    add_inputs,
    take,
)
from support.commanding import end as end_jobs
from support.generating import document, generate, ready, rows

MEASURES = {
    "wall_s": 1000.0,
    "cpu_s": 900.0,
    "max_pss_kb": 700 * 1024,
    "workdir_kb": 4000,
    "input_bytes": 2_000_000,
    "output_bytes": 1_000_000,
    "read_bytes": 3_000_000,
    "write_bytes": 1_000_000,
}


def fed(world: World, n_files: int = 30, **keys: Any) -> int:
    add_inputs(world, n_files)
    [task] = ready(
        world, document(**{"nFilesPerJob": 1, "site": "SITE_A", "skipScout": False, **keys})
    )
    return task


def scouting(world: World, n_files: int = 30, **keys: Any) -> int:
    """A task whose scout jobs are made."""
    task = fed(world, n_files, **keys)
    assert generate(world) == 1
    return task


def set_knobs(world: World, **values: Any) -> None:
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, f"scout.{name}", value, "op")


def task_row(world: World, task: int) -> Any:
    [row] = rows(world, "SELECT * FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    return row


def history(world: World, task: int) -> list[str]:
    with world.engine.begin() as tx:
        return [step.status for step in service.history(call(tx), task)]


def end(world: World, panda_ids: Sequence[int], target: str = "finished", **more: Any) -> None:
    """Jobs run at a pilot, which measures them, and end so."""
    take(world, panda_ids)
    measures = {**MEASURES, **more}
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                f"UPDATE jedi_jobs SET {', '.join(f'{name} = :{name}' for name in measures)}, "
                "starttime = :begin, endtime = :end WHERE pandaid = ANY(:ids)"
            ),
            {
                **measures,
                "ids": list(panda_ids),
                "begin": begin,
                "end": begin + timedelta(seconds=measures["wall_s"]),
            },
        )
    end_jobs(world, panda_ids, target)
