"""States of units, their kill and their resubmission, with the agents' own moves.

Expected values: docs/reference/ganga.md#states-of-units; docs/reference/ganga.md#kill-and-resubmit.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.commanding import (
    ask,
    end,
    everything,
    jobs,
    obey,
    sound,
    status,
    take,
    work_off,
)
from support.generating import rows
from support.situations import make_due
from support.units import DOCUMENT, ask_units, given, now, of, unit

from jedi.agent.base import World
from jedi.core.errors import BadInput, Forbidden
from jedi.service.units import attempts, outputs, states
from jedi.taskbuffer.tasks.tasks import Move, move_tasks

OUT = {"type": "template", "param_type": "output", "value": "> out.${SN}.txt",
       "dataset": "user.anna:out.$JEDITASKID"}  # fmt: skip
MAKING = {**DOCUMENT, "site": "SITE_A", "jobParameters": [*DOCUMENT["jobParameters"], OUT]}


def submitted(world: World, *units: Any, key: str = "k", **more: Any) -> int:
    """A task with units, and all that can be done for it without a pilot."""
    document = {**MAKING, "taskName": key, **more}
    task = given(world, units or [unit("1"), unit("2"), unit("3")], key, document=document)
    everything(world)
    return task.jedi_task_id


def job(world: World, task: int, unit_nr: int) -> int:
    """The latest job of a unit."""
    query = "SELECT max(pandaid) AS id FROM jedi_jobs WHERE jeditaskid = :t AND unit_nr = :u"
    return int(rows(world, query, t=task, u=unit_nr)[0].id)


def end_all(world: World, task: int, target: str) -> None:
    """Every job ends so, until the task has none."""
    for _ in range(20):
        make_due(world)
        everything(world)
        if not (waiting := jobs(world, task, "activated", "sent")):
            return
        take(world, jobs(world, task, "activated"))
        end(world, waiting, target)


def test_states_and_changes(world: World) -> None:
    """Expected: the mapping of jobs to states by hand; an automatic retry is submitted again, and
    a unit is failed after its last attempt; only changes since the cursor are listed."""
    task = given(world, [unit("1"), unit("2"), unit(3)], document=MAKING).jedi_task_id
    first = now(world, task)
    assert of(first) == "submitted submitted failed" and first.complete
    assert first.counts == {"submitted": 2, "failed": 1}
    assert first.units[2].reason == "Option Arguments is no text or list of texts."
    assert now(world, task, first.cursor).units == []
    everything(world)
    second = now(world, task, first.cursor)
    assert [one.unit_nr for one in second.units] == [1, 2] and of(second) == "submitted submitted"
    assert second.units[0].panda_id == job(world, task, 1) and second.units[0].attempts == 1
    take(world, [job(world, task, 1)])
    end(world, [job(world, task, 1)], "failed")
    third = now(world, task, second.cursor)
    assert [(one.unit_nr, one.state) for one in third.units] == [(1, "submitted")]
    take(world, [job(world, task, 2)])
    end(world, [job(world, task, 2)])
    assert [one.state for one in now(world, task, third.cursor).units] == ["completed"]
    end_all(world, task, "failed")
    last = now(world, task)
    assert of(last) == "failed completed failed" and last.status == "finished"
    assert last.counts == {"failed": 2, "completed": 1}
    assert last.units[0].attempts == 3 and last.units[0].reason == "As told."
    with world.engine.begin() as tx:
        tried = attempts(tx, task, 1)
        made = outputs(tx, task)
    assert [one.status for one in tried] == ["failed"] * 3
    assert tried[-1].panda_id == last.units[0].panda_id
    assert [(one.unit_nr, one.dataset) for one in made] == [(2, f"user.anna:out.{task}")]
    sound(world)


def test_cursors_of_others(world: World) -> None:
    """Expected: a cursor of another database, or an old one, gives all units; nonsense is
    refused; a task without units is left out."""
    task = submitted(world)
    cursor = now(world, task).cursor
    assert now(world, task, cursor).units == []
    assert len(now(world, task, "00000000" + cursor[8:]).units) == 3
    with pytest.raises(BadInput):
        now(world, task, "yesterday")
    with world.engine.begin() as tx:
        assert states(tx, {task + 1: None}) == []


def test_one_unit_is_killed_alone(world: World) -> None:
    """Expected (rows 11, 61): "Only that subjob becomes killed": no automatic retry; others go on;
    unknown units and those that are over are refused one by one."""
    task = submitted(world)
    take(world, [job(world, task, 2)])
    answers = ask_units(world, task, "kill", [1, 2, 7])
    assert [(one.unit_nr, one.accepted, one.error) for one in answers] == [
        (1, True, None), (2, True, None), (7, False, "no_unit"),
    ]  # fmt: skip
    assert of(now(world, task)) == "killed submitted submitted"  # a pilot still has job 2
    assert obey(world) == 1
    assert of(now(world, task)) == "killed killed submitted"
    [again] = ask_units(world, task, "kill", [1])
    assert again.sentence == (
        "Unit 1 is killed: kill accepts only units that are submitted, running, completing."
    )
    assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "killed killed completed"
    assert len(rows(world, "SELECT FROM jedi_jobs WHERE jeditaskid = :t", t=task)) == 3
    sound(world)


def test_kill_before_there_is_a_job(world: World) -> None:
    """Expected: a unit that is killed before its task is refined never runs; all units killed
    ends the task."""
    task = given(world, [unit("1"), unit("2")], document=MAKING).jedi_task_id
    assert [one.accepted for one in ask_units(world, task, "kill", [2])] == [True]
    assert of(now(world, task)) == "submitted killed"
    assert now(world, task).units[1].reason == "It was killed before it had a job."
    everything(world)
    assert len(jobs(world, task, "activated")) == 1
    assert len(ask_units(world, task, "kill")) == 1
    make_due(world)
    everything(world)
    assert (of(now(world, task)), status(world, task)) == ("killed killed", "failed")
    sound(world)


@pytest.mark.parametrize("target", ["running", "failed", "finished", "done", "exhausted"])
def test_units_are_resubmitted(world: World, target: str) -> None:
    """Expected (rows 12, 42, 63): the unit is submitted again in place, with its number; others
    stay as they are, and the task goes on with it alone."""
    more: dict[str, Any] = {"goal": 90, "useExhausted": True} if target == "exhausted" else {}
    task = submitted(world, **more)
    if target != "done":
        assert ask_units(world, task, "kill", [1])[0].accepted
    if target == "failed":
        ask_units(world, task, "kill")
    if target != "running":
        assert work_off(world, task) == target
    before = now(world, task)
    assert of(before).split()[0] == ("completed" if target == "done" else "killed")
    assert [one.accepted for one in ask_units(world, task, "resubmit", [1])] == [True]
    assert now(world, task, before.cursor).units[0].state == "submitted"
    [late] = ask_units(world, task, "resubmit", [1])
    assert late.error == "wrong_status"
    assert work_off(world, task) == ("finished" if target == "failed" else "done")
    rest = "killed killed" if target == "failed" else "completed completed"
    assert of(now(world, task)) == f"completed {rest}"
    assert now(world, task).units[0].attempts == 2
    with world.engine.begin() as tx:
        assert len([one for one in outputs(tx, task) if one.unit_nr == 1]) == 1
    sound(world)


@pytest.mark.parametrize("ended", [False, True])
def test_completed_unit_gives_up_its_outputs(world: World, ended: bool) -> None:
    """Expected (row 65): completed units are submitted again; the unit has one output in the end,
    and data management has no other."""
    task = submitted(world)
    take(world, [job(world, task, 1)])
    end(world, [job(world, task, 1)])
    if ended:
        assert work_off(world, task) == "done"
    before = job(world, task, 1)
    assert of(now(world, task)).startswith("completed")
    assert ask_units(world, task, "resubmit", [1])[0].accepted
    assert of(now(world, task)).startswith("submitted")
    assert work_off(world, task) == "done"
    with world.engine.begin() as tx:
        made = outputs(tx, task)
    assert sorted(one.unit_nr or 0 for one in made) == [1, 2, 3]
    assert before not in {one.panda_id for one in made}
    held = {file.lfn for file in world.ddm.list_files(f"user.anna:out.{task}")}
    assert held == {one.lfn for one in made}
    sound(world)


@pytest.mark.parametrize("hold", ["paused", "pending"])
def test_units_of_held_tasks(world: World, hold: str) -> None:
    """Expected: kill and resubmit work in a task that is held; the unit runs when it goes on."""
    task = submitted(world)
    assert ask_units(world, task, "kill", [1])[0].accepted
    if hold == "paused":
        ask(world, task, "pause")
        everything(world)
    else:
        with world.engine.begin() as tx:
            move_tasks(tx, [Move(task, None, "pending", "test", "Held.")], "test")
    assert status(world, task) == hold
    assert ask_units(world, task, "resubmit", [1])[0].accepted
    assert ask_units(world, task, "kill", [2])[0].accepted
    assert of(now(world, task)) == "submitted killed submitted"
    if hold == "paused":
        ask(world, task, "resume")
        everything(world)
    else:
        with world.engine.begin() as tx:
            move_tasks(tx, [Move(task, None, "running", "test", "Over.")], "test")
    assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "completed killed completed"
    sound(world)


def test_killed_task_goes_on_with_one_unit(world: World) -> None:
    """Expected (2.4 (d)): reactivation "limited to those files": units that the kill of the task
    ended stay killed, with a job or without one."""
    task = submitted(world, unit("1"), unit("2"), unit(3), unit("4"))
    ask_units(world, task, "kill", [4])
    take(world, [job(world, task, 2)])
    end(world, [job(world, task, 2)], "failed")  # its file is ready again
    ask(world, task, "kill")
    make_due(world)
    everything(world)
    assert status(world, task) == "aborted"
    assert of(now(world, task)) == "killed killed failed killed"
    assert [one.accepted for one in ask_units(world, task, "resubmit", [1, 3])] == [True, False]
    assert of(now(world, task)) == "submitted killed failed killed"
    assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "completed killed failed killed"
    sound(world)
    assert len(ask_units(world, task, "resubmit")) == 2  # those that were killed
    assert work_off(world, task) == "done"
    assert of(now(world, task)) == "completed completed failed completed"
    sound(world)


def test_task_killed_before_it_had_files(world: World) -> None:
    """Expected: a unit of a task that was killed at once runs alone when it is resubmitted."""
    task = given(world, [unit("1"), unit("2")], document=MAKING).jedi_task_id
    ask(world, task, "kill")
    everything(world)
    assert (status(world, task), of(now(world, task))) == ("aborted", "killed killed")
    ask_units(world, task, "resubmit", [2])
    assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "killed completed"
    sound(world)


def test_units_of_others(world: World) -> None:
    """Expected: only the owner and operators kill and resubmit."""
    task = submitted(world)
    for verb in ("kill", "resubmit"):
        with pytest.raises(Forbidden):
            ask_units(world, task, verb, [1], who="bob")
