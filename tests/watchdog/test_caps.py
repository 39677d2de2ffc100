"""Running caps of users and groups; the look-up of inputs that nobody said have come."""

# Raw UPDATEs: jobs of many users, whom submission would check one by one.

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, text
from support.commanding import add_inputs, ask, cycle, running, sound, take
from support.commanding import counts as task_counts
from support.commanding import end as end_jobs
from support.commanding import jobs as task_jobs
from support.generating import document, generate, ready
from support.helpers import put_file_dataset, unguard
from support.job_rows import make_jobs, watch
from support.mover import assigned_jobs
from support.situations import lose_job
from support.statuses import statuses
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.cli.jedi import app
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.mover.agent import Mover
from jedi.taskbuffer.jobs import capping, jobs
from jedi.taskbuffer.jobs.jobs import JobMove
from jedi.taskbuffer.users import users
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk


def run(world: World, name: str) -> Counts:
    world.refresh()
    return walk(world, DOGS[name])


def put(
    world: World,
    running: int,
    activated: int,
    user: str = "anna",
    group: str = "",
    label: str = "user",
) -> list[int]:
    """A task of a user with running and activated jobs; its jobs."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, running + activated)
        tx.execute(
            text(
                "UPDATE jedi_tasks SET workinggroup = :group, username = :user, "
                "prodsourcelabel = :label WHERE jeditaskid = :task"
            ),
            {"group": group, "user": user, "label": label, "task": made.task},
        )
        tx.execute(
            text(
                "UPDATE jedi_jobs SET username = :user, prodsourcelabel = :label "
                "WHERE jeditaskid = :task"
            ),
            {"user": user, "label": label, "task": made.task},
        )
        for source, target in (("activated", "sent"), ("sent", "running")):
            moves = [JobMove(job, target, "c", "r") for job in made.jobs[:running]]
            jobs.move_jobs(tx, moves, "test", [source])
    return made.jobs


def end(world: World, job: int) -> None:
    with world.engine.begin() as tx:
        jobs.move_jobs(tx, [JobMove(job, "failed", "c", "r")], "test", ["running"])


def knob(world: World, name: str, value: str) -> None:
    component, key = name.split(".")
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value) VALUES (:c, :k, CAST(:v AS jsonb))"
            ),
            {"c": component, "k": key, "v": value},
        )


def live(world: World, user: str = "anna") -> Counter[str]:
    """The living jobs of a user by status."""
    return Counter(statuses(world, username=user, postprocessed_at=None))


def test_no_more_than_the_cap_run_or_may_start(world: World) -> None:
    """JEDI document, "Throttled jobs and tasks": "If a user has more running jobs than
    CAP_RUNNING_USER_JOBS, activated jobs go to throttled so that job slots are released to other
    users. They are automatically changed to activated." With a cap of 2 anna's two running jobs
    leave room for none, and each that ends for one more. Without running jobs two of four may
    start: when all four could, 4, 0, 4, 0 ran in turns."""
    knob(world, "caps.user_jobs", "2")
    running = put(world, 2, 2)
    put(world, 0, 4, user="bert")
    assert run(world, "caps") == Counts(throttled=4)
    assert live(world, "bert") == {"activated": 2, "throttled": 2}
    more = put(world, 1, 1)
    assert run(world, "caps") == Counts(throttled=1)
    assert run(world, "caps") == Counts()
    assert live(world) == {"running": 3, "throttled": 3}
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 2
        said = text(
            "SELECT DISTINCT reason FROM jedi_jobs_statuslog WHERE reason_code = :code "
            "AND jeditaskid = (SELECT max(jeditaskid) FROM jedi_jobs_statuslog)"
        )
        assert tx.scalars(said, {"code": "user_cap"}).all() == [
            "anna has 3 running jobs, and may have 2."
        ]
    end(world, more[0])
    assert run(world, "caps") == Counts()
    end(world, running[0])
    assert run(world, "caps") == Counts(activated=1)
    assert run(world, "caps") == Counts()
    assert live(world) == {"running": 1, "activated": 1, "throttled": 2}


def test_who_runs_is_counted_once_however_many_jobs_are_moved(world: World) -> None:
    knob(world, "caps.user_jobs", "1")
    knob(world, "watchdog.batch", "2")
    put(world, 2, 5)
    seen = watch(world.engine)
    assert run(world, "caps") == Counts(throttled=5)
    assert sum("AS throttled" in one for one in seen) == 1
    assert sum("FOR SHARE OF t" in one for one in seen) == 3


def test_what_changes_after_the_count_is_left_alone(world: World) -> None:
    """Of four jobs that are to be kept from pilots one was dispatched, one is worked on by somebody
    else; of two others the task was paused."""
    knob(world, "caps.user_jobs", "1")
    taken, locked, *rest = put(world, 2, 4)[2:]
    paused = put(world, 0, 2, user="bert")
    with world.engine.begin() as tx:
        moves = [JobMove(job, "throttled", "c", "r") for job in paused]
        jobs.move_jobs(tx, moves, "test", ["activated"])
        found = capping.capped(tx, PRODUCTION_LABELS, 1, 0)
        assert [job.panda_id for job in found] == [taken, locked, *rest, paused[0]]
    with world.engine.begin() as tx:
        unguard(tx)
        lose_job(tx, taken)
        tx.execute(
            text(
                "UPDATE jedi_tasks SET status = 'paused' FROM jedi_jobs j WHERE "
                "j.jeditaskid = jedi_tasks.jeditaskid AND pandaid = :job"
            ),
            {"job": paused[0]},
        )
    with world.engine.begin() as tx:
        jobs.LOCK_JOBS.run(tx, ids=[locked])
        with world.engine.begin() as other:
            assert [job.panda_id for job in capping.lock(other, found)] == rest


def test_a_user_may_have_a_number_of_his_own(world: World) -> None:
    knob(world, "caps.user_jobs", "1")
    for user in ("anna", "bert", "carl"):
        put(world, 2, 1, user=user)
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="anna", role=None, gridpref=None, cap=3)
        users.PUT_USER.run(tx, user="bert", role=None, gridpref=None, cap=0)
    assert run(world, "caps") == Counts(throttled=1)
    assert live(world, "carl") == {"running": 2, "throttled": 1}


def test_a_group_counts_as_one(world: World) -> None:
    knob(world, "caps.user_jobs", "2")
    knob(world, "caps.group_jobs", "3")
    for user in ("anna", "bert"):
        put(world, 2, 1, user=user, group="higgs")
    put(world, 1, 1)
    assert run(world, "caps") == Counts(throttled=2)
    assert live(world, "bert") == {"running": 2, "throttled": 1}
    assert live(world) == {"running": 3, "throttled": 1, "activated": 1}


@pytest.mark.parametrize("column", ["kind = 'merge'", "prodsourcelabel = 'managed'"])
def test_production_and_merging_are_not_counted(world: World, column: str) -> None:
    knob(world, "caps.user_jobs", "1")
    put(world, 2, 1)
    with world.engine.begin() as tx:
        tx.execute(text(f"UPDATE jedi_jobs SET {column}"))
    assert run(world, "caps") == Counts()


def test_jobs_of_paused_tasks_stay_throttled(world: World) -> None:
    found = put(world, 0, 2)
    with world.engine.begin() as tx:
        unguard(tx)
        tx.execute(text("UPDATE jedi_tasks SET status = 'paused'"))
        moves = [JobMove(job, "throttled", "task_paused", "r") for job in found]
        jobs.move_jobs(tx, moves, "test", ["activated"])
    assert run(world, "caps") == Counts()
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET status = 'running'"))
    assert run(world, "caps") == Counts(activated=2)


def test_a_task_that_is_just_being_paused_is_passed_over(world: World) -> None:
    found = put(world, 0, 1)
    with world.engine.begin() as tx:
        jobs.move_jobs(tx, [JobMove(found[0], "throttled", "c", "r")], "test", ["activated"])
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET status = 'paused'"))
        assert run(world, "caps") == Counts()


@pytest.mark.usefixtures("operators", "service")
def test_the_cap_of_a_user_on_the_command_line(world: World) -> None:
    said = CliRunner().invoke(app, ["user", "set", "anna", "--running-jobs", "5"])
    assert said.stdout == "anna is a user of role user, running jobs 5.\n"
    CliRunner().invoke(app, ["user", "set", "anna", "--role", "production"])
    with world.engine.begin() as tx:
        assert users.CAP.row(tx, user="anna") == 5
        assert users.CAP.row(tx, user="bert") is None


# ------------------------------------------------------------------------- between two looks


def test_no_more_than_the_cap_ever_run(world: World) -> None:
    """JEDI document, "Throttled jobs and tasks": a limit of running jobs. The dog does not look
    while two tasks of three jobs come, nor while they run: with a cap of 2 never more than two run
    or may start; those that end make room for as many at its next look."""
    knob(world, "caps.user_jobs", "2")
    add_inputs(world, 3)
    tasks = ready(
        world,
        *(
            document(output=f"a:{n}", nFilesPerJob=1, site="SITE_A", skipScout=True)
            for n in range(2)
        ),
    )
    world.refresh()
    assert generate(world) == 2
    for left in (4, 2, 0):
        free = [job for task in tasks for job in task_jobs(world, task, "activated")]
        assert len(free) == 2
        take(world, free)
        assert run(world, "caps") == Counts()
        end_jobs(world, free)
        held = [job for task in tasks for job in task_jobs(world, task, "throttled")]
        assert len(held) == left
        assert run(world, "caps") == Counts({"activated": 2} if left else {})
    sound(world)


def test_kept_jobs_get_the_room_of_ended_ones_soon(world: World) -> None:
    """A cap of 2: of three jobs one is kept back. One ends: a look of 5 s, not of 60 s, gives its
    room to the third one. Without a job that is kept back there is no such look: it does not count
    jobs, though more than the cap may start (those the other look keeps back)."""
    assert world.knobs.watchdog.cap_room_period_s == 5
    knob(world, "caps.user_jobs", "2")
    first, *_ = put(world, 1, 2)
    assert run(world, "cap_room") == Counts()
    assert run(world, "caps") == Counts(throttled=1)
    assert run(world, "cap_room") == Counts()
    end(world, first)
    assert run(world, "cap_room") == Counts(activated=1)
    assert run(world, "cap_room") == Counts()


def test_jobs_of_paused_tasks_are_kept_by_no_cap(world: World) -> None:
    """They are throttled for as long as their task is paused: the look of 5 s, which counts all
    jobs, is not for them."""
    found = put(world, 0, 2)
    with world.engine.begin() as tx:
        unguard(tx)
        tx.execute(text("UPDATE jedi_tasks SET status = 'paused'"))
        moves = [JobMove(job, "throttled", "task_paused", "r") for job in found]
        jobs.move_jobs(tx, moves, "test", ["activated"])
        assert not capping.ANY_KEPT.value(tx)
    knob(world, "caps.user_jobs", "1")
    put(world, 1, 1, user="bert")
    assert run(world, "caps") == Counts(throttled=1)
    with world.engine.begin() as tx:
        assert capping.ANY_KEPT.value(tx)


def test_a_task_that_goes_on_is_charged(world: World) -> None:
    """Three jobs may run. While a task of three is paused another one's three may start."""
    knob(world, "caps.user_jobs", "3")
    world.refresh()
    first = running(world, 3, skipScout=True)
    ask(world, first, "pause")
    cycle(world)
    [second] = ready(world, document(output="a:2", nFilesPerJob=1, site="SITE_A", skipScout=True))
    assert generate(world) == 1
    assert task_counts(world, second) == {"activated": 3}
    ask(world, first, "resume")
    cycle(world)
    assert task_counts(world, first) == {"throttled": 3}


def test_jobs_whose_inputs_come_are_charged(world: World) -> None:
    knob(world, "caps.user_jobs", "2")
    world.refresh()
    assigned_jobs(world, 3)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_jobs SET prodsourcelabel = 'user'"))
        tx.execute(text("UPDATE jedi_tasks SET prodsourcelabel = 'user', username = 'anna'"))
    Mover(world).run_once()
    assert Counter(statuses(world)) == {"activated": 2, "throttled": 1}


def test_transactions_that_let_jobs_start_at_once_see_each_other(world: World) -> None:
    """Two of a user's tasks, each in a transaction of its own: the second one waits, and finds the
    cap used up. That of another user does not wait."""
    knob(world, "caps.user_jobs", "2")
    world.refresh()
    one, other = put(world, 0, 2), put(world, 0, 2)
    strange = put(world, 0, 2, user="bert")

    def let(tx: Connection, panda_ids: list[int]) -> int:
        moves = [JobMove(job, "activated", "c", "r") for job in panda_ids]
        jobs.move_jobs(tx, moves, "test", ["throttled"])
        return capping.keep_back(tx, world.knobs, [task_of(tx, panda_ids[0])], "test")

    def let_alone(panda_ids: list[int]) -> int:
        with world.engine.begin() as tx:
            return let(tx, panda_ids)

    with world.engine.begin() as tx:
        moves = [JobMove(job, "throttled", "c", "r") for job in [*one, *other, *strange]]
        jobs.move_jobs(tx, moves, "test", ["activated"])
    with ThreadPoolExecutor() as threads:
        with world.engine.begin() as tx:
            assert let(tx, one) == 0
            assert threads.submit(let_alone, strange).result(20) == 0
            second = threads.submit(let_alone, other)
            with pytest.raises(TimeoutError):
                second.result(0.5)
        assert second.result(20) == 2
    assert live(world) == {"activated": 2, "throttled": 2}


def test_a_group_is_charged_as_one(world: World) -> None:
    """Four jobs of two members run, and two more may start: three too many. Only those of the task
    in question are kept back."""
    knob(world, "caps.group_jobs", "3")
    world.refresh()
    for user in ("anna", "bert"):
        last = put(world, 2, 1, user=user, group="higgs")
    with world.engine.begin() as tx:
        assert capping.keep_back(tx, world.knobs, [task_of(tx, last[0])], "test") == 1
    assert live(world, "bert") == {"running": 2, "throttled": 1}
    assert live(world) == {"running": 2, "activated": 1}


def task_of(tx: Connection, panda_id: int) -> int:
    found = text("SELECT jeditaskid FROM jedi_jobs WHERE pandaid = :job")
    return int(tx.scalar(found, {"job": panda_id}))


# ---------------------------------------------------------------------------------- look-up


def test_inputs_of_urgent_jobs_are_looked_up(world: World) -> None:
    """All that are there; those of the third job are elsewhere, the fourth is not urgent."""
    with world.engine.begin() as tx:
        unguard(tx)
        made = make_jobs(tx, 4, priority=801)
        tx.execute(text("UPDATE jedi_jobs SET status = 'assigned'"))
        tx.execute(text("DELETE FROM jedi_job_ready"))
        tx.execute(
            text("UPDATE jedi_jobs SET priority = 800 WHERE pandaid = :job"), {"job": made.jobs[3]}
        )
        files = tx.execute(
            text(
                "SELECT f.pandaid, f.lfn, d.datasetname FROM jedi_job_files f "
                "JOIN jedi_datasets d USING (datasetid) WHERE f.type = 'input'"
            )
        ).all()
    assert run(world, "lookup") == Counts()
    here = {row.lfn: b"x" for row in files if row.pandaid != made.jobs[2]}
    put_file_dataset(world, files[0].datasetname, here, "SITE_A_DATADISK")
    knob(world, "watchdog.batch", "2")
    assert run(world, "lookup") == Counts(activated=2)
    with world.engine.begin() as tx:
        ready = tx.scalars(text("SELECT pandaid FROM jedi_job_ready ORDER BY pandaid")).all()
    assert ready == made.jobs[:2]
