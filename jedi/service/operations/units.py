"""Operations on units of tasks: what the Python interface calls subjobs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from jedi.model.jobs.needs import JobNeeds
from jedi.service import unit_resplits, unit_verbs
from jedi.service import units as service
from jedi.service.operations.arguments import (
    Comment,
    PageRows,
    Sha256,
    SubmissionKey,
    TaskId,
)
from jedi.service.operations.submission import TEXTS_MAX, uploaded
from jedi.service.operations.table import ANYBODY, OWNER, Call, operation
from jedi.service.unit_resplits import ResplitUnits
from jedi.service.unit_verbs import AnsweredUnit
from jedi.taskbuffer.reports.unit_states import UnitAttempt, UnitInput, UnitOutput


@operation(
    "unit.submit",
    "POST",
    "/v1/units/submit",
    ANYBODY,
    scope="submit",
    body_max=TEXTS_MAX,
    dry_run=True,
    heavy=True,
)
def submit(
    call: Call,
    document: dict[str, Any],
    key: SubmissionKey,
    units: list[Any] | None = None,
    sandbox: Sha256 | None = None,
    keep_going: bool = True,
) -> service.SubmittedUnits:
    """Submit a task with its units (splitter Explicit), each with `options` and, if it reads some
    of the input alone, `files`; or with a splitter that makes them. A unit that JEDI refuses
    does not stop the others; without `keep_going` those after it are not tried. `key`: makes one
    task at most."""
    files = uploaded(call, sandbox)
    done = service.submit_units(
        call.tx, call.ddm, call.who, document, units, files, key, call.knobs, keep_going=keep_going
    )
    call.subject = f"task {done.jedi_task_id}"
    return done


@operation("unit.settle", "POST", "/v1/units/settle", ANYBODY, scope="submit", dry_run=True)
def settle(call: Call, key: SubmissionKey) -> service.SubmittedUnits | None:
    """Settle a submission whose answer was lost, by its key: the task; or none, and then a
    submission that arrives later is refused."""
    found = service.settle_key(call.tx, call.who, key)
    call.subject = f"task {found.jedi_task_id}" if found else None
    return found


class UnitCursor(BaseModel, extra="forbid", strict=True):
    """A task, and the cursor of the last answer about it."""

    jedi_task_id: TaskId
    cursor: Annotated[str, Field(max_length=200)] | None = None


UnitNr = Annotated[int, Field(ge=1, lt=2**31)]
UnitNrs = Annotated[list[UnitNr], Field(min_length=1, max_length=100_000)] | None
"""Numbers of units; None: all."""


FileId = Annotated[int, Field(ge=0, lt=2**63)]


@operation(
    "unit.states", "POST", "/v1/units/states", ANYBODY, scope="read", question=True, heavy=True
)
def states(
    call: Call,
    jobs: Annotated[list[UnitCursor], Field(min_length=1, max_length=10_000)],
    limit: PageRows = service.PAGE,
) -> list[service.UnitStates]:
    """Show the states of units of tasks: their numbers, and those units that changed since the
    cursor of each task; all, if it has none. An answer is about `limit` units at most: where
    `more`, ask again with the new cursor; the numbers are those of the units so far."""
    asked = {one.jedi_task_id: one.cursor for one in jobs}
    return service.states(call.tx, asked, limit)


@operation("unit.attempts", "GET", "/v1/tasks/{jedi_task_id}/units/{unit_nr}/attempts", ANYBODY)
def attempts(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: UnitNr,
    after: FileId = 0,
    limit: PageRows = service.PAGE,
) -> list[UnitAttempt]:
    """List the attempts of a unit, which are jobs, the first one first. `after`: the last PandaID
    of the page before."""
    return service.attempts(call.tx, jedi_task_id, unit_nr, after, limit)


@operation("unit.inputs", "GET", "/v1/tasks/{jedi_task_id}/units/{unit_nr}/inputs", ANYBODY)
def inputs(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: UnitNr,
    after: FileId = 0,
    limit: PageRows = service.PAGE,
) -> list[UnitInput]:
    """List the files of datasets that a unit reads. `after`: the last file id of the page
    before."""
    return service.inputs(call.tx, jedi_task_id, unit_nr, after, limit)


@operation("unit.outputs", "GET", "/v1/tasks/{jedi_task_id}/units/outputs", ANYBODY, heavy=True)
def outputs(
    call: Call, jedi_task_id: TaskId, after: FileId = 0, limit: PageRows = service.PAGE
) -> list[UnitOutput]:
    """List the outputs of a task that are kept, each with its unit. `after`: the last file id of
    the page before."""
    return service.outputs(call.tx, jedi_task_id, after, limit)


@operation("unit.kill", "POST", "/v1/units/kill", OWNER, dry_run=True, heavy=True)
def kill(
    call: Call, jedi_task_id: TaskId, unit_nrs: UnitNrs = None, comment: Comment = None
) -> list[AnsweredUnit]:
    """Kill units of a task, or all that are live; they are not retried automatically."""
    call.subject = f"task {jedi_task_id}"
    return unit_verbs.kill(call.tx, call.who, jedi_task_id, unit_nrs, comment)


@operation("unit.resubmit", "POST", "/v1/units/resubmit", OWNER, dry_run=True, heavy=True)
def resubmit(
    call: Call,
    *,
    jedi_task_id: TaskId,
    unit_nrs: UnitNrs = None,
    needs: JobNeeds,
    comment: Comment = None,
) -> list[AnsweredUnit]:
    """Submit completed, failed or killed units of a task again, in place; by default those that
    failed or were killed. A task that has ended goes on with these units alone. `site`, `cores`,
    `memory_mb` and `walltime_s`: for the new jobs of the task; `max_attempts`: for the units."""
    call.subject = f"task {jedi_task_id}"
    return unit_verbs.resubmit(call.tx, call.who, jedi_task_id, unit_nrs, comment, needs)


@operation("unit.resplit", "POST", "/v1/units/resplit", OWNER, dry_run=True, heavy=True)
def resplit(
    call: Call,
    jedi_task_id: TaskId,
    unit_nrs: Annotated[list[UnitNr], Field(min_length=1, max_length=10_000)],
    files: Annotated[int, Field(ge=1, lt=2**31)],
    comment: Comment = None,
) -> ResplitUnits:
    """Cut the input of ended units again, into parts of at most so many files. The units are
    superseded: they count no longer. New units get the next numbers, and run."""
    call.subject = f"task {jedi_task_id}"
    return unit_resplits.resplit(call.tx, call.who, jedi_task_id, unit_nrs, files, comment)
