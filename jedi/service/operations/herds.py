"""Operations on herds: their members, their manifests, and the chain of any task."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jedi.model.queries import MostRows
from jedi.service import herds
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation

PAGE = 1_000


@operation("task.herd", "GET", "/v1/tasks/{jedi_task_id}/herd", ANYBODY, heavy=True)
def show(
    call: Call,
    jedi_task_id: TaskId,
    after: Annotated[int, Field(ge=0, lt=2**31)] = 0,
    limit: MostRows = PAGE,
) -> herds.HerdReport:
    """Show the herd of a task with a splitter: JobSplitType, MasterJobID, members. `after`: the
    last unit of the page before."""
    return herds.show(call.tx, jedi_task_id, after, limit)


@operation("job.herd", "GET", "/v1/jobs/{panda_id}/herd", ANYBODY, heavy=True)
def of_job(
    call: Call,
    panda_id: TaskId,
    after: Annotated[int, Field(ge=0, lt=2**31)] = 0,
    limit: MostRows = PAGE,
) -> herds.HerdReport:
    """Show the herd of a job: any member and any attempt. `after`: the last unit of the page
    before."""
    return herds.show(call.tx, herds.task_of(call.tx, panda_id), after, limit)


@operation("task.chain", "GET", "/v1/tasks/{jedi_task_id}/chain", ANYBODY, heavy=True)
def chain(call: Call, jedi_task_id: TaskId) -> list[herds.ChainStep]:
    """Show the steps of a task from its submission to its jobs, with state, time and reason."""
    return herds.chain(call.tx, jedi_task_id, unit_s=call.knobs.throttle.unit_s)


@operation("task.jdl", "GET", "/v1/tasks/{jedi_task_id}/jdl", ANYBODY)
def jdl(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: Annotated[int, Field(ge=1, lt=2**31)] | None = None,
) -> str:
    """Give the manifest of a task, or of a unit of a herd, in JDL: as submitted, if it was JDL."""
    return herds.jdl(call.tx, jedi_task_id, unit_nr)
