"""Operations for clients of PanDA's: their uploads and their tasks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, OWNER, Call, operation
from jedi.service.submission.storing import Submitted
from jedi.service.submission.submission_requests import SANDBOX_MAX, TEXTS_MAX
from jedi_panda.service import cache
from jedi_panda.service import submission as panda

FileName = Annotated[str, Field(min_length=1, max_length=300)]
Checksum = Annotated[int, Field(ge=0, lt=2**32)]
Attempts = Annotated[int, Field(ge=1, le=1_000)]


@operation(
    "cache.put",
    "PUT",
    "/v1/cache/{file_name}",
    ANYBODY,
    scope="submit",
    raw=True,
    body_max=SANDBOX_MAX,
)
def put(call: Call, file_name: FileName, data: bytes) -> str:
    """Keep an upload of a client of PanDA's under a name with a UUID. A name that ends with
    `.__ow__` replaces an earlier upload of the caller."""
    call.subject = f"upload {file_name}"
    return cache.put(call.tx, call.knobs, call.who, file_name, data)


@operation("cache.find", "POST", "/v1/cache", ANYBODY, scope="submit")
def find(call: Call, size: Annotated[int, Field(ge=0)], checksum: Checksum) -> str | None:
    """Find an upload of the caller by its size in bytes and the CRC-32 at its end, and keep it
    longer."""
    call.subject = "uploads"
    return cache.find(call.tx, call.who, size, checksum)


@operation(
    "panda.submit",
    "POST",
    "/v1/panda/tasks",
    ANYBODY,
    scope="submit",
    body_max=TEXTS_MAX,
    dry_run=True,
)
def submit(
    call: Call, task_parameters: dict[str, Any], parent_tid: TaskId | None = None
) -> Submitted:
    """Submit a task as a client of PanDA's describes it. `parent_tid`: the task that comes
    first."""
    done = panda.submit(
        call.tx, call.ddm, call.knobs, call.who, task_parameters, parent_tid, validate=call.dry_run
    )
    call.subject = f"task {done.jedi_task_id}"
    return done


@operation(
    "task.increase_attempts",
    "POST",
    "/v1/tasks/{jedi_task_id}/attempts",
    OWNER,
    dry_run=True,
    deed="incexec it",
)
def increase_attempts(call: Call, jedi_task_id: TaskId, increase: Attempts = 3) -> int:
    """Continue a task whose files may have more attempts. The answer is the number of the
    command."""
    call.subject = f"task {jedi_task_id}"
    return panda.raise_attempts(call.tx, call.knobs, call.who, jedi_task_id, increase)
