"""States of units, their kill and their resubmission, with the agents' own moves.

Expected values: docs/reference/ganga.md#states-of-units; docs/reference/ganga.md#kill-and-resubmit.
"""

# Raw UPDATEs: sites with several cores.

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
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
from support.merging import SPEC, merged_at_last
from support.situations import make_due
from support.units import MAKING, ask_units, cursors, given, job_of, now, of, unit

from jedi.agent.base import World
from jedi.core.errors import BadInput, Forbidden
from jedi.model.jobs.needs import JobNeeds
from jedi.service.units.unit_details import attempts, outputs, states
from jedi.service.units.unit_verbs import resubmit
from jedi.taskbuffer.jobs.archive import ARCHIVE_JOBS
from jedi.taskbuffer.tasks.tasks import Move, move_tasks


def submitted(world: World, *units: Any, key: str = "k", **more: Any) -> int:
    """A task with units, and all that can be done for it without a pilot."""
    document = {**MAKING, "taskName": key, **more}
    task = given(world, units or [unit("1"), unit("2"), unit("3")], key, document=document)
    everything(world)
    return task.jedi_task_id


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
    assert second.units[0].panda_id == job_of(world, task, 1) and second.units[0].attempts == 1
    take(world, [job_of(world, task, 1)])
    end(world, [job_of(world, task, 1)], "failed")
    third = now(world, task, second.cursor)
    assert [(one.unit_nr, one.state) for one in third.units] == [(1, "submitted")]
    take(world, [job_of(world, task, 2)])
    end(world, [job_of(world, task, 2)])
    assert [one.state for one in now(world, task, third.cursor).units] == ["completed"]
    end_all(world, task, "failed")
    last = now(world, task)
    assert of(last) == "failed completed failed" and last.status == "finished"
    assert last.counts == {"failed": 2, "completed": 1}
    assert last.units[0].attempts == 3 and last.units[0].reason == "As told."
    with world.engine.begin() as tx:
        tried = attempts(call(tx), task, 1)
        made = outputs(call(tx), task)
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
        assert states(call(tx), cursors({task + 1: None})) == []


def test_one_unit_is_killed_alone(world: World) -> None:
    """Expected (rows 11, 61): "Only that subjob becomes killed": no automatic retry; others go on;
    unknown units and those that are over are refused one by one."""
    task = submitted(world)
    take(world, [job_of(world, task, 2)])
    answers = ask_units(world, task, "kill", [1, 2, 7])
    assert [(one.unit_nr, one.accepted, one.error) for one in answers] == [
        (1, True, None),
        (2, True, None),
        (7, False, "no_unit"),
    ]
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
        assert len([one for one in outputs(call(tx), task) if one.unit_nr == 1]) == 1
    sound(world)


@pytest.mark.parametrize("ended", [False, True])
def test_completed_unit_gives_up_its_outputs(world: World, ended: bool) -> None:
    """Expected (row 65): completed units are submitted again; the unit has one output in the end,
    and data management has no other."""
    task = submitted(world)
    take(world, [job_of(world, task, 1)])
    end(world, [job_of(world, task, 1)])
    if ended:
        assert work_off(world, task) == "done"
    before = job_of(world, task, 1)
    assert of(now(world, task)).startswith("completed")
    assert ask_units(world, task, "resubmit", [1])[0].accepted
    assert of(now(world, task)).startswith("submitted")
    assert work_off(world, task) == "done"
    with world.engine.begin() as tx:
        made = outputs(call(tx), task)
    assert sorted(one.unit_nr or 0 for one in made) == [1, 2, 3]
    assert before not in {one.panda_id for one in made}
    held = {file.lfn for file in world.ddm.list_files(f"user.anna:out.{task}")}
    assert held == {one.lfn for one in made}
    sound(world)


def test_merged_units_run_again_together(world: World) -> None:
    """Expected (issue: nothing counts twice by accident): a merged file has the outputs of units 1
    to 3. Unit 1 alone is refused, with the others named; all three together run again, and one
    merged file is left."""
    merge: dict[str, Any] = {"mergeOutput": True, "mergeSpec": SPEC, "nFilesPerMergeJob": 10}
    task = submitted(world, **merge)
    assert merged_at_last(world, task) == "done"
    [alone] = ask_units(world, task, "resubmit", [1])
    assert (alone.accepted, alone.error) == (False, "merged")
    assert alone.sentence == (
        "The output of unit 1 is merged with those of units 2, 3: resubmit all of them together."
    )
    assert [one.accepted for one in ask_units(world, task, "resubmit", [1, 2])] == [False, False]
    assert len([one for one in ask_units(world, task, "resubmit") if one.accepted]) == 3
    assert of(now(world, task)) == "submitted submitted submitted"
    assert merged_at_last(world, task) == "done"
    assert of(now(world, task)) == "completed completed completed"
    with world.engine.begin() as tx:
        [made] = outputs(call(tx), task)
    assert made.lfn == "out.000002.txt"
    sound(world)


def test_resubmitted_units_have_other_needs(world: World) -> None:
    """Expected (row 65, "backend options may change"): site, cores, memory, walltime and attempts
    are those of the new job, and of the task's record; a unit then fails after so many attempts."""
    task = submitted(world, coreCount=1, ramCount=1500, ramUnit="MBPerCore")
    ask_units(world, task, "kill", [1])
    assert work_off(world, task) == "finished"
    needs = JobNeeds("SITE_B", 4, 16_000, 7_200, 2)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_sites SET corecount = 4, maxrss = 64000"))
        assert resubmit(call(tx), jedi_task_id=task, unit_nrs=[1], needs=needs)[0].accepted
    end_all(world, task, "failed")
    assert now(world, task).units[0].attempts == 3
    query = "SELECT * FROM jedi_jobs WHERE pandaid = :j"
    [new] = rows(world, query, j=job_of(world, task, 1))
    assert (new.site, new.cores, new.memory_mb) == ("SITE_B", 4, 16_000)
    [kept] = rows(
        world, "SELECT taskparams AS p FROM jedi_taskparams WHERE jeditaskid = :t", t=task
    )
    told = {
        "site": "SITE_B",
        "coreCount": 4,
        "ramCount": 16_000,
        "ramUnit": "MB",
        "baseRamCount": 0,
        "baseWalltime": 7_200,
        "maxAttempt": 2,
    }
    assert told.items() <= kept.p.items()
    [row] = rows(world, "SELECT * FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    assert (row.ramunit, row.basewalltime, row.resource_type) == ("MB", 7_200, "MCORE_HIMEM")
    sound(world)


@pytest.mark.parametrize("target", ["done", "finished", "running"])
def test_units_whose_jobs_are_archived(world: World, target: str) -> None:
    """Expected: ended jobs that have left for the archive count as before: states, changes,
    attempts, outputs, kill and resubmit of units see no difference, and no unit is done twice."""
    task = submitted(world)
    first = now(world, task)
    take(world, [job_of(world, task, n) for n in (1, 2)])
    end(world, [job_of(world, task, 1)])
    end(world, [job_of(world, task, 2)], "failed")
    if target == "finished":
        assert ask_units(world, task, "kill", [2])[0].accepted
    if target != "running":
        assert work_off(world, task) == target
    before = now(world, task)
    with world.engine.begin() as tx:
        made, tried = outputs(call(tx), task), [attempts(call(tx), task, n) for n in (1, 2, 3)]
        assert ARCHIVE_JOBS.rows(tx, age_s=-1.0, after=0, limit=100)
    after = now(world, task)
    assert (after.units, after.counts) == (before.units, before.counts)
    changed = {one.unit_nr for one in now(world, task, first.cursor).units}
    assert changed >= ({1, 2, 3} if target != "running" else {1, 2})
    with world.engine.begin() as tx:
        assert (outputs(call(tx), task), [attempts(call(tx), task, n) for n in (1, 2, 3)]) == (
            made,
            tried,
        )
    sound(world)
    [late] = ask_units(world, task, "kill", [1])
    assert late.error == "wrong_status"
    again = [1, 2] if target != "running" else [1]
    assert [one.accepted for one in ask_units(world, task, "resubmit", again)] == [True] * len(
        again
    )
    assert of(now(world, task)).split()[:2] == ["submitted"] * 2
    everything(world)
    if target == "running":
        assert ask_units(world, task, "kill", [2])[0].accepted
    assert work_off(world, task) == ("finished" if target == "running" else "done")
    with world.engine.begin() as tx:
        ARCHIVE_JOBS.rows(tx, age_s=-1.0, after=0, limit=100)
        kept = {one.unit_nr or 0: one.panda_id for one in outputs(call(tx), task)}
        assert kept[1] == attempts(call(tx), task, 1)[-1].panda_id != made[0].panda_id
        assert [one.superseded for one in attempts(call(tx), task, 1)] == [True, False]
    assert sorted(kept) == ([1, 3] if target == "running" else [1, 2, 3])
    sound(world)


@pytest.mark.parametrize("way", ["reassign", "retry"])
def test_killed_unit_stays_killed(world: World, way: str) -> None:
    """Expected (row 11, "without an automatic retry"): a killed unit gets no new job, though its
    job is closed by a reassignment, or its task is retried as a whole."""
    task = submitted(world)
    take(world, [job_of(world, task, 2)])
    assert ask_units(world, task, "kill", [1, 2])[1].accepted
    if way == "reassign":
        ask(world, task, "reassign", site="SITE_B")
        everything(world)
        end(world, [job_of(world, task, 2)], "closed")
    else:
        obey(world)
    assert work_off(world, task) == "finished"
    if way == "retry":
        ask(world, task, "retry")
        assert work_off(world, task) == "finished"
    assert of(now(world, task)) == "killed killed completed"
    assert [one.attempts for one in now(world, task).units[:2]] == [1, 1]
    sound(world)
    ask_units(world, task, "resubmit")
    assert work_off(world, task) == "done"
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
    take(world, [job_of(world, task, 2)])
    end(world, [job_of(world, task, 2)], "failed")  # its file is ready again
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
