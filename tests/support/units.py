"""Units that come with a submission, and their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.service.operations.table import Call
from jedi.service.units.unit_details import (
    SubmittedUnits,
    UnitCursor,
    UnitStates,
    states,
    submit_units,
)
from jedi.service.units.unit_verbs import NO_NEEDS, AnsweredUnit, kill, resubmit
from jedi.taskbuffer.db import knobs
from support.calls import call
from support.generating import rows

ECHO = {"type": "constant", "value": "echo ${UNIT/Arguments}"}
DOCUMENT: dict[str, Any] = {
    "taskName": "g",
    "noInput": True,
    "jobParameters": [ECHO],
    "splitter": {"name": "Explicit"},
}
OUT = {
    "type": "template",
    "param_type": "output",
    "value": "> out.${SN}.txt",
    "dataset": "user.anna:out.$JEDITASKID",
}
MAKING = {**DOCUMENT, "site": "SITE_A", "jobParameters": [*DOCUMENT["jobParameters"], OUT]}
"""A task whose units make an output each."""


def unit(arguments: Any, *files: str) -> dict[str, Any]:
    """A unit with arguments, and its files if there are any."""
    return {"options": {"Arguments": arguments}, **({"files": [*files]} if files else {})}


def given(
    world: World,
    units: Sequence[Any],
    key: str = "k",
    *,
    keep_going: bool = True,
    document: dict[str, Any] = DOCUMENT,
    who: str = "anna",
) -> SubmittedUnits:
    """Submit units."""
    with world.engine.begin() as tx:
        return submit_units(
            tx, world.ddm, who, document, units, Path(), key, knobs.load(tx), keep_going=keep_going
        )


def now(world: World, task: int, cursor: str | None = None) -> UnitStates:
    """The states of the units of a task."""
    with world.engine.begin() as tx:
        [found] = states(call(tx), cursors({task: cursor}))
    return found


def of(found: UnitStates) -> str:
    """The states in an answer, in a word each."""
    return " ".join(one.state for one in found.units)


def job_of(world: World, task: int, unit_nr: int) -> int:
    """The latest job of a unit."""
    query = "SELECT max(pandaid) AS id FROM jedi_jobs WHERE jeditaskid = :t AND unit_nr = :u"
    return int(rows(world, query, t=task, u=unit_nr)[0].id)


def cursors(since: Mapping[int, str | None]) -> list[UnitCursor]:
    """Tasks with the cursors of earlier answers."""
    return [UnitCursor(jedi_task_id=task, cursor=one) for task, one in since.items()]


def ask_units(
    world: World,
    task: int,
    verb: str,
    units: Sequence[int] | None = None,
    who: str = "anna",
    tx: Connection | None = None,
) -> list[AnsweredUnit]:
    """Kill or resubmit units, in a transaction of its own unless one is given."""

    def act(asked: Call) -> list[AnsweredUnit]:
        if verb == "kill":
            return kill(asked, task, chosen)
        return resubmit(asked, jedi_task_id=task, unit_nrs=chosen, needs=NO_NEEDS)

    chosen = None if units is None else [*units]
    if tx is not None:
        return act(call(tx, who))
    with world.engine.begin() as own:
        return act(call(own, who))
