"""Another priority for a task that is under way."""

# Raw UPDATEs: owners and kinds of jobs whose builder knows one of each.

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from jedi_client.cli import task as cli
from sqlalchemy import Engine, text
from support.helpers import Run, script, unguard
from support.job_rows import Made, make_jobs

from jedi.agent.base import World
from jedi.core.errors import BadInput, Forbidden, NotFound, Refused
from jedi.core.settings import caller
from jedi.service import check
from jedi.service.priorities import Changed, change
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.users import users


@pytest.fixture
def made(world: World) -> Made:
    """A task of priority 1000 and three jobs of 700, the first of which a pilot has."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3, priority=700)
        tx.execute(text("UPDATE jedi_tasks SET taskpriority = 1000, currentpriority = 1000, "
                        "username = :me"), {"me": caller()})  # fmt: skip
        path = [None, "registered", "defined", "ready", "running"]
        for before, after in pairwise(path):
            tx.execute(text("INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status) "
                            "VALUES (:task, :before, :after)"),
                       {"task": made.task, "before": before, "after": after})  # fmt: skip
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
        caller(), "priority_set", "Its priority was 1000 and is 1050.")  # fmt: skip
    assert run("set", made.task, "name", 1).code == 2


def test_scouts_stay_above_their_least(made: Made, engine: Engine) -> None:
    """Source: docs/reference/throttler-and-shares.md#priority."""
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_jobs SET kind = 'scout', priority = 1001 WHERE pandaid = :j"),
                   {"j": made.jobs[1]})  # fmt: skip
        change(tx, caller(), made.task, 900)
        jobs = tx.scalars(text("SELECT priority FROM jedi_jobs ORDER BY pandaid")).all()
    assert jobs == [700, 901, 600]


def test_who_may_give_which(made: Made, engine: Engine) -> None:
    """Users have priorities from 900 to 1100 (docs/reference/throttler-and-shares.md#priority),
    operators any."""
    with engine.begin() as tx:
        users.put_user(tx, "olga", "operator")
        with pytest.raises(Forbidden, match=f"belongs to {caller()}"):
            change(tx, "mallory", made.task, 1000)
        for wrong in (899, 1101):
            with pytest.raises(BadInput, match="Choose one of these, or ask an operator"):
                change(tx, caller(), made.task, wrong)
        with pytest.raises(BadInput, match=r"Choose one of these\.$"):
            change(tx, "olga", made.task, 99_999)
        with pytest.raises(NotFound):
            change(tx, caller(), 4711, 1000)
        assert change(tx, "olga", made.task, 5000) == Changed(made.task, 5000, 2)
        unguard(tx)
        tx.execute(text("UPDATE jedi_tasks SET status = 'done'"))
        with pytest.raises(Refused, match="already done"):
            change(tx, "olga", made.task, 1000)
