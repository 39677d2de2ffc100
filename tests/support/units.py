"""Units that come with a submission, and their states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jedi.agent.base import World
from jedi.service.unit_verbs import AnsweredUnit, kill, resubmit
from jedi.service.units import SubmittedUnits, UnitStates, states, submit_units

ECHO = {"type": "constant", "value": "echo ${UNIT/Arguments}"}
DOCUMENT: dict[str, Any] = {"taskName": "g", "noInput": True, "jobParameters": [ECHO],
            "splitter": {"name": "Explicit"}}  # fmt: skip


def unit(arguments: Any, *files: str) -> dict[str, Any]:
    """A unit with arguments, and its files if there are any."""
    return {"options": {"Arguments": arguments}, **({"files": [*files]} if files else {})}


def given(
    world: World, units: Sequence[Any], key: str = "k", *, keep_going: bool = True,
    document: dict[str, Any] = DOCUMENT, who: str = "anna",
) -> SubmittedUnits:  # fmt: skip
    """Submit units."""
    with world.engine.begin() as tx:
        return submit_units(tx, world.ddm, who, document, units, Path(), key,
                            keep_going=keep_going)  # fmt: skip


def now(world: World, task: int, cursor: str | None = None) -> UnitStates:
    """The states of the units of a task."""
    with world.engine.begin() as tx:
        [found] = states(tx, {task: cursor})
    return found


def of(found: UnitStates) -> str:
    """The states in an answer, in a word each."""
    return " ".join(one.state for one in found.units)


def ask_units(
    world: World, task: int, verb: str, units: Sequence[int] | None = None, who: str = "anna"
) -> list[AnsweredUnit]:
    """Kill or resubmit units."""
    with world.engine.begin() as tx:
        return {"kill": kill, "resubmit": resubmit}[verb](tx, who, task, units, None)
