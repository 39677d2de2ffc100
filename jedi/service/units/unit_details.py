"""Units of tasks, as the Python interface sees them: submission, the key that settles it, states,
attempts and outputs.

Source: docs/reference/herds.md#explicit; docs/reference/ganga.md#submission.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs import Knobs
from jedi.ddm.interface import DDM, exists
from jedi.model.splitting.units import GivenUnit, OptionValue, Unit
from jedi.model.tasks.placeholders import UNIT, placeholders
from jedi.service.operations.arguments import FileId, PageRows, TaskId, UnitNr
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.sandbox import LocalFiles
from jedi.service.submission.storing import submit, take_key
from jedi.service.tasks import task_details
from jedi.service.tasks.watching import FAR, KEPT_S
from jedi.splitter.explicit import FileDatasets, judge
from jedi.splitter.plan import OF_JEDI, render_units
from jedi.splitter.variables import OutOfRoomError
from jedi.taskbuffer.reports import changes, unit_states
from jedi.taskbuffer.reports.changes import Mark
from jedi.taskbuffer.reports.unit_states import (
    HerdStates,
    StatesQuestion,
    UnitAttempt,
    UnitInput,
    UnitOutput,
    UnitSummary,
)
from jedi.taskbuffer.tasks import submission_keys, unit_verbs
from jedi.taskbuffer.tasks import units as rows
from jedi.taskbuffer.tasks.submission_keys import KeyedTask

SHOWN = 20
"""Number of refused units that an error names."""

UNTRIED = "It was not tried: unit {} before it was refused."


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """A unit that is not accepted, with the reason; it counts as failed."""

    unit_nr: int
    reason: str


@dataclass(frozen=True, slots=True)
class SubmittedUnits:
    """A stored task, the number of its units, and those that were refused; `created` False: it was
    submitted before under the same key."""

    jedi_task_id: int
    status: str
    created: bool
    n_units: int
    refused: list[RefusedPart]
    warnings: tuple[str, ...] = ()


def submit_units(
    tx: Connection,
    ddm: DDM,
    who: str,
    document: Mapping[str, Any],
    units: Sequence[Any] | None,
    files: LocalFiles,
    key: str,
    settings: Knobs,
    *,
    keep_going: bool,
) -> SubmittedUnits:
    """Store a task whose units come with it. Units that can't be accepted are refused, each with
    its reason; unless the caller keeps going, those after the first one are not tried. Without
    `units` a splitter makes them later.

    BadInput: the task is wrong, or no unit is accepted; Refused: the key was settled before.
    """
    if earlier := take_key(tx, who, key):
        return _answer(tx, earlier)
    found: list[GivenUnit] = []
    known: FileDatasets = None
    if units is not None:
        named = any(_names_files(one) for one in units)
        known = _known(ddm, _datasets(document)) if named else None
        most = int(settings.split.max_units)
        found = _judged(document, units, known, most, keep_going=keep_going)
    text = json.dumps(_narrowed(document, found, known) if found else document)
    given = Document(text, "json", files, explicit=bool(found))
    done = submit(tx, ddm, examined(given, who))
    submission_keys.KEEP.run(tx, user=who, key=key, task=done.jedi_task_id, attempt=1)
    if found:
        _write(tx, done.jedi_task_id, found, _values(document), settings)
    refused = [RefusedPart(n, one.refusal) for n, one in enumerate(found, 1) if one.refusal]
    return SubmittedUnits(done.jedi_task_id, done.status, True, len(found), refused, done.warnings)


def settle_key(tx: Connection, who: str, key: str) -> SubmittedUnits | None:
    """Return the task that was submitted under a key; None: there is none, and there will be none,
    however late the submission arrives. It waits for a submission in progress."""
    known = submission_keys.take(tx, who, key)
    return _answer(tx, known) if known and known.jedi_task_id is not None else None


def _answer(tx: Connection, known: KeyedTask) -> SubmittedUnits:
    task = known.jedi_task_id or 0
    refused = [RefusedPart(one.unit_nr, one.refusal) for one in rows.REFUSED.rows(tx, ids=[task])]
    return SubmittedUnits(task, known.status or "removed", False, known.n_units or 0, refused)


def _judged(
    document: Mapping[str, Any],
    units: Sequence[Any],
    known: FileDatasets,
    most: int,
    *,
    keep_going: bool,
) -> list[GivenUnit]:
    """Return the units, each with its refusal. BadInput: none is accepted, or there are too
    many."""
    if not 0 < len(units) <= most:
        rule = f"a task has 1 to {most} units (knob split.max_units)"
        raise BadInput([Problem("units", len(units), rule, "Split it into several jobs")])
    datasets = _datasets(document)
    found = judge(units, _needed(document), known, datasets)
    first = next((n for n, one in enumerate(found) if one.refusal), None)
    if first is not None and not keep_going:
        why = UNTRIED.format(first + 1)
        late = [replace(one, refusal=one.refusal or why) for one in found[first + 1 :]]
        found = [*found[: first + 1], *late]
    if all(one.refusal for one in found):
        told = [
            Problem(f"units[{n}]", None, one.refusal or "", "Correct it")
            for n, one in enumerate(found[:SHOWN])
        ]
        raise BadInput(told)
    return found


def _names_files(unit: Any) -> bool:
    return isinstance(unit, dict) and bool(unit.get("files"))


def _items(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of the job parameters; wrong ones are left to the checks of the task."""
    items = document.get("jobParameters")
    return [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _inputs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in _items(document) if one.get("param_type") == "input"]


def _values(document: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The options that all units have, with variables."""
    splitter = document.get("splitter")
    values = splitter.get("values") if isinstance(splitter, dict) else None
    return values if isinstance(values, dict) else {}


def _needed(document: Mapping[str, Any]) -> list[str]:
    """The options that the job parameters name, and that are not the same for all units."""
    given = {*OF_JEDI, *_values(document)}
    texts = [one.get("value") for one in _items(document)]
    named = [
        found.form
        for text in texts
        if isinstance(text, str)
        for found in placeholders(text)
        if found.name == UNIT
    ]
    return [name for name in dict.fromkeys(named) if name not in given]


def _datasets(document: Mapping[str, Any]) -> list[str]:
    """The datasets of the main input."""
    names = [one.get("dataset") for one in _inputs(document)[:1]]
    return [part.strip() for name in names for part in str(name).split(",")]


def _known(ddm: DDM, datasets: Sequence[str]) -> FileDatasets:
    """The datasets of the input by the names of their files; None: one does not exist yet."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in datasets:
        if not exists(ddm, name):
            return None
        for file in ddm.list_files(name):
            found[file.lfn].append(name)
    return found


def _narrowed(
    document: Mapping[str, Any], units: Sequence[GivenUnit], known: FileDatasets
) -> dict[str, Any]:
    """The task with the files of its units alone, unless a unit reads all."""
    accepted = [one for one in units if not one.refusal]
    inputs = _inputs(document)
    if not inputs or any(one.files is None for one in accepted):
        return dict(document)
    files = sorted({name for one in accepted for name in one.files or ()})
    read: dict[str, Any] = {"files": files}
    if known and len(_datasets(document)) > 1:
        pairs = [(known[name][0], name) for name in files]
        names = ",".join(dict.fromkeys(dataset for dataset, _ in pairs))
        read = {"dataset": names, "files": ["/".join(pair) for pair in pairs]}
    items = [{**item, **read} if item is inputs[0] else item for item in document["jobParameters"]]
    return {**document, "jobParameters": items}


def _write(
    tx: Connection,
    jedi_task_id: int,
    units: Sequence[GivenUnit],
    values: Mapping[str, OptionValue],
    settings: Knobs,
) -> None:
    """Write the rows of the units. BadInput: their options are too long."""
    origins = rows.ORIGINS.value(tx, task=jedi_task_id, n=len(units))
    most = settings.split.max_mb
    try:
        options = render_units(
            [Unit(one.options) for one in units], origins, values, int(most * 1e6)
        )
    except OutOfRoomError:
        rule = f"their options have more than {most} MB (knob split.max_mb)"
        remedy = "Put what they share into the sandbox"
        raise BadInput([Problem("units", None, rule, remedy)]) from None
    rows.write(tx, jedi_task_id, origins, options, units)


_MARK = r"([0-9a-f]{8})-([0-9]{1,18})-([0-9]{1,12})-([a-z]{1,20})"
_COUNTS = r"(?:-((?:[srpcfk][0-9]{1,10})*))?"
_CURSOR = re.compile(rf"({_MARK}){_COUNTS}(?:/((?:{_MARK})?)/([0-9]{{1,10}}))?")
"""The mark of an answer, with the numbers of units by state then. In the middle of pages: that of
the first page with the numbers so far, the mark before that page, if any, and the last unit that
was looked at."""
_LETTERS = {
    "s": "submitted",
    "r": "running",
    "p": "completing",
    "c": "completed",
    "f": "failed",
    "k": "killed",
}

PAGE = 10_000
"""Units, outputs or attempts in one answer at most."""


@dataclass(frozen=True, slots=True)
class UnitStates:
    """A task now: its status, the numbers of its units by state, the units that changed since the
    cursor, and the next cursor. `complete`: all its units are known. `more`: the next cursor gives
    the next page of the same changes; until then the numbers are those of the units so far."""

    jedi_task_id: int
    status: str
    reason: str | None
    complete: bool
    counts: dict[str, int]
    units: list[UnitSummary]
    cursor: str
    more: bool


@dataclass(frozen=True, slots=True)
class _Asked:
    """The question of a cursor. `first`: the mark of the first page; `before`: that of the last
    answer before it; `counts`: those of the pages so far, or of the last answer."""

    question: StatesQuestion
    first: str | None = None
    before: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


class UnitCursor(BaseModel, extra="forbid", strict=True):
    """A task, and the cursor of the last answer about it."""

    jedi_task_id: TaskId
    cursor: Annotated[str, Field(max_length=200)] | None = None


@operation(
    "unit.states", "POST", "/v1/units/states", ANYBODY, scope="read", question=True, heavy=True
)
def states(
    call: Call,
    jobs: Annotated[list[UnitCursor], Field(min_length=1, max_length=10_000)],
    limit: PageRows = PAGE,
) -> list[UnitStates]:
    """Show the states of units of tasks: their numbers, and those units that changed since the
    cursor of each task; all, if it has none. An answer is about `limit` units at most: where
    `more`, ask again with the new cursor; the numbers are those of the units so far.

    BadInput.
    """
    now = changes.mark(call.tx)  # before the states: what commits meanwhile is seen once more
    asked = {one.jedi_task_id: _asked(now, one.jedi_task_id, one.cursor) for one in jobs}
    found = unit_states.states_of(call.tx, [one.question for one in asked.values()], page=limit)
    return [_answered(asked[one.jedi_task_id], now, one) for one in found]


def _answered(asked: _Asked, now: Mark, one: HerdStates) -> UnitStates:
    if one.counts is None:
        counts = dict(asked.counts)
    else:
        counts = dict(Counter(asked.counts if asked.first else {}) + Counter(one.counts))
    mark = asked.first or f"{now.history}-{now.bound}-{now.time}-{one.status}"
    mark += f"-{_brief(counts)}"
    cursor = mark if one.last is None else f"{mark}/{asked.before}/{one.last}"
    return UnitStates(
        one.jedi_task_id,
        one.status,
        one.reason,
        one.complete,
        counts,
        one.units,
        cursor,
        one.last is not None,
    )


def _asked(now: Mark, jedi_task_id: int, cursor: str | None) -> _Asked:
    if cursor is None:
        return _Asked(StatesQuestion(jedi_task_id))
    found = _CURSOR.fullmatch(cursor)
    if not found:
        rule = "is no cursor that operation unit.states has sent"
        raise BadInput([Problem("cursor", cursor[:80], rule, "Leave it out")])
    mark, *facts, brief, before, history, bound, time, status, after = found.groups()
    if after is None:
        since = _since(now, *facts)
        if since[1] is None:
            return _Asked(StatesQuestion(jedi_task_id))
        question = StatesQuestion(jedi_task_id, *since, counted=brief is not None)
        return _Asked(question, before=mark, counts=_counts(brief or ""))
    if _since(now, *facts)[1] is None:  # the first page is too old
        return _Asked(StatesQuestion(jedi_task_id))
    since = _since(now, history, bound, time, status) if before else (None, None)
    question = StatesQuestion(jedi_task_id, *since, int(after))
    return _Asked(question, mark, before, _counts(brief or ""))


def _brief(counts: Mapping[str, int]) -> str:
    return "".join(
        f"{letter}{counts[state]}" for letter, state in _LETTERS.items() if state in counts
    )


def _counts(brief: str) -> dict[str, int]:
    return {_LETTERS[letter]: int(n) for letter, n in re.findall("([a-z])([0-9]+)", brief)}


def _since(
    now: Mark, history: str, bound: str, time: str, status: str
) -> tuple[int | None, str | None]:
    """The oldest transaction of a mark, and the status; None: it is too old."""
    kept = history == now.history and 0 <= now.next - int(bound) < FAR
    if not kept or now.time - int(time) > KEPT_S:
        return None, None
    return int(bound), status


@operation("unit.attempts", "GET", "/v1/tasks/{jedi_task_id}/units/{unit_nr}/attempts", ANYBODY)
def attempts(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: UnitNr,
    after: FileId = 0,
    limit: PageRows = PAGE,
) -> list[UnitAttempt]:
    """List the attempts of a unit, which are jobs, the first one first. `after`: the last PandaID
    of the page before.

    NotFound: there is no such unit.
    """
    _must_be(call.tx, jedi_task_id, unit_nr)
    return unit_states.ATTEMPTS.rows(
        call.tx, task=jedi_task_id, unit=unit_nr, after=after, limit=limit
    )


@operation("unit.inputs", "GET", "/v1/tasks/{jedi_task_id}/units/{unit_nr}/inputs", ANYBODY)
def inputs(
    call: Call,
    jedi_task_id: TaskId,
    unit_nr: UnitNr,
    after: FileId = 0,
    limit: PageRows = PAGE,
) -> list[UnitInput]:
    """List the files of datasets that a unit reads. `after`: the last file id of the page
    before.

    NotFound.
    """
    _must_be(call.tx, jedi_task_id, unit_nr)
    return unit_states.INPUTS.rows(
        call.tx, task=jedi_task_id, unit=unit_nr, after=after, limit=limit
    )


def _must_be(tx: Connection, jedi_task_id: int, unit_nr: int) -> None:
    task_details.must_exist(tx, jedi_task_id)
    if not unit_verbs.EXISTS.value(tx, task=jedi_task_id, unit=unit_nr):
        sentence = f"There is no unit {unit_nr} of task {jedi_task_id}."
        raise NotFound(sentence, code="no_unit", jedi_task_id=jedi_task_id)


@operation("unit.outputs", "GET", "/v1/tasks/{jedi_task_id}/units/outputs", ANYBODY, heavy=True)
def outputs(
    call: Call, jedi_task_id: TaskId, after: FileId = 0, limit: PageRows = PAGE
) -> list[UnitOutput]:
    """List the outputs of a task that are kept, each with its unit. `after`: the last file id of
    the page before.

    NotFound.
    """
    task_details.must_exist(call.tx, jedi_task_id)
    return unit_states.outputs(call.tx, jedi_task_id, after, limit)
