"""What people ask of tasks: who may ask what and when; finish, pause and resume, and what happens
when they come at a bad moment. After each the records agree."""

# Raw UPDATEs: a priority that a dog raises.

from __future__ import annotations

from pathlib import Path

import pytest
from support.commanding import (
    OWNER,
    answer,
    ask,
    counts,
    cycle,
    end,
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
from support.situations import end_leases, make_due

from jedi.agent.base import World
from jedi.core import states
from jedi.core.errors import BadInput, Refused
from jedi.jobgenerator.agent import JobGenerator
from jedi.service.tasks import commanding
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.tasks import commands as command_rows
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.users import users
from jedi.taskcommando.agent import TaskCommando
from jedi.taskcommando.commands import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"

# ------------------------------------------------------------------------- who, what and when


def test_the_page_about_commands_is_up_to_date() -> None:
    page = (DOCS / "commands.md").read_text()
    for command in COMMANDS.values():
        accepted = ", ".join(s for s in states.TASK_STATES if s in command.allowed)
        assert f"| {command.name} | {accepted} |" in page


def test_owners_command_their_own_tasks_and_operators_all(world: World) -> None:
    task = running(world, 1)
    refused = answer(world, task, "pause", "bob")
    assert refused.error == "forbidden"
    assert f"belongs to {OWNER}: only its owner and operators may pause it." in refused.sentence
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="bob", role="production", gridpref=None, cap=None)
    assert answer(world, task, "pause", "bob").error == "forbidden"
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="bob", role="operator", gridpref=None, cap=None)
    assert answer(world, task, "pause", "bob").command_id
    [row] = rows(world, "SELECT username FROM jedi_commands")
    assert row.username == "bob"


def test_what_is_wrong_with_a_command_is_told(world: World) -> None:
    task = running(world, 1)
    with pytest.raises(Refused) as refused:
        ask(world, task, "resume")
    assert refused.value.code == "wrong_status"
    assert refused.value.sentence == (
        "A task that is running can't be resumed: resume is accepted in the statuses paused, "
        "throttled, staging. Possible now: kill, finish, pause, reassign, release."
    )
    with pytest.raises(BadInput, match="Did you mean soft"):
        ask(world, task, "finish", sof=True)
    with pytest.raises(BadInput, match="must be true or false"):
        ask(world, task, "finish", soft="yes")
    with pytest.raises(BadInput, match="pause takes no arguments"):
        ask(world, task, "pause", xyz=True)
    assert rows(world, "SELECT FROM jedi_commands") == []


# ------------------------------------------------------------------------------------ finish


def test_a_task_is_finished_with_what_it_has(world: World) -> None:
    task = running(world, 6)
    first, second, third, *_ = jobs(world, task, "activated")
    take(world, [first, second, third])
    end(world, [first])
    ask(world, task, "finish")
    cycle(world)
    assert counts(world, task) == {"finished": 1, "sent": 2, "cancelled": 3}
    assert status(world, task) == "finishing"
    assert obey(world) == 2
    make_due(world)
    cycle(world)
    assert (status(world, task), files(world, task)) == ("finished", {"finished": 1, "failed": 5})
    sound(world)
    ask(world, task, "retry")
    assert work_off(world, task) == "done"
    sound(world)


def test_a_soft_finish_can_become_a_hard_one(world: World) -> None:
    task = running(world, 3)
    take(world, jobs(world, task, "activated")[:2])
    ask(world, task, "finish", soft=True)
    cycle(world)
    assert (counts(world, task), obey(world)) == ({"sent": 2, "cancelled": 1}, 0)
    ask(world, task, "finish")
    cycle(world)
    assert obey(world) == 2
    make_due(world)
    cycle(world)
    assert (status(world, task), files(world, task)) == ("failed", {"failed": 3})
    sound(world)


def test_finish_comes_while_jobs_are_made(world: World) -> None:
    """The generator has the task: what it makes is written, and then killed."""
    task = running(world, 3)
    end(world, jobs(world, task, "activated"), "failed")
    generator = JobGenerator(world)
    with world.engine.begin() as tx:
        [item] = generator.claim(tx, 1)
    ask(world, task, "finish")
    assert TaskCommando(world).run_once() == 0
    made = generator.work(item)
    with world.engine.begin() as tx:
        generator.apply(tx, [(item, made)])
    assert counts(world, task) == {"failed": 3, "activated": 3}
    cycle(world)
    assert (status(world, task), files(world, task)) == ("failed", {"failed": 3})
    sound(world)


# -------------------------------------------------------------------------- pause and resume


def test_a_paused_task_does_nothing_new(world: World) -> None:
    task = running(world, 6)
    taken = jobs(world, task, "activated")[:2]
    take(world, taken)
    ask(world, task, "pause")
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("paused", {"sent": 2, "throttled": 4})
    assert rows(world, "SELECT FROM jedi_job_ready") == []
    end(world, taken, "failed")
    assert (files(world, task), generate(world)) == ({"ready": 2, "running": 4}, 0)
    sound(world)
    ask(world, task, "resume")
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("running", {"failed": 2, "activated": 4})
    sound(world)
    assert work_off(world, task) == "done"
    sound(world)


def test_jobs_are_throttled_batch_by_batch_and_late_ones_too(world: World) -> None:
    task = running(world, 5)
    rows(
        world,
        "INSERT INTO jedi_knobs (component, key, value) "
        "VALUES ('taskcommando', 'kill_batch', '2') RETURNING 1",
    )
    ask(world, task, "pause")
    agent, left = TaskCommando(world), []
    while agent.run_once():
        left.append(len(jobs(world, task, "activated")))
    assert left == [5, 3, 1, 0]
    late = jobs(world, task, "throttled")[:1]
    with world.engine.begin() as tx:  # as the Mover does when inputs have come
        move_jobs(tx, [JobMove(late[0], "activated", "t", "t")], "Mover", ["throttled"])
    cycle(world)
    assert counts(world, task) == {"throttled": 5}
    sound(world)


@pytest.mark.parametrize("holds", [["pending"], ["throttled"], ["exhausted"], []])
def test_a_resumed_task_is_what_it_was_before_it_was_held(world: World, holds: list[str]) -> None:
    task = running(world, 1)
    with world.engine.begin() as tx:
        for hold in holds:
            tasks.move_tasks(tx, [Move(task, None, hold, "test", "Held.")], "test")
    ask(world, task, "pause")
    cycle(world)
    ask(world, task, "resume")
    cycle(world)
    assert status(world, task) == ("exhausted" if holds == ["exhausted"] else "running")
    sound(world)


def test_a_throttled_task_is_resumed_before_its_time(world: World) -> None:
    task = running(world, 1)
    with world.engine.begin() as tx:
        moves = [Move(task, None, "throttled", "test", "Held.", wait_s=3600.0)]
        tasks.move_tasks(tx, moves, "WatchDog")
    ask(world, task, "resume")
    cycle(world)
    assert (status(world, task), work_off(world, task)) == ("running", "done")
    sound(world)


def test_pause_waits_for_the_generator(world: World) -> None:
    task = running(world, 4)
    end(world, jobs(world, task, "activated"), "failed")
    generator = JobGenerator(world)
    with world.engine.begin() as tx:
        [item] = generator.claim(tx, 1)
    ask(world, task, "pause")
    assert TaskCommando(world).run_once() == 0
    made = generator.work(item)
    with world.engine.begin() as tx:
        generator.apply(tx, [(item, made)])
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("paused", {"failed": 4, "throttled": 4})
    sound(world)


def test_a_generator_that_lost_its_lease_makes_nothing_for_a_paused_task(world: World) -> None:
    task = running(world, 4)
    end(world, jobs(world, task, "activated"), "failed")
    generator = JobGenerator(world)
    with world.engine.begin() as tx:
        [item] = generator.claim(tx, 1)
        end_leases(tx)
    ask(world, task, "pause")
    cycle(world)
    made = generator.work(item)
    with world.engine.begin() as tx:
        generator.apply(tx, [(item, made)])
    assert (status(world, task), counts(world, task)) == ("paused", {"failed": 4})
    sound(world)


def test_a_paused_task_can_be_killed(world: World) -> None:
    task = running(world, 3)
    taken = jobs(world, task, "activated")[:1]
    take(world, taken)
    for command in ("pause", "kill"):
        ask(world, task, command)
    TaskCommando(world).run_once()
    assert status(world, task) == "paused"
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("aborting", {"sent": 1, "cancelled": 2})
    assert obey(world) == 1
    make_due(world)
    cycle(world)
    assert status(world, task) == "aborted"
    sound(world)


def test_a_paused_task_can_be_finished(world: World) -> None:
    task = running(world, 2)
    ask(world, task, "pause")
    cycle(world)
    ask(world, task, "finish", soft=True)
    cycle(world)
    assert (status(world, task), counts(world, task)) == ("failed", {"cancelled": 2})
    sound(world)


@pytest.mark.parametrize(
    ("first", "names", "end"),
    [
        ([], ["pause", "resume"], "running"),
        ([], ["pause", "resume", "pause"], "paused"),
        (["pause"], ["resume", "pause"], "paused"),
        (["pause"], ["resume", "pause", "resume"], "running"),
        ([], ["pause", "kill"], "aborted"),
        ([], ["pause", "finish"], "failed"),  # nothing was processed
        ([], ["reassign", "kill"], "aborted"),
    ],
)
def test_commands_in_a_row_are_all_taken_up(
    world: World, first: list[str], names: list[str], end: str
) -> None:
    """None waits for TaskCommando: each is judged by what those before it make of the task."""
    task = running(world, 1)
    for name in first:
        ask(world, task, name)
        cycle(world)
    for name in names:
        ask(world, task, name, **({"site": "SITE_A"} if name == "reassign" else {}))
    cycle(world)
    assert status(world, task) == end
    found = rows(world, "SELECT command, outcome FROM jedi_commands ORDER BY command_id")
    assert [tuple(row) for row in found] == [(name, "accepted") for name in (*first, *names)]
    sound(world)


def test_a_failed_task_that_is_retried_can_be_killed_at_once(world: World) -> None:
    task = running(world, 1, maxAttempt=1)
    end(world, jobs(world, task, "activated"), "failed")
    cycle(world)
    assert status(world, task) == "failed"
    for name in ("retry", "kill"):
        ask(world, task, name)
    cycle(world)
    assert status(world, task) == "aborted"
    sound(world)


def test_the_answer_names_the_commands_that_come_first(world: World) -> None:
    task = running(world, 1)
    with world.engine.begin() as tx:
        sentences = [
            commanding.command(tx, OWNER, task, name).sentence
            for name in ("pause", "resume", "kill")
        ]
        with pytest.raises(Refused) as refused:
            commanding.command(tx, OWNER, task, "pause")
    assert sentences == [
        "pause is asked for.",
        "resume is asked for, after pause.",
        "kill is asked for, after pause, resume.",
    ]
    assert refused.value.sentence == (
        "A task that is aborting can't be paused. Possible now: nothing. Before it comes: pause, "
        "resume, kill."
    )


def test_the_answer_names_the_attempt_that_begins(world: World) -> None:
    task = running(world, 1, maxAttempt=1)
    end(world, jobs(world, task, "activated"), "failed")
    cycle(world)
    with world.engine.begin() as tx:
        noted = commanding.command(tx, OWNER, task, "retry")
        late = commanding.command(tx, OWNER, task, "finish")
    assert (noted.attempt_nr, late.attempt_nr) == (2, None)
    assert noted.sentence == "retry is asked for, as attempt 2."


def test_of_two_commands_at_once_the_second_is_judged_after_the_first(world: World) -> None:
    """Neither of their transactions sees the other's command."""
    task = running(world, 1)
    both = [ask(world, task, "pause")]
    with world.engine.begin() as tx:
        both += [command_rows.append(tx, task, "pause", OWNER)]
    cycle(world)
    found = rows(world, "SELECT command_id, outcome, message FROM jedi_commands ORDER BY 1")
    assert [(r.command_id, r.outcome) for r in found] == [
        (both[0], "accepted"),
        (both[1], "refused"),
    ]
    assert found[1].message == "It is already paused."
    sound(world)


# ------------------------------------------------------------------------------------- retry


@pytest.mark.parametrize(("keep", "priority"), [(False, 1000), (True, 1500)])
def test_retry_keeps_the_priority_if_told_to(world: World, keep: bool, priority: int) -> None:
    task = running(world, 1, maxAttempt=1)
    end(world, jobs(world, task, "activated"), "failed")
    cycle(world)
    rows(world, "UPDATE jedi_tasks SET currentpriority = 1500 RETURNING 1")
    ask(world, task, "retry", keep=keep)
    cycle(world)
    [row] = rows(world, "SELECT status, currentpriority FROM jedi_tasks")
    assert tuple(row) == ("ready", priority)
    sound(world)
