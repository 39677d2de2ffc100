"""Cutting the input of ended units again: they are superseded, and new units get the next numbers.

Source: docs/reference/ganga.md#resplit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.service.operations.arguments import Comment, TaskId, UnitNr
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.units import unit_verbs as verbs
from jedi.service.units.unit_verbs import AnsweredUnit
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.reports.unit_states import UnitSummary
from jedi.taskbuffer.tasks import resplits, unit_verbs
from jedi.taskbuffer.tasks import units as unit_rows


@dataclass(frozen=True, slots=True)
class ResplitUnits:
    """The answer for each unit that was to be cut again, and the numbers of the new units."""

    answers: list[AnsweredUnit]
    made: list[int]


@operation(
    "unit.resplit",
    "POST",
    "/v1/units/resplit",
    OWNER,
    dry_run=True,
    heavy=True,
    deed="cut again its units",
)
def resplit(
    call: Call,
    jedi_task_id: TaskId,
    unit_nrs: Annotated[list[UnitNr], Field(min_length=1, max_length=10_000)],
    files: Annotated[int, Field(ge=1, lt=2**31)],
    comment: Comment = None,
) -> ResplitUnits:
    """Cut the input of ended units again, into parts of at most so many files. The units are
    superseded: they count no longer. New units get the next numbers, and run.

    NotFound, Forbidden, BadInput; Refused: not in the status of the task, or it can't run.
    """
    tx = call.tx
    status = verbs.reopen(tx, jedi_task_id)
    asked = [*dict.fromkeys(unit_nrs)]
    now = verbs.locked(tx, jedi_task_id, asked)
    refused = {one.unit_nr for one in unit_rows.REFUSED.rows(tx, ids=[jedi_task_id])}
    read = resplits.files(tx, jedi_task_id, asked)
    answers = {n: _answer(n, now.get(n), refused, len(read.get(n, ())), files) for n in asked}
    merged = unit_verbs.MERGED.rows(tx, task=jedi_task_id)
    answers |= verbs.apart_from({n for n, one in answers.items() if one.accepted}, merged)
    chosen = [n for n, one in answers.items() if one.accepted]
    if not chosen:
        return ResplitUnits([*answers.values()], [])
    parts = [(n, read[n][at : at + files]) for n in chosen for at in range(0, len(read[n]), files)]
    _must_be_room(tx, jedi_task_id, len(parts), files)
    adds = verbs.new_attempts(tx, jedi_task_id)
    verbs.undo(tx, jedi_task_id, [now[n] for n in chosen], merged, adds)
    made = resplits.supersede(tx, jedi_task_id, {n: now[n].state for n in chosen}, parts)
    verbs.go_on(tx, call.who, jedi_task_id, status, made, comment, adds)
    return ResplitUnits([*answers.values()], made)


def _must_be_room(tx: Connection, jedi_task_id: int, added: int, files: int) -> None:
    most = int(knobs.load(tx).split.max_units)
    number = len(unit_verbs.NUMBERS.rows(tx, task=jedi_task_id)) + added
    if number > most:
        rule = f"the task would have {number} units, more than {most} (knob split.max_units)"
        raise BadInput([Problem("files", files, rule, "Give more files a unit")])


def _answer(
    number: int, unit: UnitSummary | None, refused: set[int], n_files: int, files: int
) -> AnsweredUnit:
    found = verbs.of_resubmit(number, unit, refused, "resplit")
    if found.accepted and n_files <= files:
        why = f"Unit {number} reads {n_files} files: nothing is left to cut by {files}."
        return AnsweredUnit(number, False, why, "nothing_to_cut")
    return found
