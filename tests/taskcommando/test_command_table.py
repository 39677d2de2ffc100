"""Every command to a task in every status, through the service and TaskCommando."""

# Raw UPDATEs: every status is tried.

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import OWNER, ask, status
from support.generating import rows
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core import states
from jedi.core.errors import Refused
from jedi.taskbuffer.tasks import commands
from jedi.taskcommando.agent import TaskCommando
from jedi.taskcommando.commands import COMMANDS

ARGUMENTS: dict[str, dict[str, Any]] = {
    "finish --soft": {"soft": True},
    "reassign": {"site": "SITE_B"},
}
HELD = ("paused", "throttled")


def expected() -> dict[str, dict[str, str]]:
    """By command and present status: the next status, or `-`."""
    lines = (Path(__file__).parents[1] / "data/commands.csv").read_text().splitlines()
    table = csv.reader(line for line in lines if not line.startswith("#"))
    (_, *names), *found = ([cell.strip() for cell in row] for row in table)
    return {name: {row[0]: row[i] for row in found} for i, name in enumerate(names, 1)}


TABLE = expected()


def tasks_of_all_statuses(world: World) -> dict[str, int]:
    """One task in each status; those that are held were running before."""
    ids = dict(
        zip(states.TASK_STATES, put(world, *[good()] * len(states.TASK_STATES)), strict=True)
    )
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        for name, task in ids.items():
            before = "running" if name in HELD else None
            tx.execute(
                text("UPDATE jedi_tasks SET status = :s, oldstatus = :old WHERE jeditaskid = :t"),
                {"s": name, "old": before, "t": task},
            )
    return ids


def test_the_table_has_every_status_and_command() -> None:
    assert {name.partition(" ")[0] for name in TABLE} >= COMMANDS.keys()
    assert all(list(column) == list(states.TASK_STATES) for column in TABLE.values())


@pytest.mark.parametrize("name", [n for n in TABLE if n.partition(" ")[0] in COMMANDS])
def test_a_command_to_a_task_in_every_status(world: World, name: str) -> None:
    """Where the service refuses, TaskCommando does, too: the status may have changed meanwhile."""
    command, arguments = name.partition(" ")[0], ARGUMENTS.get(name, {})
    ids = tasks_of_all_statuses(world)
    refused = set()
    for task in ids.values():
        try:
            ask(world, task, command, **arguments)
        except Refused as error:
            assert error.code == "wrong_status"
            refused.add(task)
            with world.engine.begin() as tx:
                commands.append(tx, task, command, OWNER, arguments)
    agent = TaskCommando(world)
    waiting = "SELECT FROM jedi_commands WHERE acknowledged_at IS NULL"
    while rows(world, waiting):
        agent.run_once()
    answers = rows(world, "SELECT jeditaskid, outcome FROM jedi_commands")
    assert {row.jeditaskid for row in answers if row.outcome == "refused"} == refused
    found = {
        before: "-" if task in refused else status(world, task) for before, task in ids.items()
    }
    assert found == TABLE[name]
    assert {status(world, task) for before, task in ids.items() if task in refused} == {
        before for before, after in TABLE[name].items() if after == "-"
    }
