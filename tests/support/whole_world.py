"""A small world in which every page has something to show: for tests over all pages."""

from __future__ import annotations

import re

from sqlalchemy import text

from jedi.agent.base import World
from jedi.monitor.all_pages import PAGES
from jedi.monitor.table import Page
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users.users import PUT_USER
from support.monitored import command, running_task, waiting_task


def fill(world: World) -> dict[str, object]:
    """Tasks that run and wait, jobs in several statuses, a decision, a command, a changed knob;
    returns the value of each argument that paths of pages hold."""
    made = running_task(world)
    waiting = waiting_task(world)
    command(world, waiting)
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user="me", role="operator", gridpref=None, cap=None)  # who sees all pages
        knobs.put(tx, "agent.poll_s", 3, "me")
        decision = tx.scalar(text("SELECT max(decision_id) FROM jedi_broker_decisions"))
    return {
        "jedi_task_id": waiting,
        "panda_id": made.jobs[4],
        "site": "SITE_A",
        "decision_id": decision,
        "name": "agent.poll_s",
    }


def address(page: Page, known: dict[str, object]) -> str:
    """The address of a page in that world. KeyError: `fill` does not know an argument yet."""
    return re.sub(r"{(\w+)}", lambda found: str(known[found[1]]), page.path)


def names() -> list[str]:
    """The pages, in the order of the menu."""
    return [*PAGES]
