"""Tasks that are sent to another site or nucleus, with their jobs or without. The records agree."""

# Raw UPDATEs: a status to which no short way leads.

from __future__ import annotations

from typing import Any

import pytest
from support.commanding import (
    ask,
    counts,
    cycle,
    end,
    everything,
    files,
    jobs,
    obey,
    running,
    sound,
    status,
    take,
    work_off,
)
from support.generating import generate, rows
from support.situations import make_due, set_sites

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.core.errors import BadInput
from jedi.jobdispatcher import outcome
from jedi.model.jobs.attempt import ReportedJob
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskcommando.reassign import target


@pytest.mark.parametrize(
    ("before", "told", "after"),
    [
        ("running", {}, "running"),
        ("scouting", {}, "scouting"),
        ("assigning", {}, "ready"),
        ("exhausted", {}, "ready"),
        ("exhausted", {"fed": False}, "defined"),
        ("exhausted", {"refined": False, "fed": False}, "exhausted"),
        ("defined", {"nucleus": True}, "defined"),
        ("running", {"nucleus": True}, "assigning"),
        ("exhausted", {"nucleus": True}, "assigning"),
    ],
)
def test_where_a_reassigned_task_goes_on(before: str, told: dict[str, bool], after: str) -> None:
    assert target(before, **{"refined": True, "fed": True, "nucleus": False, **told}) == after


def sites(world: World, task: int, *statuses: str) -> set[str]:
    """Where the jobs of a task are that have not ended."""
    query = "SELECT site FROM jedi_jobs WHERE jeditaskid = :t AND postprocessed_at IS NULL"
    return {row.site for row in rows(world, query, t=task)}


def test_all_jobs_are_closed_and_made_anew_elsewhere(world: World) -> None:
    """Also those whose inputs were tried for the last time: it was no fault of theirs."""
    task = running(world, 4, maxAttempt=1)
    take(world, jobs(world, task, "activated")[:2])
    ask(world, task, "reassign", site="SITE_B")
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("toreassign", {"sent": 2, "closed": 2})
    assert (generate(world), obey(world)) == (0, 2)
    make_due(world)
    cycle(world)
    assert (status(world, task), files(world, task)) == ("running", {"ready": 4})
    sound(world)
    everything(world)
    assert (sites(world, task), files(world, task)) == ({"SITE_B"}, {"running": 4})
    assert work_off(world, task) == "done"
    sound(world)
    [row] = rows(
        world,
        "SELECT t.site, taskparams ->> 'site' AS said FROM jedi_tasks t "
        "JOIN jedi_taskparams USING (jeditaskid)",
    )
    assert tuple(row) == ("SITE_B", "SITE_B")


@pytest.mark.parametrize(
    ("told", "after"),
    [({"soft": True}, {"sent": 1, "closed": 3}), ({"nokill": True}, {"sent": 1, "activated": 3})],
)
def test_jobs_are_spared_if_told_so(
    world: World, told: dict[str, Any], after: dict[str, int]
) -> None:
    task = running(world, 4)
    take(world, jobs(world, task, "activated")[:1])
    ask(world, task, "reassign", site="SITE_B", **told)
    cycle(world)
    assert (status(world, task), counts(world, task), obey(world)) == ("running", after, 0)
    sound(world)
    everything(world)
    elsewhere = {"SITE_A", "SITE_B"} if "soft" in told else {"SITE_A"}
    assert (sites(world, task), files(world, task)) == (elsewhere, {"running": 4})
    assert work_off(world, task) == "done"
    sound(world)


def test_many_queued_jobs_are_closed_batch_by_batch(world: World) -> None:
    task = running(world, 5)
    rows(
        world,
        "INSERT INTO jedi_knobs (component, key, value) "
        "VALUES ('taskcommando', 'kill_batch', '2') RETURNING 1",
    )
    ask(world, task, "reassign", site="SITE_B", soft=True)
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("running", {"closed": 5})
    sound(world)


def test_another_nucleus_collects_what_is_made_from_now_on(world: World) -> None:
    task = running(world, 3)
    set_sites(world, "SITE_A", state="INACTIVE")
    first = jobs(world, task, "activated")[:1]
    take(world, first)
    end(world, first)
    ask(world, task, "reassign", nucleus="SITE_B")
    cycle(world)
    assert status(world, task) == "assigning"
    cycle(world, TaskBroker)
    assert status(world, task) == "ready"
    everything(world)
    query = (
        "SELECT DISTINCT endpoint FROM jedi_job_files f JOIN jedi_jobs j USING (pandaid) "
        "WHERE f.type = 'output' AND j.status = 'activated'"
    )
    found = rows(world, query)
    assert [row.endpoint for row in found] == ["SITE_B_DATADISK"]
    sound(world)
    assert work_off(world, task) == "done"
    sound(world)


@pytest.mark.parametrize("before", ["running", "registered"])
def test_a_pending_task_is_reassigned_if_it_could_be_before(world: World, before: str) -> None:
    task = running(world, 1)
    with world.engine.begin() as tx:
        if before == "registered":
            tx.exec_driver_sql("ALTER TABLE jedi_tasks DISABLE TRIGGER USER")
            tx.exec_driver_sql("UPDATE jedi_tasks SET status = 'registered'")
        tasks.move_tasks(tx, [Move(task, None, "pending", "test", "Held.")], "test")
    ask(world, task, "reassign", site="SITE_B")
    cycle(world)
    [row] = rows(world, "SELECT outcome, message FROM jedi_commands")
    if before == "registered":
        assert (row.outcome, status(world, task)) == ("refused", "pending")
        assert row.message.startswith("A task that is registered can't be reassigned")
    else:
        assert (row.outcome, status(world, task)) == ("accepted", "running")
        sound(world)


def test_a_task_is_killed_while_it_is_reassigned(world: World) -> None:
    task = running(world, 3)
    taken = jobs(world, task, "activated")[:1]
    take(world, taken)
    ask(world, task, "reassign", site="SITE_B")
    cycle(world)
    ask(world, task, "kill")
    cycle(world)
    with world.engine.begin() as tx:
        end_jobs(tx, [JobEnd(taken[0], "closed", "reassigned", "Told.")], "Adder")
    make_due(world)
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("aborted", {"closed": 3})
    sound(world)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "no place is named. Name a site or a nucleus"),
        ({"site": "SITE_A", "nucleus": "SITE_B"}, "a task can only go to one place"),
        ({"site": "SITE_C"}, "no such site. Did you mean SITE_"),
        ({"nucleus": 5}, "must be text"),
        ({"site": "SITE_A", "soft": True, "nokill": True}, "soft kills queued jobs"),
    ],
)
def test_the_place_is_checked(world: World, told: dict[str, Any], words: str) -> None:
    task = running(world, 1)
    with pytest.raises(BadInput, match=words):
        ask(world, task, "reassign", **told)


def test_a_task_may_say_that_nobody_reassigns_it(world: World) -> None:
    task = running(world, 1, disableReassign=True)
    with pytest.raises(BadInput, match="disableReassign"):
        ask(world, task, "reassign", site="SITE_B")


def test_a_job_that_a_pilot_ended_on_reassignment_is_closed() -> None:
    job = ReportedJob(
        panda_id=1,
        lock_seq=1,
        pilot_result="cancelled",
        kill_code="reassigned",
        error_code="killed",
        error_diag="Told.",
        site_endpoint="E",
        files=(),
    )
    verdict = outcome.judge(job)
    assert (verdict.target, verdict.code, verdict.source) == ("closed", "reassigned", "jedi")
