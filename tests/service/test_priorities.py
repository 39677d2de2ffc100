"""Another priority for a task that is under way, or executed again."""

# Raw UPDATEs: owners and kinds of jobs whose builder knows one of each.

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jedi_client.cli import task as cli
from sqlalchemy import Engine, text
from support.calls import call
from support.commanding import OWNER, add_inputs, ask, cycle, work_off
from support.generating import document
from support.helpers import Run, script, unguard
from support.job_rows import Made, make_jobs
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.core.errors import BadInput, Forbidden, NotFound, Refused
from jedi.core.settings import caller
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import check
from jedi.service.tasks.priority_change import Changed, change
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.users import users
from jedi.taskrefiner.agent import TaskRefiner


@pytest.fixture
def made(world: World) -> Made:
    """A task of priority 1000 and three jobs of 700, the first of which a pilot has."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3, priority=700)
        tx.execute(
            text(
                "UPDATE jedi_tasks SET taskpriority = 1000, currentpriority = 1000, username = :me"
            ),
            {"me": caller()},
        )
        path = [None, "registered", "defined", "ready", "running"]
        for before, after in pairwise(path):
            tx.execute(
                text(
                    "INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status) "
                    "VALUES (:task, :before, :after)"
                ),
                {"task": made.task, "before": before, "after": after},
            )
        move_jobs(tx, [JobMove(made.jobs[0], "sent", "test", "test")], "test", ["activated"])
    return made


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    yield from script(cli.main, "jedi-task", world, monkeypatch, capsys)


def test_jobs_that_wait_follow(run: Run, made: Made, engine: Engine) -> None:
    """Fifty more for the task are fifty more for each job that waits; what a pilot has stays. What
    is retried begins with the new priority (docs/reference/throttler-and-shares.md#priority)."""
    answer = run("set", made.task, "priority", 1050, "--json")
    assert answer.value == {"jedi_task_id": made.task, "priority": 1050, "jobs": 2}
    with engine.begin() as tx:
        jobs = tx.scalars(text("SELECT priority FROM jedi_jobs ORDER BY pandaid")).all()
        ready = tx.scalars(text("SELECT priority FROM jedi_job_ready ORDER BY pandaid")).all()
        row = tx.execute(text("SELECT taskpriority, currentpriority FROM jedi_tasks")).one()
        assert (jobs, ready, tuple(row)) == ([700, 750, 750], [750, 750], (1050, 1050))
        assert [one for one in check.check(tx) if one.violations and one.of == "task"] == []
    log = run("log", made.task, "--json").value
    assert (log[-1]["user_name"], log[-1]["reason_code"], log[-1]["reason"]) == (
        caller(),
        "priority_set",
        "Its priority was 1000 and is 1050.",
    )
    assert run("set", made.task, "name", 1).code == 2


def test_scouts_stay_above_their_least(made: Made, engine: Engine) -> None:
    """Source: docs/reference/throttler-and-shares.md#priority."""
    with engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_jobs SET kind = 'scout', priority = 1001 WHERE pandaid = :j"),
            {"j": made.jobs[1]},
        )
        change(call(tx, caller()), made.task, 900)
        jobs = tx.scalars(text("SELECT priority FROM jedi_jobs ORDER BY pandaid")).all()
    assert jobs == [700, 901, 600]


def test_who_may_give_which(made: Made, engine: Engine) -> None:
    """Users have priorities from 900 to 1100 (docs/reference/throttler-and-shares.md#priority),
    operators any."""
    with engine.begin() as tx:
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        with pytest.raises(Forbidden, match=f"belongs to {caller()}"):
            change(call(tx, "mallory"), made.task, 1000)
        for wrong in (899, 1101):
            with pytest.raises(BadInput, match="Choose one of these, or ask an operator"):
                change(call(tx, caller()), made.task, wrong)
        with pytest.raises(BadInput, match=r"Choose one of these\.$"):
            change(call(tx, "olga"), made.task, 99_999)
        with pytest.raises(NotFound):
            change(call(tx, caller()), 4711, 1000)
        assert change(call(tx, "olga"), made.task, 5000) == Changed(made.task, 5000, 2)
        unguard(tx)
        tx.execute(text("UPDATE jedi_tasks SET status = 'done'"))
        with pytest.raises(Refused, match="already done"):
            change(call(tx, "olga"), made.task, 1000)


@pytest.mark.parametrize(
    ("gridpref", "given", "told", "priority"),
    [
        ("s", {}, {"taskPriority": 1050}, 1500),  # raised to at least 1500
        ("s", {"taskPriority": 1050}, {}, 1500),
        ("", {"taskPriority": 1050}, {"taskPriority": None}, 1000),  # null: the default
        ("", {"taskPriority": 1050}, {"taskPriority": 950}, 950),
        ("", {"taskPriority": 1050}, {}, 1050),
    ],
)
def test_priorities_are_those_of_a_submission(
    world: World, gridpref: str, given: dict[str, Any], told: dict[str, Any], priority: int
) -> None:
    add_inputs(world, 1)
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user=OWNER, role="user", gridpref=gridpref, cap=None)
        asked = json.dumps(document(nFilesPerJob=1, site="SITE_A", **given))
        task = storing.submit(
            tx, world.ddm, examined(Document(asked, "json", Path()), OWNER)
        ).jedi_task_id
    assert work_off(world, task) == "done"
    ask(world, task, "incexec", parameters=told)
    cycle(world, TaskRefiner)
    row = row_of(world, task)
    assert (row.taskpriority, row.currentpriority) == (priority, priority)
