"""Operations on units of tasks: what the Python interface calls subjobs."""

from __future__ import annotations

from typing import Any

from jedi.service.operations.arguments import Sha256, SubmissionKey
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.submission.submission_requests import TEXTS_MAX, uploaded
from jedi.service.units import unit_details as service


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
