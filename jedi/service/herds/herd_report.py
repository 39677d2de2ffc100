"""Herds for people: their members, the manifests of these, and the chain of steps of a task.

Source: docs/reference/herds.md#chain; docs/reference/herds.md#records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.core.states import TASK
from jedi.model.jdl.manifest import SPLITTER
from jedi.model.jdl.write import write
from jedi.model.queries import PAGE, MostRows
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.submission import manifests
from jedi.service.tasks import task_details
from jedi.splitter.plan import INPUT_DATA, logical_name, own_options
from jedi.taskbuffer.reports import herds, listings
from jedi.taskbuffer.reports.herds import HerdMember, HerdRecord
from jedi.taskbuffer.reports.listings import Step
from jedi.taskbuffer.tasks import herds as herd_rows
from jedi.taskbuffer.tasks import new_tasks


@dataclass(frozen=True, slots=True)
class HerdReport:
    """A herd: JobSplitType and PandaID of its originator, MasterJobID of all its members; the
    numbers of members by the status of their latest attempt, and a page of members. A task without
    splitter is Single and has no members."""

    jedi_task_id: int
    job_split_type: str
    splitter: str | None
    master_job_id: int | None
    n_units: int | None
    split_at: datetime | None
    statuses: dict[str, int]
    members: list[HerdMember]


@operation("task.herd", "GET", "/v1/tasks/{jedi_task_id}/herd", ANYBODY, heavy=True)
def show(
    call: Call,
    jedi_task_id: TaskId,
    after: Annotated[int, Field(ge=0, lt=2**31)] = 0,
    limit: MostRows = PAGE,
) -> HerdReport:
    """Show the herd of a task with a splitter: JobSplitType, MasterJobID, members. `after`: the
    last unit of the page before.

    NotFound.
    """
    tx = call.tx
    found = herds.HERD.row(tx, task=jedi_task_id)
    if found is None:
        task_details.must_exist(tx, jedi_task_id)
        return HerdReport(jedi_task_id, "Single", None, None, None, None, {}, [])
    kind = "Splitted" if found.split_at else "WillSplit"
    counts = dict(herds.STATUSES.rows(tx, task=jedi_task_id))
    members = herds.MEMBERS.rows(tx, task=jedi_task_id, after=after, limit=limit)
    return HerdReport(
        jedi_task_id,
        kind,
        found.splitter,
        found.master_job_id,
        found.n_units,
        found.split_at,
        counts,
        members,
    )


@operation("job.herd", "GET", "/v1/jobs/{panda_id}/herd", ANYBODY, heavy=True)
def of_job(
    call: Call,
    panda_id: TaskId,
    after: Annotated[int, Field(ge=0, lt=2**31)] = 0,
    limit: MostRows = PAGE,
) -> HerdReport:
    """Show the herd of a job: any member and any attempt. `after`: the last unit of the page
    before."""
    return show(call, task_of(call.tx, panda_id), after, limit)


def task_of(tx: Connection, panda_id: int) -> int:
    """The task of any member of a herd, or of any job. NotFound."""
    found = herds.TASK_OF.row(tx, job=panda_id)
    if found is None:
        raise NotFound(f"There is no job {panda_id}.", panda_id=panda_id)
    return found


@operation("task.jdl", "GET", "/v1/tasks/{jedi_task_id}/jdl", ANYBODY)
def jdl(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: Annotated[int, Field(ge=1, lt=2**31)] | None = None,
) -> str:
    """Give the manifest of a task, or of a unit of a herd, in JDL: as submitted, if it was JDL.

    NotFound.
    """
    task_details.must_exist(call.tx, jedi_task_id)
    if unit_nr is not None:
        return write(_child(call.tx, jedi_task_id, unit_nr))
    found = herds.SUBMITTED_TEXT.row(call.tx, task=jedi_task_id)
    if found and found.format == manifests.JDL:
        return found.text
    attributes = manifests.attributes(found.text, found.format) if found else None
    if attributes is None:
        sentence = f"Task {jedi_task_id} was not submitted as a manifest: see jedi-task show."
        raise NotFound(sentence, code="no_manifest", jedi_task_id=jedi_task_id)
    return write(attributes)


def _child(tx: Connection, jedi_task_id: int, unit_nr: int) -> dict[str, Any]:
    """The attributes of a unit's manifest."""
    herd = herds.HERD.row(tx, task=jedi_task_id)
    options = herds.OWN_OPTIONS.row(tx, task=jedi_task_id, unit=unit_nr)
    if herd is None or options is None:
        if herd is None:
            why = "has no units, because it has no splitter"
        elif herd.n_units is None:
            why = "is not split yet"
        else:
            why = f"has units 1 to {herd.n_units}"
        sentence = f"There is no unit {unit_nr}: task {jedi_task_id} {why}."
        raise NotFound(sentence, code="no_unit", jedi_task_id=jedi_task_id)
    (manifest,) = herd_rows.MANIFESTS.rows(tx, ids=[jedi_task_id])
    origin = herd_rows.units(tx, jedi_task_id, [unit_nr])[unit_nr].origin
    own = own_options(unit_nr, herd.n_units or 0, origin, herd.master_job_id)
    found: dict[str, Any] = {**manifest.values, **options, **own}
    if files := herds.INPUT_FILES.rows(tx, task=jedi_task_id, unit=unit_nr):
        found[INPUT_DATA] = [logical_name(dataset, lfn) for dataset, lfn in files]
    source = herds.SUBMITTED_TEXT.row(tx, task=jedi_task_id)
    order = (manifests.attributes(source.text, source.format) if source else None) or found
    return {name: found[name] for name in (*order, *found) if name in found}


StepState = Literal["done", "now", "waits", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A step of the chain of a task, the agent that does it, its state, and its reason."""

    name: str
    agent: str
    state: StepState
    time: datetime | None
    reason_code: str | None
    reason: str | None


_STEPS: dict[str, tuple[str, Callable[[Step], bool]]] = {
    "JobPath": ("TaskRefiner", lambda one: one.status == "defined"),
    "JobSanity": ("TaskRefiner", lambda one: one.status == "defined"),
    "InputData": ("ContentsFeeder", lambda one: one.status in ("ready", "assigning")),
    SPLITTER: ("Splitter", lambda one: False),
    "JobScheduling": ("JobGenerator", lambda one: one.status in ("scouting", "running")),
}
"""The agent of each step, and its record in the log of the task's statuses. A split changes no
status: its record is the herd's."""


_SANE = "The parameters are valid."


@operation("task.chain", "GET", "/v1/tasks/{jedi_task_id}/chain", ANYBODY, heavy=True)
def chain(call: Call, jedi_task_id: TaskId) -> list[ChainStep]:
    """Show the steps of a task from its submission to its jobs, with state, time and reason.

    NotFound.
    """
    tx = call.tx
    task = task_details.get(tx, jedi_task_id, unit_s=call.knobs.throttle.unit_s)
    steps = listings.HISTORY.rows(tx, task=jedi_task_id)
    herd = herds.HERD.row(tx, task=jedi_task_id)
    ended = task.status in TASK.final or task.status in ("tobroken", "toabort", "aborting")
    known = task.reason_code == herd_rows.TO_SPLIT or any(one.agent == SPLITTER for one in steps)
    found: list[ChainStep] = []
    for name in chain_of(herd, with_input=_has_input(tx, jedi_task_id)):
        agent, is_record = _STEPS[name]
        record = next((one for one in steps if one.agent == agent and is_record(one)), None)
        if record:
            reason = _SANE if name == "JobSanity" else record.reason
            done = record.time, record.reason_code, reason
            found.append(ChainStep(name, agent, "done", *done))
        elif herd and (said := _split_of(herd, name, known=known)):
            found.append(ChainStep(name, agent, "done", herd.split_at, *said))
        elif any(one.state != "done" for one in found):
            found.append(ChainStep(name, agent, "skipped" if ended else "waits", None, None, None))
        else:
            last = steps[-1].time if steps else None
            state: StepState = "failed" if ended else "now"
            found.append(ChainStep(name, agent, state, last, task.reason_code, task.reason))
    return found


def chain_of(herd: HerdRecord | None, *, with_input: bool) -> Sequence[str]:
    """The names of the steps: RFC #15 inserts Splitter straight after the step that its strategy
    needs."""
    names = ["JobPath", "JobSanity", *(["InputData"] if with_input else []), "JobScheduling"]
    if herd:
        after = "JobPath" if herd.after == "refine" else "InputData"
        names.insert(names.index(after) + 1, SPLITTER)
    return names


def _split_of(herd: HerdRecord, step: str, *, known: bool) -> tuple[str, str] | None:
    """Return code and reason of a step of a herd that is done without a change of status. `known`:
    the input is, because the Splitter has tried or is to."""
    if step == SPLITTER and herd.split_at:
        return "split", f"The herd has {herd.n_units} units."
    if step == "InputData" and (herd.split_at or known):
        return herd_rows.TO_SPLIT, "The input is complete."
    return None


def _has_input(tx: Connection, jedi_task_id: int) -> bool:
    """Return True if a task reads datasets."""
    return not dict(new_tasks.PARAMS_OF.rows(tx, ids=[jedi_task_id]))[jedi_task_id].get("noInput")
