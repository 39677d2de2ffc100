"""Tasks are changed as retry rules say: more memory for all, more time, less input for a job."""

from __future__ import annotations

from math import ceil
from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.model.jobs.retry_rules import reduced
from jedi.model.jobs.scouting import PROVEN, Declared
from jedi.model.scheduling.resource_types import ResourceType, resource_type
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.jobs import retry_rules
from jedi.taskbuffer.jobs.retry_rules import RetryCause
from jedi.taskbuffer.tasks import new_tasks
from jedi.watchdog.dog import Counts, Dog, in_batches

_SPARE = 1.5
"""Time that jobs get, by that of the last one. Source:
docs/reference/retries-and-timeouts.md#retry-rules."""
_MOST = 2**31 - 1


def run(world: World) -> Counts:
    """Source: JEDI document, "Memory increase in job retry";
    docs/reference/retries-and-timeouts.md#retry-rules."""
    percent = float(world.knobs.retryrules.memory_percent)
    most_files = int(world.knobs.jobgen.max_files_per_job)

    def step(tx: Connection, limit: int) -> Counts:
        tasks = retry_rules.due(tx, limit)
        if not tasks:
            return Counts()
        causes = retry_rules.CAUSES.rows(
            tx, ids=[*tasks]
        )  # before what they have done to files is counted
        types = new_tasks.RESOURCE_TYPES.rows(tx)
        wanted = retry_rules.wanted_memory(tx, [*tasks], percent)
        columns = {i: _larger(tasks[i], ram, types) for i, ram in wanted.items()}
        columns = {i: given for i, given in columns.items() if given}
        rules: dict[int, SplitRules] = {}
        for cause in causes:
            task = tasks[cause.jedi_task_id]
            if cause.action == "increase_cputime":
                columns.setdefault(task.jedi_task_id, {}).update(_longer(task, cause))
            elif cause.action == "reduce_input_per_job":
                present = SplitRules.model_validate(task.rules or {})
                if less := reduced(present, cause.attempt_nr, most_files):
                    rules[task.jedi_task_id] = less
        retry_rules.change(tx, columns, rules)
        return Counts(tasks=len(tasks))

    return in_batches(world, step)


def _larger(task: ClaimedTask, ram_mb: int, types: list[ResourceType]) -> dict[str, Any]:
    """More memory for all jobs of a task, unless its own figure is fixed."""
    declared = Declared.of(task)
    if declared.ram_unit.endswith("Fixed"):
        return {}
    shape = resource_type(
        types, declared.core_count, ram_mb, declared.ram_unit, declared.base_ram_mb
    )
    return {"ramcount": ram_mb, "resource_type": shape, "figures": {"ram_count": {PROVEN: ram_mb}}}


def _longer(task: ClaimedTask, cause: RetryCause) -> dict[str, Any]:
    """More time for an event; a task of which jobs have finished is measured anew."""
    declared = Declared.of(task)
    if declared.cpu_time_unit.endswith("Fixed"):
        return {}
    if cause.succeeded or not cause.hs06_s_per_event:
        return {"measured_jobs": 0}
    time = min(_MOST, ceil(cause.hs06_s_per_event * declared.cpu_efficiency / 100 * _SPARE))
    present = (declared.cpu_time or 0) / (1000 if declared.cpu_time_unit.startswith("m") else 1)
    if time <= present:
        return {}
    figures = {"cpu_time": {PROVEN: time}}
    return {"cputime": time, "cputimeunit": "HS06sPerEvent", "figures": figures}


DOG = Dog(
    "retries",
    "watchdog.retries_period_s",
    "retry rules change tasks",
    run,
    retry_rules.ANY_DUE.value,
)
