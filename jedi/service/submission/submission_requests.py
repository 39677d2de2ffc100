"""Operations that bring tasks in: their local files, their texts, their forecast."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from jedi_client.sandbox import Sandbox, verify
from pydantic import BaseModel, Field

from jedi.core import clock
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.model.tasks.text import MAX_CHARACTERS
from jedi.service.brokerage import system_state
from jedi.service.foreign import asking
from jedi.service.operations.arguments import ManyTasks, Sha256, SubmissionKey
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.planning import text_plans
from jedi.service.planning.text_plans import Alternative, PlanWithAlternative
from jedi.service.submission import collection, execution, newcode
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.sandbox import Uploaded
from jedi.service.submission.storing import Submitted
from jedi.taskbuffer.jobs import order_files
from jedi.taskbuffer.tasks import new_tasks

TEXTS_MAX = 16 * 2**20
"""Bytes of a submission."""
SANDBOX_MAX = 512 * 2**20
"""Bytes of an upload; the knob sandbox.max_mb may ask for less."""
SNAPSHOT_MAX = 64 * 2**20

TextFormat = Literal["yaml", "json", "jdl"]
Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class TaskText(BaseModel, extra="forbid", strict=True):
    """A task, or several, in a text; `name`: the file's, for errors."""

    text: Text
    format: TextFormat = "yaml"
    name: Annotated[str, Field(max_length=1_000)] = "task"


Texts = Annotated[list[TaskText], Field(min_length=1, max_length=1_000)]


@operation(
    "task.needs",
    "POST",
    "/v1/tasks/needs",
    ANYBODY,
    scope="submit",
    body_max=TEXTS_MAX,
    question=True,
)
def needs(call: Call, texts: Texts) -> list[list[str]]:
    """List, for each task in texts, the paths of its local files: they are packed and uploaded
    before the task is submitted."""
    return [_paths(call, one) for one in _documents(call, texts, None)]


def _paths(call: Call, one: Document) -> list[str]:
    params = examined(one, call.who).params
    return [*params.sandbox] if params else []  # the submission tells what is wrong


@operation(
    "sandbox.put",
    "PUT",
    "/v1/sandboxes/{sha256}",
    ANYBODY,
    scope="submit",
    raw=True,
    body_max=SANDBOX_MAX,
)
def put_sandbox(call: Call, sha256: Sha256, data: bytes) -> None:
    """Keep a sandbox: a .tar.gz of plain files, by its sha256. Its members are checked."""
    call.subject = f"sandbox {sha256[:12]}"
    sandbox = verify(data, sha256, int(call.knobs.sandbox.max_mb))
    new_tasks.PUT_SANDBOX.run(call.tx, sha256=sandbox.sha256, data=sandbox.data)


@operation("sandbox.known", "GET", "/v1/sandboxes/{sha256}", ANYBODY)
def sandbox_known(call: Call, sha256: Sha256) -> bool:
    """Check if JEDI has a sandbox, so that nobody uploads it twice."""
    return new_tasks.HAS_SANDBOX.value(call.tx, sha256=sha256)


@operation(
    "task.submit", "POST", "/v1/tasks", ANYBODY, scope="submit", body_max=TEXTS_MAX, dry_run=True
)
def submit(
    call: Call,
    texts: Texts,
    sandboxes: list[Sha256 | None] | None = None,
    key: SubmissionKey | None = None,
) -> list[Submitted]:
    """Submit tasks: JEDI stores all; or none, and reports all mistakes. `sandboxes`: for each
    task the sha256 of its local files; `key`: the same tasks under the same
    key are there already; others are refused (`key_reused`)."""
    documents = _documents(call, texts, sandboxes)
    done = collection.submit_all(call.tx, call.ddm, call.who, documents, key, validate=call.dry_run)
    call.name_objects("task", [one.jedi_task_id for one in done])
    return done


def _documents(
    call: Call, texts: Sequence[TaskText], sandboxes: Sequence[str | None] | None
) -> list[Document]:
    """The tasks in texts, in their order, with their uploaded files."""
    names = [one.name for one in texts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        rule = "several texts have this name"
        raise BadInput([Problem("texts", name, rule, "Name each once") for name in twice])
    found = collection.collect(
        {one.name: Document(one.text, one.format, Uploaded(None)) for one in texts}
    )
    if sandboxes is None:
        return found
    if len(sandboxes) != len(found):
        rule = f"names {len(sandboxes)} sandboxes for {len(found)} tasks"
        raise BadInput([Problem("sandboxes", None, rule, "Name one for each task, or null")])
    return [
        replace(one, files=uploaded(call, sha256))
        for one, sha256 in zip(found, sandboxes, strict=True)
    ]


def uploaded(call: Call, sha256: str | None) -> Uploaded:
    """The files that were uploaded under this sum. NotFound."""
    if sha256 is None:
        return Uploaded(None)
    data = order_files.SANDBOX.row(call.tx, sha256=sha256)
    if data is None:
        raise NotFound(
            f"There is no sandbox {sha256}: upload it first.", code="sandbox_missing", sha256=sha256
        )
    return Uploaded(Sandbox(sha256, data))


@operation("task.exec", "POST", "/v1/tasks/exec", ANYBODY, scope="submit", dry_run=True)
def execute(
    call: Call,
    command: Annotated[list[str], Field(min_length=1, max_length=10_000)],
    dataset: str | None = None,
    files_per_job: Annotated[int, Field(ge=1)] = 1,
    name: str | None = None,
    files: list[str] | None = None,
    sandbox: Sha256 | None = None,
) -> Submitted:
    """Run a command as a job, or once for some files of a dataset; its stdout is the output.
    `files`: names of the local files in `sandbox`."""
    document = execution.task_of(
        command, call.who, clock.now(), dataset, files_per_job, files or (), name
    )
    task = Document(json.dumps(document), "json", uploaded(call, sandbox))
    [done] = collection.submit_all(call.tx, call.ddm, call.who, [task], validate=call.dry_run)
    call.subject = f"task {done.jedi_task_id}"
    return done


@operation(
    "task.plan",
    "POST",
    "/v1/tasks/plan",
    ANYBODY,
    scope="read",
    body_max=SNAPSHOT_MAX,
    question=True,
    heavy=True,
)
def plan(
    call: Call,
    text: TaskText,
    sandbox: Sha256 | None = None,
    seed: int | None = None,
    snapshot: str | None = None,
    knobs: list[str] | None = None,
    sites: list[str] | None = None,
) -> PlanWithAlternative:
    """Forecast a task: its jobs, their sites and their needs; nothing is written. `knobs`
    (knob=value) and `sites` (NAME.attribute=value) are assumptions for a second plan."""
    task = examined(Document(text.text, text.format, Uploaded(None)), call.who)
    if theirs := asking.of_task(call, task.params):
        given = {
            "text": text,
            "sandbox": sandbox,
            "seed": seed,
            "snapshot": snapshot,
            "knobs": knobs,
            "sites": sites,
        }
        found: PlanWithAlternative = asking.answer(call, theirs, "task.plan", **given)
        return found
    other = Alternative(knobs or (), sites or ())
    if snapshot:
        known = system_state.read(snapshot)
        return text_plans.plan_by_snapshot(known, task, seed, other)
    document = replace(task.document, files=uploaded(call, sandbox))
    task = replace(task, document=document)
    return text_plans.plan_now(call.tx, call.ddm, task, seed or 0, other)


@operation("task.cautions", "POST", "/v1/tasks/cautions", ANYBODY, scope="submit", question=True)
def cautions(call: Call, jedi_task_ids: ManyTasks, sandbox: Sha256) -> list[str]:
    """Warn about files that the commands of tasks name and new code lacks."""
    return newcode.cautions(call.tx, jedi_task_ids, sandbox)
