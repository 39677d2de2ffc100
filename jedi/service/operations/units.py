"""Operations on units of tasks: what the Python interface calls subjobs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from jedi.service.operations.arguments import Sha256
from jedi.service.operations.submission import TEXTS_MAX, uploaded
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.units import SubmittedUnits, settle_key, submit_units

SubmissionKey = Annotated[str, Field(min_length=1, max_length=200)]
"""A key that its user has chosen, unique for ever."""


@operation("unit.submit", "POST", "/v1/units/submit", ANYBODY, scope="submit", body_max=TEXTS_MAX)
def submit(
    call: Call,
    document: dict[str, Any],
    units: Annotated[list[Any], Field(min_length=1)],
    key: SubmissionKey,
    sandbox: Sha256 | None = None,
    keep_going: bool = True,
) -> SubmittedUnits:
    """Submit a task with splitter Explicit, and its units, each with `options` and, if it reads
    some of the input alone, `files`. A unit that JEDI refuses does not stop the others; without
    `keep_going` those after it are not tried. `key`: makes one task at most."""
    files = uploaded(call, sandbox)
    done = submit_units(call.tx, call.ddm, call.who, document, units, files, key,
                              keep_going=keep_going)  # fmt: skip
    call.subject = f"task {done.jedi_task_id}"
    return done


@operation("unit.settle", "POST", "/v1/units/settle", ANYBODY, scope="submit")
def settle(call: Call, key: SubmissionKey) -> SubmittedUnits | None:
    """Settle a submission whose answer was lost, by its key: the task; or none, and then a
    submission that arrives later is refused."""
    found = settle_key(call.tx, call.who, key)
    call.subject = f"task {found.jedi_task_id}" if found else None
    return found
