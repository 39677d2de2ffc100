"""Moves that many statuses have in common, each made by its agent from every one of them.

That no declared move is without a test is seen to at the end of a run of all tests (seen.py); here
are those that stories of single features do not come by.
"""

# Raw UPDATEs: every status is tried, also those to which no short way leads.

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import ask, cycle, status
from support.dogs import run
from support.generating import rows
from support.helpers import put_file_dataset
from support.postprocessor import processed
from support.statuses import statuses
from support.task_rows import good, put

from jedi.agent.base import Agent, World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import states
from jedi.core.errors import NotFound
from jedi.jobgenerator.agent import JobGenerator
from jedi.postprocessor.agent import PostProcessor
from jedi.taskbuffer.tasks import family, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskcommando.agent import TaskCommando
from jedi.taskcommando.commands import COMMANDS
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog.dog import Counts


def sources(owner: str, reason: str) -> list[str]:
    """Where moves of this owner with this reason begin."""
    return [e.source for e in states.TASK.edges if (e.owner, e.reason) == (owner, reason)]


def change(world: World, statement: str, **values: Any) -> None:
    """Change rows as no agent would."""
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text(statement), values)


def in_each(world: World, statuses: list[str]) -> dict[str, int]:
    """A task in each of these statuses."""
    ids = dict(zip(statuses, put(world, *[good()] * len(statuses)), strict=True))
    for name, task in ids.items():
        change(world, "UPDATE jedi_tasks SET status = :s WHERE jeditaskid = :t", s=name, t=task)
    return ids


def test_children_in_any_status_end_with_their_parent(world: World) -> None:
    ids = in_each(world, ["failed", *family.ABORTABLE])
    parent = ids.pop("failed")
    change(world, "UPDATE jedi_tasks SET parent_tid = :p", p=parent)
    PostProcessor(world).run_once()
    assert {name: status(world, task) for name, task in ids.items()} == dict.fromkeys(
        ids, "toabort"
    )


def test_tasks_in_any_status_that_kill_their_workers_are_set_aside(world: World) -> None:
    ids = in_each(world, sources("WatchDog", "worker_killed"))
    change(
        world,
        "UPDATE jedi_tasks SET lockedby = 'dead', worker_deaths = 9, "
        "lease_until = clock_timestamp() - interval '1 s'",
    )
    assert run(world, "leases") == Counts(worker_killed=len(ids))
    assert {status(world, task) for task in ids.values()} == {"exhausted"}


def test_a_hold_in_any_status_ends(world: World) -> None:
    ids = in_each(world, sources("any agent", "on_hold"))
    with world.engine.begin() as tx:
        moves = [Move(task, None, "pending", "no_site_now", "None.") for task in ids.values()]
        tasks.move_tasks(tx, moves, "test")
    change(world, "UPDATE jedi_tasks SET next_run_at = jedi_now() - interval '1 s'")
    assert run(world, "pending") == Counts(hold_over=len(ids))
    assert {name: status(world, task) for name, task in ids.items()} == {n: n for n in ids}


@pytest.mark.parametrize(
    ("agent", "before"),
    [
        (TaskRefiner, "registered"),
        (TaskRefiner, "rerefine"),
        (ContentsFeeder, "defined"),
        (JobGenerator, "ready"),
        (JobGenerator, "scouting"),
        (JobGenerator, "running"),
    ],
)
def test_trouble_holds_a_task(
    world: World, agent: type[Agent[Any, Any]], before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x", "g": b"x"}, "SITE_A_DATADISK")
    [task] = put(world, good())
    for earlier in (TaskRefiner, ContentsFeeder):
        if before not in ("registered", "defined"):
            earlier(world).run_once()
    if before == "defined":
        TaskRefiner(world).run_once()
    change(world, "UPDATE jedi_tasks SET status = :s", s=before)

    def fail(*_: Any) -> None:
        raise NotFound("It is not there.", code="internal_error")

    monkeypatch.setattr(agent, "work", fail)
    assert agent(world).run_once() == 1
    assert status(world, task) == "pending"
    if agent is ContentsFeeder:
        query = "SELECT status FROM jedi_datasets WHERE type = 'input'"
        assert [row.status for row in rows(world, query)] == ["pending"]
        monkeypatch.undo()
        change(world, "UPDATE jedi_tasks SET next_run_at = jedi_now() - interval '1 s'")
        run(world, "pending")
        agent(world).run_once()
        assert [row.status for row in rows(world, query)] == ["ready"]


def test_who_is_paused_in_any_status_is_resumed_there(world: World) -> None:
    ids = in_each(world, sorted(COMMANDS["pause"].allowed - {"pending", "throttled"}))
    for command in ("pause", "resume"):
        for task in ids.values():
            ask(world, task, command)
        TaskCommando(world).run_once()
    found = rows(
        world,
        "SELECT jeditaskid, status, fromstatus FROM jedi_tasks_statuslog "
        "WHERE fromstatus = 'paused'",
    )
    assert {row.jeditaskid: row.status for row in found} == {task: n for n, task in ids.items()}


@pytest.mark.parametrize("before", sources("PostProcessor", "all_processed"))
def test_what_is_processed_is_prepared_from_any_status(world: World, before: str) -> None:
    made = processed(world, "ready")
    change(world, "UPDATE jedi_tasks SET status = :s", s=before)
    PostProcessor(world).run_once()
    assert status(world, made.task) == "prepared"


@pytest.mark.parametrize("before", sources("PostProcessor", "input_still_open"))
def test_or_waits_for_open_input_from_any_status(world: World, before: str) -> None:
    made = processed(world, "running")
    change(world, "UPDATE jedi_tasks SET status = :s", s=before)
    PostProcessor(world).run_once()
    assert status(world, made.task) == "defined"


AT_WORK = [
    "defined",
    "assigning",
    "ready",
    "scouting",
    "scouted",
    "running",
    "throttled",
    "pending",
    "paused",
    "toretry",
    "toreassign",
    "reassigning",
]
REFINED_LATER = ["registered", "staging", "staged", "topreprocess", "preprocessing", "rerefine"]
LEFT = ["aborted", "broken", "failed", "aborting", "toabort", "tobroken"]
FOLLOWS = {
    **dict.fromkeys(AT_WORK, "running"),
    **dict.fromkeys(REFINED_LATER, "ready"),  # TaskRefiner waits for the parent
    "toincexec": "toupdate",
    **dict.fromkeys(family.BEGINS_ANEW, "toupdate"),
    **dict.fromkeys(LEFT, "ready"),
}
"""Status of a child: that of its input, which its parent makes, after a retry of the parent."""


@pytest.mark.parametrize("before", states.TASK_STATES)
def test_children_in_any_status_read_what_a_retry_makes(world: World, before: str) -> None:
    """All but those that end as aborted, broken or failed. `running` is an open dataset."""
    parent = processed(world, "ready").task
    change(world, "UPDATE jedi_tasks SET status = 'finished', username = 'anna'")
    change(world, "UPDATE jedi_dataset_contents SET status = 'failed' WHERE type = 'input'")
    child = in_each(world, [before])[before]
    change(
        world,
        "UPDATE jedi_tasks SET parent_tid = :p, lockedby = 'another worker', "
        "lease_until = clock_timestamp() + interval '1 h' WHERE jeditaskid = :c",
        p=parent,
        c=child,
    )
    change(
        world,
        "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status, state) "
        "SELECT :c, datasetname, 'input', 'ready', 'closed' FROM jedi_datasets "
        "WHERE jeditaskid = :p AND type = 'output'",
        p=parent,
        c=child,
    )
    ask(world, parent, "retry")
    agent = TaskCommando(world)
    while agent.run_once():
        pass
    assert statuses(world, child, "datasets") == [FOLLOWS[before]]
    assert (status(world, child) == "registered") == (before in (*family.BEGINS_ANEW, "registered"))


@pytest.mark.parametrize("before", ["finished", "failed", "exhausted", "done", "aborted"])
def test_any_ended_task_is_executed_incrementally(world: World, before: str) -> None:
    task = in_each(world, [before])[before]
    ask(world, task, "incexec", parameters={"maxAttempt": 2})
    cycle(world)
    assert status(world, task) == "rerefine"


def test_an_incremental_execution_may_come_to_nothing(world: World) -> None:
    task = in_each(world, ["rerefine"])["rerefine"]
    bad = json.dumps({**good(), "jobParameters": []})
    change(world, "UPDATE jedi_taskparams SET taskparams = CAST(:p AS jsonb)", p=bad)
    TaskRefiner(world).run_once()
    assert status(world, task) == "tobroken"


# -------------------------------------------------------------------------------------- datasets


def with_inputs(world: World, task_status: str, **more: Any) -> int:
    """A task with a master in each status of an input dataset; `more`: columns of all of them."""
    task = in_each(world, [task_status])[task_status]
    columns = {"jeditaskid": task, "type": "input", "nfiles": 1, "nfilestobeused": 1, **more}
    for name in states.INPUT_DATASET.states:
        row = {**columns, "status": name, "datasetname": f"demo:{name}"}
        change(
            world,
            f"INSERT INTO jedi_datasets ({', '.join(row)}) "
            f"VALUES ({', '.join(f':{key}' for key in row)})",
            **row,
        )
    return task


def became(world: World) -> dict[str, str]:
    """What the datasets have become, by what they were."""
    found = statuses(world, of="datasets", by="datasetname")
    return {name.removeprefix("demo:"): status for name, status in found.items()}


def test_incremental_execution_looks_at_all_input_again(world: World) -> None:
    task = with_inputs(world, "done")
    ask(world, task, "incexec")
    cycle(world)
    found = became(world)
    assert {found.pop("defined"), found.pop("pending")} == {"defined", "pending"}
    assert set(found.values()) == {"toupdate"}


def test_a_retry_looks_for_what_is_missing(world: World) -> None:
    task = with_inputs(world, "finished", nfilesmissing=1)
    ask(world, task, "retry")
    cycle(world)
    found = became(world)
    due = {name: found.pop(name) for name in ("defined", "toupdate", "pending")}
    assert due == {name: name for name in due}
    assert found.pop("removed") == "removed"
    assert set(found.values()) == {"defined"}
    assert status(world, task) == "defined"


def test_a_retry_goes_on_with_open_input(world: World) -> None:
    task = with_inputs(world, "finished", state="open", nfilesused=1, nfilesfailed=1)
    change(
        world,
        "INSERT INTO jedi_dataset_contents (jeditaskid, datasetid, lfn, type, status, "
        "attemptnr, maxattempt) SELECT jeditaskid, datasetid, 'f', type, 'failed', 3, 3 "
        "FROM jedi_datasets WHERE status IN ('done', 'finished', 'failed')",
    )
    ask(world, task, "retry")
    cycle(world)
    found = became(world)
    assert {found[name] for name in ("done", "finished", "failed")} == {"running"}


@pytest.mark.parametrize("before", ["defined", "toupdate", "pending", "running"])
@pytest.mark.parametrize("known", [True, False])
def test_input_is_open_or_unknown_whatever_it_was(world: World, before: str, known: bool) -> None:
    if known:
        put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK", closed=False)
    [task] = put(world, good())
    TaskRefiner(world).run_once()
    change(world, "UPDATE jedi_datasets SET status = :s WHERE type = 'input'", s=before)
    ContentsFeeder(world).run_once()
    query = "SELECT status FROM jedi_datasets WHERE type = 'input'"
    assert [row.status for row in rows(world, query)] == ["running" if known else "broken"]
    assert status(world, task) == ("ready" if known else "tobroken")


@pytest.mark.parametrize("before", ["defined", "toupdate", "pending"])
def test_what_follows_and_was_not_needed_is_done(world: World, before: str) -> None:
    made = processed(world, "ready")
    change(
        world,
        "UPDATE jedi_datasets SET status = :s, masterid = :m WHERE type = 'random_seed'",
        s=before,
        m=made.input,
    )
    PostProcessor(world).run_once()
    query = "SELECT status FROM jedi_datasets WHERE type = 'random_seed'"
    assert [row.status for row in rows(world, query)] == ["done"]


@pytest.mark.parametrize(("finished", "after"), [(1, "finished"), (0, "failed")])
def test_open_input_ends_with_its_task(world: World, finished: int, after: str) -> None:
    made = processed(world, "running")
    change(world, "UPDATE jedi_datasets SET nfilesfinished = :n WHERE type = 'input'", n=finished)
    change(world, "UPDATE jedi_tasks SET status = 'passed'")
    PostProcessor(world).run_once()
    query = "SELECT status FROM jedi_datasets WHERE type = 'input'"
    assert [row.status for row in rows(world, query)] == [after]
    assert status(world, made.task) == after


# --------------------------------------------------------------------------- commands, carried out


@pytest.mark.parametrize("fed", [False, True])
def test_a_task_in_any_status_goes_on_elsewhere(world: World, fed: bool) -> None:
    before = [s for s in sources("TaskCommando", "reassign") if s != "pending"]  # has no log here
    ids = in_each(world, before)
    insert = (
        "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status, nfiles, "
        "nfilestobeused) VALUES (:t, 'demo:in', 'input', 'ready', 1, 1)"
    )
    for task in ids.values() if fed else ():
        change(world, insert, t=task)
    for task in ids.values():
        ask(world, task, "reassign", site="SITE_B")
    while TaskCommando(world).run_once():
        pass
    query = "SELECT status FROM jedi_tasks_statuslog WHERE fromstatus = 'reassigning'"
    went = {row.status for row in rows(world, query)}
    assert went >= ({"ready", "defined"} if fed else {"defined", "exhausted"})


@pytest.mark.parametrize("before", ["finished", "failed", "exhausted", "done"])
def test_with_nothing_to_retry_a_task_is_what_it_was(world: World, before: str) -> None:
    task = in_each(world, ["toretry"])["toretry"]
    change(world, "UPDATE jedi_tasks SET oldstatus = :s", s=before)
    change(
        world,
        "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status) "
        "VALUES (:t, 'demo:in', 'input', 'done')",
        t=task,
    )
    TaskCommando(world).run_once()
    assert status(world, task) == before
