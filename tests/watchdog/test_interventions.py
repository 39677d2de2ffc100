"""Tasks that rest, end, stop or hurry by themselves, each at both sides of its border."""

# Raw UPDATEs: counts and ages that only many failed attempts lead to.

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, text
from support.calls import call
from support.commanding import (
    add_inputs,
    ask,
    counts,
    cycle,
    end,
    everything,
    jobs,
    running,
    sound,
    status,
    take,
)
from support.dogs import START, run
from support.generating import document, generate, ready, rows
from support.job_rows import make_jobs
from support.situations import make_due, pilots_ask

from jedi.agent.base import World
from jedi.service.tasks import why
from jedi.service.tasks.task_details import among
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.tasks import interventions, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def put(world: World, **values: Any) -> None:
    """Set knobs; `__` stands for the dot."""
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, name.replace("__", "."), value, "op")


def sql(world: World, statement: str, **values: Any) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement), values)


def unguarded(tx: Connection, statement: str, **values: Any) -> None:
    """Change statuses as nobody may."""
    tx.execute(text("SET LOCAL session_replication_role = replica"))
    tx.execute(text(statement), values)
    tx.execute(text("SET LOCAL session_replication_role = origin"))


def task_row(world: World, task: int) -> Any:
    [row] = rows(world, "SELECT * FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    return row


def move(world: World, task: int, target: str) -> None:
    with world.engine.begin() as tx:
        tasks.move_tasks(tx, [Move(task, None, target, "test", "As told.")], "test")


# ------------------------------------------------------------------------------------ throttling


def tried(world: World, attempts: int, files: int = 1, **keys: Any) -> int:
    """A task of jobs of one file each, the next of which is the so many-th attempt."""
    add_inputs(world, files)
    [task] = ready(world, document(**{"nFilesPerJob": 1, "site": "SITE_A", **keys}))
    again(world, task, attempts)
    return task


def again(world: World, task: int, attempts: int) -> None:
    """The task's next jobs are the so many-th attempt, and more may follow."""
    sql(
        world,
        "UPDATE jedi_dataset_contents SET attemptnr = :n - 1, maxattempt = 99 "
        "WHERE type = 'input' AND jeditaskid = :t",
        n=attempts,
        t=task,
    )


def next_jobs(world: World) -> int:
    """One cycle of the JobGenerator while pilots come; how many tasks it had."""
    pilots_ask(world)
    return generate(world)


def fail(world: World, task: int) -> None:
    """All jobs that are there fail."""
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"), "failed")


@pytest.mark.parametrize("scouting", [False, True])
def test_a_task_that_needs_many_attempts_rests(
    world: World, at: Callable[[float], None], scouting: bool
) -> None:
    """JEDI document, "Transition of task status": "the largest attemptNr in the task is a multiple
    of 5. The throttled period is 120 x int(max(attemptNr)/5)**2 minites". The 4th attempt is none
    of these; with the 5th job the task rests 120 x 1 min, decided by who makes it, without any dog.
    Somebody who asks hears when it goes on."""
    at(0)
    task = tried(world, 4, files=40 if scouting else 1, skipScout=not scouting)
    working = "scouting" if scouting else "running"
    assert next_jobs(world) == 1
    assert status(world, task) == working
    fail(world, task)
    assert next_jobs(world) == 1
    row = task_row(world, task)
    assert (row.status, row.numthrottled, row.reason_code) == ("throttled", 1, "many_attempts")
    assert row.throttledtime == START
    assert "no jobs are made for 120 min, or until the task is resumed." in row.errordialog
    over = START + timedelta(minutes=120)
    with world.engine.begin() as tx:
        assert why.why(call(tx), task).next_try == over
        assert [one.next_run_at for one in among(tx, [task])] == [over]
    fail(world, task)
    assert next_jobs(world) == 0
    at(120 * MINUTE)
    assert run(world, "throttle") == Counts()
    at(120 * MINUTE + 1)
    assert run(world, "throttle") == Counts(throttle_over=1)
    assert status(world, task) == working
    assert next_jobs(world) == 1  # the 6th: once for five
    assert status(world, task) == working
    sound(world)


def test_a_rest_ends_in_the_status_where_it_began(
    world: World, at: Callable[[float], None]
) -> None:
    """A task that is ready again since its last jobs, as after new input, rests and is ready."""
    at(0)
    task = tried(world, 5)
    assert status(world, task) == "ready"
    move(world, task, "throttled")
    with world.engine.begin() as tx:
        interventions.note_throttled(tx, {task: 1})
    at(120 * MINUTE + 1)
    assert run(world, "throttle") == Counts(throttle_over=1)
    assert status(world, task) == "ready"


def test_each_rest_is_longer(world: World, at: Callable[[float], None]) -> None:
    """The 12th attempt: int(12 / 5) = 2, so 120 x 2**2 = 480 min."""
    task = tried(world, 12)
    assert next_jobs(world) == 1
    assert task_row(world, task).numthrottled == 2
    at(480 * MINUTE)
    assert run(world, "throttle") == Counts()
    at(480 * MINUTE + 1)
    assert run(world, "throttle") == Counts(throttle_over=1)


def test_no_task_fails_for_good_without_having_rested(
    world: World, at: Callable[[float], None]
) -> None:
    """12 attempts that fail at once, with no dog in between: it rests with the 5th and the 10th."""
    task = tried(world, 1, maxAttempt=12)
    sql(world, "UPDATE jedi_dataset_contents SET maxattempt = 12 WHERE type = 'input'")
    rests, clock = [], 0.0
    for attempt in range(1, 13):
        assert next_jobs(world) == 1
        if status(world, task) == "throttled":
            rests.append(attempt)
            clock += 120 * MINUTE * len(rests) ** 2 + 1
        fail(world, task)
        at(clock)
        run(world, "throttle")
    cycle(world)
    assert (rests, status(world, task)) == ([5, 10], "failed")


def test_a_person_may_end_a_rest_or_forbid_it(world: World, at: Callable[[float], None]) -> None:
    task = tried(world, 5, noThrottle=True)
    assert next_jobs(world) == 1
    assert status(world, task) == "running"
    sql(world, "UPDATE jedi_taskparams SET taskparams = taskparams - 'noThrottle'")
    fail(world, task)
    assert next_jobs(world) == 1
    assert status(world, task) == "throttled"
    ask(world, task, "resume")
    cycle(world)
    assert status(world, task) == "running"
    fail(world, task)
    assert next_jobs(world) == 1
    assert status(world, task) == "running"  # the 7th: it has rested for the 5th


def test_current_goes_by_the_mean_of_failures(world: World, at: Callable[[float], None]) -> None:
    """Two files: (9 + 0) / 2 = 4.5 failures are not enough, (5 + 5) / 2 = 5 are; the second rest
    is at 10, whatever the mean beyond it, and takes 120 x 2**2 min."""
    task = tried(world, 9, files=2)
    put(world, core__preset="current")
    failures = "UPDATE jedi_dataset_contents SET failedattempt = :n WHERE type = 'input'"
    sql(world, failures + " AND lfn LIKE '%0'", n=9)
    assert next_jobs(world) == 1
    assert status(world, task) == "running"
    fail(world, task)
    sql(world, failures, n=5)
    assert next_jobs(world) == 1
    assert status(world, task) == "throttled"
    at(120 * MINUTE + 1)
    assert run(world, "throttle") == Counts(throttle_over=1)
    fail(world, task)
    again(world, task, 21)
    sql(world, failures, n=20)
    assert next_jobs(world) == 1
    assert task_row(world, task).numthrottled == 2


def test_a_task_at_rest_ends_when_nothing_is_left(world: World) -> None:
    task = tried(world, 5)
    next_jobs(world)
    sql(world, "UPDATE jedi_dataset_contents SET attemptnr = 99 WHERE type = 'input'")
    fail(world, task)
    cycle(world)
    assert status(world, task) == "failed"


# ------------------------------------------------------------------------- exhausted for too long


@pytest.mark.parametrize(("preset", "days"), [("classic", 10), ("current", 2)])
def test_an_exhausted_task_ends_after_a_time(
    at: Callable[[float], None], world: World, preset: str, days: int
) -> None:
    put(world, core__preset=preset)
    task = running(world, 2, skipScout=True)
    [first, second] = jobs(world, task, "activated")
    take(world, [first, second])
    end(world, [first])
    end(world, [second], "failed")  # to be tried again
    move(world, task, "exhausted")
    at(days * DAY)
    assert run(world, "exhausted") == Counts()
    at(days * DAY + 1)
    assert run(world, "exhausted") == Counts(exhausted_timeout=1)
    assert (status(world, task), task_row(world, task).errordialog) == (
        "finishing",
        f"Nobody decided within {24 * days} h: As told.",
    )
    everything(world)
    assert status(world, task) == "finished"
    sound(world)


def test_unless_it_forbids_that(at: Callable[[float], None], world: World) -> None:
    task = running(world, 2, disableAutoFinish=True)
    move(world, task, "exhausted")
    at(99 * DAY)
    assert run(world, "exhausted") == Counts()
    assert status(world, task) == "exhausted"


# ------------------------------------------------------------------------------------------- goal


def half_done(world: World, n: int = 4, **keys: Any) -> tuple[int, list[int]]:
    """A task of `n` files, a job each, of which half are finished; the other jobs at work."""
    task = running(world, n, maxAttempt=3, **keys)
    found = jobs(world, task, "activated")
    take(world, found)
    end(world, found[: n // 2])
    return task, found[n // 2 :]


def test_a_task_that_has_reached_its_goal_tries_nothing_again(world: World) -> None:
    task, left = half_done(world, goal=50)
    end(world, left[:1], "failed")
    assert run(world, "goal") == Counts(told_to_finish=1)
    assert run(world, "goal") == Counts()  # it was told
    cycle(world)
    assert (status(world, task), counts(world, task)) == (
        "finishing",
        {"finished": 2, "failed": 1, "sent": 1},
    )
    assert "The goal of 50 % is reached." in task_row(world, task).errordialog
    end(world, left[1:])
    make_due(world)
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.errordialog) == (
        "finished",
        "3 of 4 input files were processed; 1 failed.",
    )
    sound(world)


@pytest.mark.parametrize(
    "keys",
    [
        {"goal": 50.1},
        {"goal": 50, "disableAutoFinish": True},
        {"termCondition": "51% of files"},
    ],
)
def test_or_goes_on(world: World, keys: dict[str, Any]) -> None:
    half_done(world, **keys)
    assert run(world, "goal") == Counts()


def test_a_goal_does_not_keep_a_file_from_its_first_attempt(world: World) -> None:
    put(world, jobgen__n_files=2)
    task = running(world, 1500, goal=0.1, nFilesPerJob=500)  # the generator makes them in parts
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"))
    assert task_row(world, task).goal == 1
    assert run(world, "goal") == Counts()


def test_a_termination_condition_does(world: World) -> None:
    put(world, jobgen__n_files=2)
    task = running(world, 1500, termCondition="30% of files", nFilesPerJob=500)
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"))
    assert run(world, "goal") == Counts(told_to_finish=1)
    everything(world)
    assert status(world, task) == "finished"
    assert "It was to end with 30% of files." in str(
        rows(world, "SELECT reason FROM jedi_tasks_statuslog WHERE status = 'finishing'")
    )
    sound(world)


# ---------------------------------------------------------------------------------------- failing


def failing(world: World, failed: int, finished: int, left: int) -> int:
    """A task with so many jobs that ended like this, and activated ones."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, failed + finished + left, files=1, max_attempt=9)
        ended = {"failed": made.jobs[:failed], "finished": made.jobs[failed : failed + finished]}
        for status_, ids in ended.items():
            move = "UPDATE jedi_jobs SET status = :s, postprocessed_at = jedi_now() "
            unguarded(tx, move + "WHERE pandaid = ANY(:ids)", s=status_, ids=ids)
        tx.execute(text("UPDATE jedi_tasks SET failurerate = 50, username = 'anna'"))
    return made.task


def test_a_task_most_of_whose_jobs_fail_is_paused(world: World) -> None:
    put(world, autopause__min_ended=10, autopause__min_left=3)
    task = failing(world, 9, 1, 3)
    assert run(world, "failing") == Counts()  # classic never does
    put(world, autopause__failure_percent=90)
    sql(world, "UPDATE jedi_tasks SET rules = '{\"no_auto_pause\": true}'")
    assert run(world, "failing") == Counts()
    sql(world, "UPDATE jedi_tasks SET rules = '{}'")
    assert run(world, "failing") == Counts(failure_rate=1)
    row = task_row(world, task)
    assert row.status == "paused"
    assert row.errordialog.startswith("9 of 10 jobs failed, and 3 are left:")
    ask(world, task, "resume")
    cycle(world)
    assert status(world, task) == "running"
    assert run(world, "failing") == Counts()  # a person has looked at it


@pytest.mark.parametrize(("failed", "finished", "left"), [(8, 2, 3), (9, 0, 3), (9, 1, 2)])
def test_or_is_not(world: World, failed: int, finished: int, left: int) -> None:
    put(world, autopause__min_ended=10, autopause__min_left=3, autopause__failure_percent=90)
    failing(world, failed, finished, left)
    assert run(world, "failing") == Counts()


# ------------------------------------------------------------------------------------------ boost


def nearly_done(world: World, done: int, left: int, label: str = "managed", failed: int = 0) -> int:
    task = failing(world, failed, done, left)
    sql(
        world,
        "UPDATE jedi_tasks SET prodsourcelabel = :l, currentpriority = 500, gshare = ''",
        l=label,
    )
    sql(
        world,
        "UPDATE jedi_datasets SET nfilesfinished = :n, nfilesfailed = :f WHERE type = 'input'",
        n=done,
        f=failed,
    )
    return task


def test_the_last_jobs_come_first(world: World) -> None:
    task = nearly_done(world, 57, 3)
    assert run(world, "boost") == Counts(boosted=1)
    assert run(world, "boost") == Counts()
    row = task_row(world, task)
    assert (row.currentpriority, row.gshare) == (900, "Express")
    query = (
        "SELECT DISTINCT j.gshare, j.priority, r.gshare AS queued, r.priority AS placed "
        "FROM jedi_job_ready r JOIN jedi_jobs j USING (pandaid) WHERE status = 'activated'"
    )
    assert [tuple(row) for row in rows(world, query)] == [("Express", 900, "Express", 900)]
    deltas = rows(
        world,
        "SELECT gshare, sum(jobs) AS n FROM job_stats_delta "
        "WHERE status = 'activated' GROUP BY gshare",
    )
    assert {row.gshare: row.n for row in deltas} == {"": 57, "Express": 3}  # 57 ended by hand


def test_failed_files_are_done_too(world: World) -> None:
    """50 finished and 7 failed of 60 files: 95 %."""
    task = nearly_done(world, 50, 3, failed=7)
    assert run(world, "boost") == Counts(boosted=1)
    assert task_row(world, task).gshare == "Express"


def test_a_job_that_somebody_held_comes_first_later(world: World) -> None:
    task = nearly_done(world, 57, 3)
    held, *_ = jobs(world, task, "activated")
    with world.engine.begin() as tx:
        tx.execute(text("SELECT FROM jedi_jobs WHERE pandaid = :j FOR UPDATE"), {"j": held})
        run(world, "boost")
    query = "SELECT count(*) AS n FROM jedi_jobs WHERE status = 'activated' AND gshare = 'Express'"
    assert rows(world, query)[0].n == 2
    assert run(world, "boost") == Counts(boosted=1)
    assert rows(world, query)[0].n == 3


@pytest.mark.parametrize(("keep", "share"), [(False, "user"), (True, "Express")])
def test_a_retried_task_is_no_faster_than_others(world: World, keep: bool, share: str) -> None:
    task = running(world, 1, maxAttempt=1)
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"), "failed")
    sql(world, "UPDATE jedi_tasks SET gshare = 'Express', currentpriority = 9000")
    everything(world)
    ask(world, task, "retry", keep=keep)
    everything(world)
    row = task_row(world, task)
    assert (row.gshare, row.currentpriority) == (share, 9000 if keep else 1000)


@pytest.mark.parametrize(
    ("done", "left", "label"), [(56, 4, "managed"), (1900, 100, "managed"), (57, 3, "user")]
)
def test_others_wait(world: World, done: int, left: int, label: str) -> None:
    nearly_done(world, done, left, label)
    assert run(world, "boost") == Counts()
