"""The dogs, each at both sides of its border; the timetable."""

# Raw UPDATEs: pilots that fall silent and workers that die are not there.

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Row, text
from structlog.testing import capture_logs
from support.adder import Pilot, claimed
from support.dogs import START, run
from support.event_rows import make_consumers, make_job_set
from support.job_rows import make_jobs
from support.situations import end_leases, lead
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.cli.watchdog import app
from jedi.core import clock, states
from jedi.core.knobs import KNOBS
from jedi.taskbuffer.db import knobs, locks
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import consumer_ends
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.jobs.jobs import JobMove
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.agent import WatchDog
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk
from jedi.watchdog.leases import status_aside

HOUR, DAY = 3600.0, 86_400.0


def insert_task(tx: Connection, status: str = "ready") -> int:
    task: int = tx.execute(
        text("INSERT INTO jedi_tasks (status, reqid) VALUES (:s, 1) RETURNING jeditaskid"),
        {"s": status},
    ).scalar_one()
    return task


def task_row(tx: Connection) -> Row[Any]:
    return tx.execute(text("SELECT * FROM jedi_tasks")).one()


# -------------------------------------------------------------------------------- heartbeat


@pytest.mark.parametrize(
    ("status", "limit", "code", "failures"),
    [
        ("sent", 1800, "sent_timeout", 0),
        ("starting", 7200, "lost_heartbeat", 1),
        ("running", 7200, "lost_heartbeat", 1),
    ],
)
def test_a_silent_pilot_costs_a_failure(
    world: World, at: Callable[[float], None], status: str, limit: int, code: str, failures: int
) -> None:
    """But for a job that it has not started: the payload can't be to blame."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = 'sent', statechangetime = jedi_now(), "
                "heartbeat_at = jedi_now(), lock_seq = 1, pilot_id = 'p'"
            )
        )
        tx.execute(text("DELETE FROM jedi_job_ready"))
        if status != "sent":
            jobs.move_jobs(tx, [JobMove(made.jobs[0], status, "c", "r")], "test", ["sent"])
    at(limit)
    assert run(world, "timeouts") == Counts()
    at(limit + 1)
    assert run(world, "timeouts") == Counts({code: 1})
    assert run(world, "timeouts") == Counts()
    with world.engine.begin() as tx:
        job = tx.execute(text("SELECT * FROM jedi_jobs")).one()
        file = tx.execute(
            text(
                "SELECT DISTINCT status, failedattempt FROM jedi_dataset_contents "
                "WHERE type = 'input'"
            )
        ).one()
    assert (job.status, job.error_code, job.error_source) == ("failed", code, "pilot")
    assert "Pilot p " in job.error_diag
    assert tuple(file) == ("ready", failures)


def test_a_heartbeat_saves_a_job(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        lead(tx, make_jobs(tx, 1).jobs, "sent", "running")
    at(7000)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_jobs SET heartbeat_at = jedi_now()"))
    at(7201)
    assert run(world, "timeouts") == Counts()


def test_many_silent_jobs_end_in_batches(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        lead(tx, make_jobs(tx, 7).jobs, "sent")
        tx.execute(
            text("INSERT INTO jedi_knobs (component, key, value) VALUES ('watchdog', 'batch', '3')")
        )
    at(DAY)
    assert run(world, "timeouts") == Counts(sent_timeout=7)


# ----------------------------------------------------------------------------------- leases


def test_a_stale_lease_is_released_and_a_good_one_stays(world: World) -> None:
    with world.engine.begin() as tx:
        insert_task(tx)
        tasks.claim(tx, ["ready"], "worker", 60, 1)
    assert run(world, "leases") == Counts()
    with world.engine.begin() as tx:
        end_leases(tx)
    assert run(world, "leases") == Counts(lease_over=1)
    with world.engine.begin() as tx:
        task = task_row(tx)
        assert (task.lockedby, task.lease_until, task.worker_deaths) == (None, None, 1)


@pytest.mark.parametrize("released", [True, False])
def test_a_task_that_kills_its_workers_is_set_aside(world: World, released: bool) -> None:
    """Whether the dog comes by after each death, or workers take the task over at once."""
    with world.engine.begin() as tx:
        insert_task(tx)
    for death in range(3):
        with world.engine.begin() as tx:
            (held,) = tasks.claim(tx, ["ready"], f"worker {death}", 60, 1)
            end_leases(tx)
        if released and death < 2:
            assert run(world, "leases") == Counts(lease_over=1)
    assert run(world, "leases") == Counts(worker_killed=1)
    with world.engine.begin() as tx:
        task = task_row(tx)
        assert (task.status, task.reason_code) == ("exhausted", "worker_killed")
        assert "died 3 times in a row, the last one was worker 2" in task.errordialog
        assert (task.lockedby, task.worker_deaths, task.next_run_at) == (None, 0, None)
        late = Move(task.jeditaskid, held.lock_seq, "running", "c", "r")
        assert tasks.move_tasks(tx, [late], "worker 2") == []


def test_the_next_victim_is_spared(world: World) -> None:
    with world.engine.begin() as tx:
        insert_task(tx)
        tx.execute(text("UPDATE jedi_tasks SET worker_deaths = 2, lockedby = 'third'"))
        end_leases(tx)
        (fourth,) = tasks.claim(tx, ["ready"], "fourth", 60, 1)
    assert run(world, "leases") == Counts(worker_killed=1)
    with world.engine.begin() as tx:
        assert tasks.fence(tx, [(fourth.jedi_task_id, fourth.lock_seq)]) == set()


def test_work_that_succeeds_forgives_deaths(world: World) -> None:
    with world.engine.begin() as tx:
        insert_task(tx)
        tx.execute(text("UPDATE jedi_tasks SET worker_deaths = 2"))
        (task,) = tasks.claim(tx, ["ready"], "worker", 60, 1)
        tasks.put_off(tx, [(task.jedi_task_id, task.lock_seq)])
        assert task_row(tx).worker_deaths == 0


def test_where_nobody_can_work_a_task_goes_aside_or_waits(world: World) -> None:
    assert status_aside("running") == "exhausted"
    assert status_aside("rerefine") == "tobroken"
    assert status_aside("aborting") == "aborting"
    assert all(
        a == b or states.TASK.allows(a, b) for a in states.TASK_STATES for b in [status_aside(a)]
    )
    with world.engine.begin() as tx:
        insert_task(tx, "aborting")
        tx.execute(text("UPDATE jedi_tasks SET worker_deaths = 3, lockedby = 'w'"))
        end_leases(tx)
    assert run(world, "leases") == Counts(worker_killed=1)
    with world.engine.begin() as tx:
        task = task_row(tx)
        assert (task.status, task.reason_code) == ("aborting", "worker_killed")
        assert task.next_run_at > clock.now()


# ---------------------------------------------------------------------------------- pending


def hold(tx: Connection, task: int) -> None:
    tasks.move_tasks(tx, [Move(task, None, "pending", "no_site_now", "No site.")], "test")


def test_a_task_on_hold_is_tried_again(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        hold(tx, insert_task(tx, "scouting"))
    at(HOUR)
    assert run(world, "pending") == Counts()
    at(HOUR + 1)
    assert run(world, "pending") == Counts(hold_over=1)
    with world.engine.begin() as tx:
        task = task_row(tx)
    assert (task.status, task.errordialog) == ("scouting", "Tried again after: No site.")


def test_who_holds_a_task_may_say_how_long(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        move = Move(insert_task(tx), None, "pending", "no_site_now", "No site.", wait_s=30)
        tasks.move_tasks(tx, [move], "test")
    at(30)
    assert run(world, "pending") == Counts()
    at(31)
    assert run(world, "pending") == Counts(hold_over=1)


def test_a_hold_counts_from_its_beginning(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        task = insert_task(tx)
        hold(tx, task)
    for hours in range(2, 168, 2):
        at(hours * HOUR)
        assert run(world, "pending") == Counts(hold_over=1)
        with world.engine.begin() as tx:
            hold(tx, task)
    at(7 * DAY)
    run(world, "pending")
    with world.engine.begin() as tx:
        assert task_row(tx).status == "ready"
        hold(tx, task)
    at(7 * DAY + 1)
    assert run(world, "pending") == Counts(pending_timeout=1)
    with world.engine.begin() as tx:
        row = task_row(tx)
    assert (row.status, row.reason_facts) == ("exhausted", {"held_by": "no_site_now"})
    assert row.errordialog == "On hold for more than 604800 s: No site."


def test_a_repeated_hold_is_one_hold(world: World, at: Callable[[float], None]) -> None:
    """Held for 30 s each time for a reason that does not pass. The tries come 31 s after the first
    hold, 31 s after the second, then after 62 s, ... : the wait equals the time held so far, and an
    hour at most. The log has one row of the hold; `since` is its beginning."""

    def hold_again(code: str = "output_is_input") -> Row[Any]:
        with world.engine.begin() as tx:
            move = Move(task, None, "pending", code, "Alike.", wait_s=30)
            tasks.move_tasks(tx, [move], "test")
            return task_row(tx)

    def log() -> list[tuple[str, str]]:
        with world.engine.begin() as tx:
            query = "SELECT status, reason_code FROM jedi_tasks_statuslog ORDER BY log_id"
            return [(row.status, row.reason_code) for row in tx.execute(text(query))]

    with world.engine.begin() as tx:
        task = insert_task(tx)
    first, seconds = hold_again(), 31.0
    waits = []
    for _ in range(9):
        at(seconds)
        assert run(world, "pending") == Counts(hold_over=1)
        assert log()[1:] == [("ready", "hold_over")]
        row = hold_again()
        assert row.statechangetime == row.frozentime == first.statechangetime
        assert log() == [("pending", "output_is_input")]
        waits.append(round((row.next_run_at - clock.now()).total_seconds()))
        at(seconds + waits[-1] - 1)
        assert run(world, "pending") == Counts()
        seconds += waits[-1] + 1
    assert waits[:3] == [31, 63, 127] and waits[-1] == HOUR
    at(seconds)
    run(world, "pending")
    other = hold_again("no_site_now")  # another reason begins anew
    assert other.statechangetime > other.frozentime == first.frozentime
    assert len(log()) == 3
    at(seconds + 31)
    assert run(world, "pending") == Counts(hold_over=1)
    again = hold_again("no_site_now")  # it passes by itself: as soon as its holder says
    assert round((again.next_run_at - clock.now()).total_seconds()) == 30


def test_work_in_between_ends_a_hold(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        task = insert_task(tx)
        hold(tx, task)
    at(2 * HOUR)
    run(world, "pending")
    with world.engine.begin() as tx:
        tasks.move_tasks(tx, [Move(task, None, "running", "jobs_generated", "Jobs.")], "test")
        assert task_row(tx).frozentime is None


# ------------------------------------------------------------------- statistics and progress


def test_folding_changes_no_sum(world: World) -> None:
    total = text(
        "SELECT status, sum(jobs), sum(cores) FROM (SELECT status, jobs, cores FROM job_stats "
        "UNION ALL SELECT status, jobs, cores FROM job_stats_delta) s "
        "GROUP BY status HAVING sum(jobs) <> 0 ORDER BY status"
    )
    with world.engine.begin() as tx:
        made = make_jobs(tx, 5, cores=2)
        first = tx.execute(total).all()
    assert run(world, "statistics") == Counts(folded=1)
    with world.engine.begin() as tx:
        assert tx.execute(total).all() == first == [("activated", 5, 10)]
        moves = [JobMove(job, "failed", "c", "r") for job in made.jobs[:2]]
        jobs.move_jobs(tx, moves, "test", ["activated"])
        second = tx.execute(total).all()
    assert run(world, "statistics") == Counts(folded=2)
    with world.engine.begin() as tx:
        assert tx.execute(total).all() == second == [("activated", 3, 6), ("failed", 2, 4)]
        assert tx.scalar(text("SELECT count(*) FROM job_stats_delta")) == 0
        hourly = tx.execute(text("SELECT status, jobs FROM job_stats_hourly ORDER BY status"))
        assert hourly.all() == [("activated", 5), ("failed", 2)]


def test_the_disk_io_of_running_jobs_is_averaged(world: World) -> None:
    """Of those that said, by core; where no job runs nothing is known."""
    with world.engine.begin() as tx:
        jobs = make_jobs(tx, 4, cores=2).jobs
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        for job, read, wall in ((jobs[0], 400_000, 10), (jobs[1], 800_000, 10), (jobs[2], 0, None)):
            tx.execute(
                text(
                    "UPDATE jedi_jobs SET status = 'running', read_bytes = :r, wall_s = :w "
                    "WHERE pandaid = :j"
                ),
                {"r": read, "w": wall, "j": job},
            )
    known = "SELECT site, value FROM jedi_site_metrics WHERE metric = 'diskio'"
    assert run(world, "diskio") == {"sites": 1}
    with world.engine.begin() as tx:
        assert [tuple(row) for row in tx.execute(text(known))] == [("SITE_A", 30)]
        tx.execute(text("UPDATE jedi_jobs SET status = 'holding' WHERE status = 'running'"))
    assert run(world, "diskio") == {}
    with world.engine.begin() as tx:
        assert tx.execute(text(known)).all() == []


def test_progress_is_noted(world: World, at: Callable[[float], None]) -> None:
    with world.engine.begin() as tx:
        for _ in range(3):
            make_jobs(tx, 3)
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfilesfinished = nfilestobeused - 1 WHERE type = 'input'"
            )
        )
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = 'failed', starttime = jedi_now(), "
                "postprocessed_at = jedi_now() WHERE unit_nr = 1"
            )
        )
        columns = ", ".join(column.name for column in tables.jobs_archived.columns)
        tx.execute(
            text(
                f"INSERT INTO jedi_jobs_archived ({columns}) SELECT {columns} FROM jedi_jobs "
                "WHERE unit_nr = 1"
            )
        )
        tx.execute(
            text("UPDATE jedi_jobs_archived SET status = 'finished', postprocessed_at = jedi_now()")
        )
        tx.execute(
            text("INSERT INTO jedi_knobs (component, key, value) VALUES ('watchdog', 'batch', '2')")
        )
    at(5)
    assert run(world, "progress") == Counts(assessed=3)
    with world.engine.begin() as tx:
        found = tx.execute(
            text(
                "SELECT DISTINCT progress, failurerate, starttime, split_at, assessmenttime "
                "FROM jedi_tasks"
            )
        ).one()
    assert tuple(found) == (83, 50, START, START, START + timedelta(seconds=5))


def test_ended_jobs_are_counted_once(world: World, at: Callable[[float], None]) -> None:
    """Expected: FAILURERATE is "the frequency of job failures in the task (in %)". Jobs behind one
    that lives are counted again, the others are not read any more."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 6)
    steps: list[tuple[dict[int, str], tuple[int, ...]]] = [
        ({0: "failed", 1: "failed", 3: "finished"}, (66, made.jobs[1], 2, 2)),
        ({2: "cancelled", 4: "finished"}, (50, made.jobs[4], 4, 2)),
        ({}, (50, made.jobs[4], 4, 2)),
        ({5: "failed"}, (60, made.jobs[5], 5, 3)),
        ({}, (60, made.jobs[5], 5, 3)),
    ]
    for second, (ends, expected) in enumerate(steps):
        at(second)
        with world.engine.begin() as tx:
            tx.execute(text("SET LOCAL session_replication_role = replica"))
            for place, status in ends.items():
                tx.execute(
                    text(
                        "UPDATE jedi_jobs SET status = :status, postprocessed_at = jedi_now() "
                        "WHERE pandaid = :job"
                    ),
                    {"status": status, "job": made.jobs[place]},
                )
        assert run(world, "progress") == Counts(assessed=1)
        counted = "SELECT failurerate, counted_upto, counted_jobs, counted_failed FROM jedi_tasks"
        with world.engine.begin() as tx:
            assert tuple(tx.execute(text(counted)).one()) == expected


def test_jobs_of_a_herd_that_come_behind_later_ones_are_counted(
    world: World, at: Callable[[float], None]
) -> None:
    """Its split reserves PandaIDs: a retry has a later one than units that have no job yet."""
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        made = make_jobs(tx, 4)
        late = {"task": made.task, "job": made.jobs[0]}
        tx.execute(
            text(
                "INSERT INTO jedi_herds (jeditaskid, originpandaid, splitter, after) "
                "VALUES (:task, :job, 'ByFiles', 'contents')"
            ),
            late,
        )
        tx.execute(text("UPDATE jedi_jobs SET status = 'finished', postprocessed_at = jedi_now()"))
        tx.execute(text("UPDATE jedi_jobs SET jeditaskid = 0 WHERE pandaid = :job"), late)
    rates = []
    for second in (0, 1):
        at(second)
        assert run(world, "progress") == Counts(assessed=1)
        with world.engine.begin() as tx:
            rates.append(tx.scalar(text("SELECT failurerate FROM jedi_tasks")))
            tx.execute(text("SET LOCAL session_replication_role = replica"))
            tx.execute(
                text(
                    "UPDATE jedi_jobs SET jeditaskid = :task, status = 'failed' "
                    "WHERE pandaid = :job"
                ),
                late,
            )
    assert rates == [0, 25]


def test_the_progress_of_a_large_task_is_noted_more_rarely(
    world: World, at: Callable[[float], None]
) -> None:
    """1 s later for each 1000 units: a task of 60,000 rests for 60 s, one of 3 for 3 ms."""
    with world.engine.begin() as tx:
        large, small = make_jobs(tx, 3).task, make_jobs(tx, 3).task
        tx.execute(
            text("UPDATE jedi_jobs SET unit_nr = 60_000 WHERE jeditaskid = :task AND unit_nr = 3"),
            {"task": large},
        )
    noted = {}
    for second in (0, 59, 61):
        at(second)
        run(world, "progress")
        with world.engine.begin() as tx:
            rows = tx.execute(text("SELECT jeditaskid, assessmenttime FROM jedi_tasks"))
            noted[second] = {task: (time - START).total_seconds() for task, time in rows}
    assert noted == {0: {large: 0, small: 0}, 59: {large: 0, small: 59}, 61: {large: 61, small: 61}}


# ------------------------------------------------------------------------------------ sweep


def test_only_what_nobody_needs_is_swept(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3)
        tx.execute(text("UPDATE jedi_jobs SET status = 'sent', lock_seq = 2"))
        moves = [JobMove(made.jobs[2], "failed", "c", "r")]
        jobs.move_jobs(tx, moves, "test", ["sent"])
    live, again, ended = made.jobs
    ddm = world.ddm
    attempts = [
        ("SITE_A", live, 2),
        ("SITE_B", live, 2),
        ("SITE_A", again, 1),
        ("SITE_B", ended, 2),
        ("SITE_B", 999, 1),
    ]
    places = [ddm.staging_dir(f"{site}_DATADISK", job, seq) for site, job, seq in attempts]
    for place in places:
        place.mkdir(parents=True)
        (place / "out").write_text("x")
    (places[0].parent / "part-1.2").touch()
    assert run(world, "sweep") == Counts(staging=3)
    assert [place.exists() for place in places] == [True, True, False, False, False]


def test_pieces_of_ended_job_sets_are_swept(world: World) -> None:
    """Zip files stay while their job set is open; those of several sets while the task lives."""
    with world.engine.begin() as tx:
        first, second = (make_job_set(tx, 1) for _ in range(2))
        other = make_job_set(tx, 1, task=first.task)
        sets = text("UPDATE jedi_jobsets SET ended_at = jedi_now() WHERE jobsetid = :id")
        tx.execute(sets, {"id": other.jobset})
        tx.execute(sets, {"id": second.jobset})
    known = [
        (first.task, first.jobset),
        (first.task, 0),
        (first.task, other.jobset),
        (second.task, second.jobset),
        (999_999, 1),
    ]
    places = [Path(world.ddm.pieces_where("SITE_A_DATADISK", *one)) for one in known]
    for place in places:
        place.mkdir(parents=True)
        (place / "a.zip").touch()
    assert run(world, "sweep") == Counts(pieces=3)
    assert [place.exists() for place in places] == [True, True, False, False, False]
    assert [one.name for one in places[0].parent.parent.iterdir()] == [str(first.task)]


def test_pieces_of_a_jumbo_job_wait_for_its_last_report(world: World) -> None:
    """The task has ended before a jumbo job: its pilot may still report, again, a zip file that no
    row names. The file goes when the end of the job is booked."""
    with world.engine.begin() as tx:
        task = make_job_set(tx, 1, jumbo=True).task
        [jumbo] = make_consumers(tx, 1, task, None)
        for status in ("toabort", "aborted"):
            tx.execute(
                text("UPDATE jedi_tasks SET status = :status WHERE jeditaskid = :id"),
                {"id": task, "status": status},
            )
    place = Path(world.ddm.pieces_where("SITE_A_DATADISK", task, 0))
    place.mkdir(parents=True)
    (place / "0.1.zip").touch()
    assert run(world, "sweep") == Counts()
    with world.engine.begin() as tx:
        consumer_ends.note_settled(tx, [jumbo])
    assert run(world, "sweep") == Counts(pieces=1)
    assert not place.exists()


def test_uploads_that_nobody_goes_on_with_are_swept(world: World) -> None:
    """After upload.keep_days (2) without a new piece; until then their owners may go on."""
    ddm = world.ddm
    for key, days in (("aa", 3.0), ("bb", 1.0), ("cc", 3.0)):
        place = ddm.upload_dir("SITE_A_DATADISK", key)
        place.mkdir(parents=True)
        (place / ".part").write_text("x")
        then = time.time() - 86_400 * days
        os.utime(place / ".part", (then, then))
        os.utime(place, (then, then))
    (ddm.upload_dir("SITE_A_DATADISK", "cc") / ".part").write_text("more")
    (place.parent / "upload-notes").mkdir()
    assert run(world, "sweep") == Counts(uploads=1)
    assert sorted(one.name for one in place.parent.iterdir()) == [
        "upload-bb",
        "upload-cc",
        "upload-notes",
    ]


def test_an_upload_that_travels_keeps_all_its_files(world: World) -> None:
    """The files of an upload go together: one that came whole on the first of many days stays until
    the last one is there. Other datasets and other users have their own time."""
    ddm = world.ddm
    for key, days in (
        ("a-1-10-f", 9.0),
        ("a-1-10-e", 1.0),
        ("a-2-10-f", 9.0),
        ("b-1-10-f", 9.0),
        ("a-1-f", 9.0),
    ):
        place = ddm.upload_dir("SITE_A_DATADISK", key)
        place.mkdir(parents=True)
        then = time.time() - 86_400 * days
        os.utime(place, (then, then))
    assert run(world, "sweep") == Counts(uploads=2)
    assert sorted(one.name for one in place.parent.iterdir()) == [
        "upload-a-1-10-e",
        "upload-a-1-10-f",
        "upload-a-1-f",
    ]


def test_what_cannot_be_swept_keeps_nothing_else(world: World, tmp_path: Path) -> None:
    place = world.ddm.staging_dir("SITE_A_DATADISK", 998, 1)
    place.parent.mkdir(parents=True)
    place.write_text("not a directory, so that nobody can remove it as one")
    other = world.ddm.staging_dir("SITE_B_DATADISK", 999, 1)
    other.mkdir(parents=True)
    with capture_logs() as said:
        assert run(world, "sweep") == Counts(staging=1)
    assert [one["place"] for one in said if one["event"] == "not removed"] == [(998, 1)]
    assert place.exists() and not other.exists()


def test_what_a_cancelled_job_published_is_swept(world: World) -> None:
    """Whoever was to remove it died; what others have made under that name stays."""
    pilot = Pilot(world, 2)
    pilot.finish()
    agent, taken = claimed(world)
    agent.prepare(taken)
    with world.engine.begin() as tx:
        job_ends.end_jobs(
            tx, [JobEnd(job, "cancelled", "cancelled_by_user", "r") for job in pilot.made.jobs], "t"
        )
    _, stays = pilot.published("output")
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_dataset_contents (jeditaskid, datasetid, lfn, type, status) "
                "SELECT jeditaskid, datasetid, lfn, type, 'finished' FROM jedi_dataset_contents "
                "WHERE lfn = :lfn"
            ),
            {"lfn": stays},
        )
    found = run(world, "sweep")
    assert found["published"] == 1
    assert pilot.published("output") == [stays]
    assert run(world, "sweep")["published"] == 0


# -------------------------------------------------------------------------------- timetable


def test_a_dog_is_run_by_one_process_at_a_time(world: World) -> None:
    with world.engine.begin() as tx:
        assert locks.take(tx, "dog statistics", "somebody", 60)
        assert not locks.take(tx, "dog statistics", "else", 60)
        assert locks.take(tx, "dog statistics", "somebody", 60)
        make_jobs(tx, 1)
    assert run(world, "statistics") == Counts(locked=1)
    with world.engine.begin() as tx:
        locks.release(tx, "dog statistics", "else")
        locks.take(tx, "dog statistics", "somebody", -1)
    assert run(world, "statistics") == Counts(folded=1)
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_process_lock")) == 0


def test_the_lock_of_a_dog_that_fails_is_given_back(world: World) -> None:
    def fail(_: World) -> Counts:
        raise ValueError("bad dog")

    with pytest.raises(ValueError, match="bad dog"):
        walk(world, replace(DOGS["sweep"], run=fail))
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_process_lock")) == 0


def test_once_runs_every_dog_once(world: World) -> None:
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
    agent = WatchDog(world)
    assert [agent.run_once() for _ in range(2)] == [len(DOGS), 0]
    agent.timetable.shutdown()
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT jobs FROM job_stats")) == 1


def test_the_timetable_runs_dogs_and_follows_the_knobs(world: World) -> None:
    agent = WatchDog(world)
    agent.run_once()
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value) "
                "VALUES ('watchdog', 'statistics_period_s', '0.1')"
            )
        )
    assert agent.run_once() == 0
    deadline = clock.monotonic() + 20
    folded = False
    while not folded and clock.monotonic() < deadline:
        with world.engine.begin() as tx:
            folded = bool(tx.scalar(text("SELECT count(*) FROM job_stats")))
    agent.timetable.shutdown()
    assert folded


def test_dogs_of_one_period_follow_each_other(world: World) -> None:
    """Expected: no two of the dogs that run every 60 s start within 40 ms. At one instant each
    would open a session of its own; a look takes 1 ms."""
    agent = WatchDog(world)
    while agent.run_once():
        pass
    due = sorted(
        job.next_run_time
        for job in agent.timetable.get_jobs()
        if job.trigger.interval == timedelta(minutes=1)
    )
    agent.timetable.shutdown()
    assert len(due) >= 5
    assert min(later - one for one, later in pairwise(due)) > timedelta(milliseconds=40)


def test_changed_knobs_bring_each_dog_now(world: World) -> None:
    """Expected: each dog's next turn comes within 2 s, one after the other, and its period is the
    knob's. No other job is there: APScheduler can't remove one that ends while it is stopped."""
    agent = WatchDog(world)
    while agent.run_once():
        pass
    agent.timetable.pause()
    with world.engine.begin() as tx:
        knobs.put(tx, "watchdog.sweep_period_s", 7200, "test")
    assert agent.run_once() == 0
    due = {job.id: job.next_run_time for job in agent.timetable.get_jobs()}
    sweep = agent.timetable.get_job("sweep").trigger.interval
    agent.timetable.shutdown()
    assert due.keys() == DOGS.keys() and sweep == timedelta(hours=2)
    assert max(due.values()) < clock.now() + timedelta(seconds=2)
    assert min(later - one for one, later in pairwise(due.values())) > timedelta(milliseconds=40)


def test_every_dog_has_its_knob() -> None:
    assert all(dog.period in KNOBS and KNOBS[dog.period].unit == "s" for dog in DOGS.values())


# ------------------------------------------------------------------------------ command line


@pytest.mark.usefixtures("operators", "service")
def test_dogs_on_the_command_line(world: World) -> None:
    with world.engine.begin() as tx:
        make_jobs(tx, 1)

    def jedi(*arguments: str) -> Any:
        found = CliRunner().invoke(app, [*arguments, "--json"])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    assert [row["dog"] for row in jedi("list")] == list(DOGS)
    assert jedi("run", "statistics", "--once") == {"folded": 1}
    assert jedi("run", "statistics", "--once") == jedi("run", "expiry", "--once") == {}
    unknown = CliRunner().invoke(app, ["run", "statistic", "--once"])
    assert str(unknown.exception) == "There is no dog statistic. Did you mean statistics?"


def test_a_dog_says_that_it_is_ready_and_ends_when_told(world: World, tmp_path: Path) -> None:
    """As systemd has it."""
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.settimeout(30)
        heard.bind(str(tmp_path / "notify"))
        told = {
            "JEDI_DATABASE_URL": str(world.settings.database_url),
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
        }
        dog = subprocess.Popen(
            [sys.executable, "-m", "jedi", "watchdog", "run", "statistics"], env=os.environ | told
        )
        assert heard.recv(100).startswith(b"READY=1")
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT jobs FROM job_stats")) == 1
    dog.terminate()
    assert dog.wait(30) == 0
