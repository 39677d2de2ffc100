"""Conditions on lists. The language of the door: `status=running,pending`, `user!=ana`,
`name~higgs*`, `since>2026-11-01`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, text
from support.job_rows import make_jobs
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.model.conditions import Condition, ListField, parse_conditions
from jedi.model.queries import EVERY_JOB, JobQuery, ListPage, TaskQuery
from jedi.service.tasks import task_details
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.reports import owned_jobs

FIELDS = {
    "status": ListField("text"),
    "user": ListField("text"),
    "name": ListField("text"),
    "priority": ListField("number"),
    "since": ListField("time"),
}


def test_conditions_are_read() -> None:
    written = [
        "status=running, pending",
        "user!=ana",
        "name~higgs*",
        "priority>=900",
        "since>2026-11-01",
    ]
    assert parse_conditions(written, FIELDS) == [
        Condition("status", "=", ("running", "pending")),
        Condition("user", "!=", ("ana",)),
        Condition("name", "~", ("higgs*",)),
        Condition("priority", ">=", (900,)),
        Condition("since", ">", (datetime(2026, 11, 1, tzinfo=UTC),)),
    ]


def test_all_mistakes_are_named_with_their_remedy() -> None:
    wrong = ["status", "staus=running", "priority~9", "since>soon", "priority>1,2", "since=2026"]
    with pytest.raises(BadInput) as found:
        parse_conditions(wrong, FIELDS)
    assert [problem.value for problem in found.value.problems] == wrong
    assert found.value.problems[1].remedy == "Did you mean status?"


def test_an_unknown_status_is_a_mistake(world: World) -> None:
    """As it is in --status. A pattern may match nothing."""
    with world.engine.begin() as tx:
        for texts in (["status=dune"], ["status!=running,dune"]):
            with pytest.raises(BadInput) as found:
                task_details.find(tx, TaskQuery(where=texts))
            [problem] = found.value.problems
            assert (problem.rule, problem.remedy) == ("no such status: dune", "Did you mean done?")
        assert task_details.find(tx, TaskQuery(where=["status~dune*"])) == []
        with pytest.raises(BadInput, match="no such status: actived") as found:
            owned_jobs.owned(tx, "anna", JobQuery(where=["status=actived"]), 50)
        assert found.value.problems[0].remedy == "Did you mean activated?"


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (["name=abc"], ["abc"]),
        (["name=abc,x_y"], ["x_y", "abc"]),
        (["name!=abc"], ["100%", "x_y"]),
        (["name~a*,x_*"], ["x_y", "abc"]),
        (["name!~*%"], ["x_y", "abc"]),
        (["name~x%"], []),
        (["user=anna", "since>2000-01-01", "since<2000-01-02"], []),
        (["priority>=1000", "priority<1001", "status=registered"], ["100%", "x_y", "abc"]),
        (["reason=nothing"], []),
        (["reason!=nothing", "name=abc"], ["abc"]),
        (["name='; DROP TABLE jedi_tasks; --"], []),
    ],
)
def test_lists_are_filtered(world: World, where: list[str], names: list[str]) -> None:
    ids = put(world, *(good(f"a:o{n}") for n in range(3)))
    with world.engine.begin() as tx:
        for task, name in zip(ids, ("abc", "x_y", "100%"), strict=True):
            # Raw: names are given when tasks are submitted
            tx.execute(
                text("UPDATE jedi_tasks SET taskname = :n WHERE jeditaskid = :t"),
                {"n": name, "t": task},
            )
        assert [one.task_name for one in task_details.find(tx, TaskQuery(where=where))] == names


def test_pages_follow_each_other(world: World) -> None:
    """Keyset cursors: the last id of a page begins the next one."""
    ids = put(world, *(good(f"a:o{n}") for n in range(5)))
    with world.engine.begin() as tx:
        first = task_details.find(tx, page=ListPage(limit=2))
        second = task_details.find(tx, page=ListPage(limit=2, before=first[-1].jedi_task_id))
        assert [one.jedi_task_id for one in (*first, *second)] == ids[:0:-1]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["status=activated"], [0, 1]),
        (["status=cancelled", "changed>2000-01-01"], [2, 3]),
        (["status!=activated"], [2, 3]),
        (["site~SITE_*", "site!~*B"], [0, 2]),
        (["exit=1"], [2]),
        (["exit!=1"], [0, 1, 3]),
        (["error~cancelled_*"], [2, 3]),
        (["priority>=901", "priority<903"], [1, 2]),
        (["attempt=1", "kind=normal"], [0, 1, 2, 3]),
        (["since<2000-01-02"], []),
        (["site='; DROP TABLE jedi_jobs; --"], []),
    ],
)
def test_lists_of_jobs_take_the_same_language(
    world: World, where: list[str], found: list[int]
) -> None:
    """Those of a task, the oldest first, and those of a user, the newest first, archived ones
    too."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4)
        give(tx, "anna")
        for number, job in enumerate(made.jobs):
            # Raw: figures of jobs, which the builder makes alike
            tx.execute(
                text("UPDATE jedi_jobs SET priority = :p, site = :site WHERE pandaid = :j"),
                {"p": 900 + number, "site": "SITE_B" if number % 2 else "SITE_A", "j": job},
            )
        tx.execute(
            text("UPDATE jedi_jobs SET exit_code = 1 WHERE pandaid = :j"), {"j": made.jobs[2]}
        )
        ends = [JobEnd(job, "cancelled", "cancelled_by_user", "r") for job in made.jobs[2:]]
        job_ends.end_jobs(tx, ends, "test")
        wanted = [made.jobs[number] for number in found]
        of_task = task_details.jobs(tx, made.task, JobQuery(where=where))
        assert [one.panda_id for one in of_task] == wanted
        owned = owned_jobs.owned(tx, "anna", JobQuery(where=where), 50)
        assert [one.panda_id for one in owned] == wanted[::-1]


def give(tx: Connection, user_name: str) -> None:
    """Raw: the owner of all tasks and their jobs."""
    for table in ("jedi_tasks", "jedi_jobs"):
        tx.execute(text(f"UPDATE {table} SET username = :user"), {"user": user_name})


def test_pages_of_jobs_follow_each_other(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 5)
        give(tx, "anna")
        first = task_details.jobs(tx, made.task, limit=2)
        second = task_details.jobs(tx, made.task, limit=2, after=first[-1].panda_id)
        assert [one.panda_id for one in (*first, *second)] == made.jobs[:4]
        newest = owned_jobs.owned(tx, "anna", EVERY_JOB, 2)
        older = owned_jobs.owned(tx, "anna", EVERY_JOB, 2, before=newest[-1].panda_id)
        assert [one.panda_id for one in (*newest, *older)] == made.jobs[:0:-1]
        with pytest.raises(BadInput, match="no field is called name"):
            task_details.jobs(tx, made.task, JobQuery(where=["name=x"]))
