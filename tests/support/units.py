"""Units that come with a submission, and their states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.service.unit_verbs import AnsweredUnit, kill, resubmit
from jedi.service.units import SubmittedUnits, UnitStates, states, submit_units
from jedi.taskbuffer.db import knobs
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
        [found] = states(tx, {task: cursor})
    return found


def of(found: UnitStates) -> str:
    """The states in an answer, in a word each."""
    return " ".join(one.state for one in found.units)


def job_of(world: World, task: int, unit_nr: int) -> int:
    """The latest job of a unit."""
    query = "SELECT max(pandaid) AS id FROM jedi_jobs WHERE jeditaskid = :t AND unit_nr = :u"
    return int(rows(world, query, t=task, u=unit_nr)[0].id)


def ask_units(
    world: World,
    task: int,
    verb: str,
    units: Sequence[int] | None = None,
    who: str = "anna",
    tx: Connection | None = None,
) -> list[AnsweredUnit]:
    """Kill or resubmit units, in a transaction of its own unless one is given."""
    ask = {"kill": kill, "resubmit": resubmit}[verb]
    if tx is not None:
        return ask(tx, who, task, units, None)
    with world.engine.begin() as own:
        return ask(own, who, task, units, None)
