"""Scouts among the agents: files are withheld, measured for, released."""

# Raw UPDATEs: a priority that a dog raises.

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import (
    add_inputs,
    ask,
    counts,
    cycle,
    everything,
    files,
    jobs,
    sound,
    status,
    work_off,
)
from support.commanding import end as end_jobs
from support.generating import document, generate, ready, rows
from support.helpers import put_file_dataset
from support.job_rows import watch
from support.scouting import end, fed, history, scouting, set_knobs, task_row
from support.situations import make_due

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.jobgenerator.agent import JobGenerator
from jedi.model.jobs.wire import AcquireRequest, Resources
from jedi.postprocessor.agent import PostProcessor
from jedi.service.pilots import pilot_requests
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.reports import listings
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.users.users import Identity


def to_be_used(world: World, task: int) -> list[tuple[int, int]]:
    query = (
        "SELECT nfilestobeused, nfiles FROM jedi_datasets WHERE jeditaskid = :t "
        "AND masterid IS NULL AND type IN ('input', 'pseudo_input') ORDER BY datasetid"
    )
    return [(row.nfilestobeused, row.nfiles) for row in rows(world, query, t=task)]


# ------------------------------------------------------------------- which tasks, which jobs


def test_a_long_task_begins_with_ten_scouts(world: World) -> None:
    task = scouting(world, 30, nFilesPerJob=2)
    assert to_be_used(world, task) == [(20, 30)]
    assert (status(world, task), task_row(world, task).splitrule) == ("scouting", "NF=2,US=2")
    made = rows(world, "SELECT kind, n_inputs FROM jedi_jobs")
    assert [(row.kind, row.n_inputs) for row in made] == [("scout", 2)] * 10
    make_due(world)
    assert generate(world) == 0
    sound(world)


@pytest.mark.parametrize(("priority", "scouts"), [(500, 901), (901, 902), (2000, 2001)])
def test_scouts_come_before_other_jobs(world: World, priority: int, scouts: int) -> None:
    fed(world, 11)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET currentpriority = :p"), {"p": priority})
    assert generate(world) == 1
    for table in ("jedi_jobs", "jedi_job_ready"):
        assert {row.priority for row in rows(world, f"SELECT priority FROM {table}")} == {scouts}


@pytest.mark.parametrize(
    ("n_files", "keys"),
    [(10, {}), (50, {"nFilesPerJob": 5}), (30, {"skipScout": True})],
)
def test_others_do_not(world: World, n_files: int, keys: dict[str, Any]) -> None:
    task = scouting(world, n_files, **keys)
    assert status(world, task) == "running"
    assert {row.kind for row in rows(world, "SELECT kind FROM jedi_jobs")} == {"normal"}
    assert to_be_used(world, task) == [(n_files, n_files)]


def test_how_many_is_a_knob(world: World) -> None:
    set_knobs(world, chunks=3)
    task = scouting(world, 5)
    assert counts(world, task) == {"activated": 3}
    set_knobs(world, chunks=0)
    [other] = ready(
        world, document(nFilesPerJob=1, site="SITE_A", skipScout=False, output="a:other")
    )
    assert generate(world) == 1
    assert counts(world, other) == {"activated": 5}
    sound(world)


def test_without_a_size_a_scout_has_one_file(world: World) -> None:
    task = fed(world, 30, nFilesPerJob=None)
    assert to_be_used(world, task) == [(10, 30)]
    assert generate(world) == 1
    assert counts(world, task) == {"activated": 10}
    end(world, jobs(world, task, "activated"))
    everything(world)
    assert [
        row.n_inputs for row in rows(world, "SELECT n_inputs FROM jedi_jobs WHERE kind = 'normal'")
    ] == [20]


def test_tasks_without_input_have_scouts_too(world: World) -> None:
    items = [item for item in document()["jobParameters"] if item["param_type"] == "output"]
    [task] = ready(
        world,
        {
            **document(),
            "skipScout": False,
            "noInput": True,
            "nFiles": 12,
            "transPath": "echo",
            "jobParameters": items,
        },
    )
    assert to_be_used(world, task) == [(10, 12)]
    assert generate(world) == 1
    assert counts(world, task) == {"activated": 10}
    sound(world)


def test_scouts_may_be_ranges_of_events(world: World) -> None:
    task = scouting(world, 10, nFilesPerJob=None, nEventsPerInputFile=150, nEventsPerJob=100)
    made = rows(world, "SELECT n_events FROM jedi_jobs")
    assert [row.n_events for row in made] == [100] * 10
    [input_] = rows(
        world, "SELECT neventstobeused, nevents FROM jedi_datasets WHERE type = 'input'"
    )
    assert tuple(input_) == (1000, 1500)
    sound(world)
    end(world, jobs(world, task, "activated"))
    everything(world)
    assert counts(world, task) == {"finished": 10, "activated": 5}
    row = task_row(world, task)
    assert (row.cputime, row.cputimeunit) == (54, "HS06sPerEvent")
    assert (row.outdiskcount, row.outdiskunit) == (10, "kBPerEvent")
    assert work_off(world, task) == "done"
    sound(world)


# --------------------------------------------------------------------------------- what follows


def test_when_all_scouts_have_ended_the_others_follow(world: World) -> None:
    task = scouting(world, ramCount=2000)
    found = jobs(world, task, "activated")
    end(world, found[:9])
    everything(world)
    assert status(world, task) == "scouting"  # one is still at work
    assert task_row(world, task).walltime is None
    end(world, found[9:])
    everything(world)
    assert history(world, task)[-3:] == ["scouting", "scouted", "running"]
    assert to_be_used(world, task) == [(30, 30)]
    assert counts(world, task) == {"finished": 10, "activated": 20}
    query = "SELECT kind, priority, memory_mb, walltime_s FROM jedi_jobs WHERE kind <> 'scout'"
    made = {tuple(row) for row in rows(world, query)}
    # 5400 HS06 s an event (one a file) at 10 HS06 and 90 %, and the base of 600 s
    assert made == {("normal", 1000, 700, 1200)}
    row = task_row(world, task)
    assert row.splitrule == "NF=1,US=3"
    assert (row.ramcount, row.ramunit) == (700, "MBPerCore")
    assert (row.cputime, row.cputimeunit) == (5400, "HS06sPerEvent")  # 400 x 10 x 0.9 x 1.5
    assert (row.outdiskcount, row.outdiskunit) == (512, "kB")
    assert (row.workdiskcount, row.workdiskunit) == (4000, "kB")
    assert (row.iointensity, row.diskio) == (3, 4)
    assert (row.iointensityunit, row.diskiounit) == ("kBPerS", "kBPerS")
    sound(world)
    assert work_off(world, task) == "done"
    sound(world)


def test_people_see_what_was_measured(world: World) -> None:
    task = scouting(world)
    with world.engine.begin() as tx:
        assert service.show(call(tx), task).measured == []
    end(world, jobs(world, task, "activated"))
    everything(world)
    with world.engine.begin() as tx:
        found = {one.name: (one.value, one.unit) for one in service.show(call(tx), task).measured}
        steps = [step for step in service.history(call(tx), task) if step.status == "running"]
        assert listings.MEASURED.rows(tx, task=task + 1) == []
    assert found["ramCount"] == (700, "MBPerCore")
    assert found["cpuTime"] == (5400, "HS06sPerEvent")
    assert found["ioIntensity"] == (3, "kBPerS")
    assert steps[0].reason == "Scout jobs processed 10 of 10 files: all others follow."


def test_a_failed_scout_is_tried_again_as_one(world: World) -> None:
    task = scouting(world, maxAttempt=2)
    found = jobs(world, task, "activated")
    end(world, found[:8])
    end(world, found[8:], "failed")
    make_due(world)
    everything(world)
    assert status(world, task) == "scouting"
    again = jobs(world, task, "activated")
    query = "SELECT kind FROM jedi_jobs WHERE pandaid = ANY(:ids)"
    assert [row.kind for row in rows(world, query, ids=again)] == ["scout"] * 2
    end(world, again, "failed")
    make_due(world)
    everything(world)
    assert status(world, task) == "running"  # one success is enough
    assert files(world, task) == {"finished": 8, "failed": 2, "running": 20}
    sound(world)


def test_without_a_success_the_task_is_broken(world: World) -> None:
    task = scouting(world, maxAttempt=1)
    end(world, jobs(world, task, "activated"), "failed")
    everything(world)
    assert history(world, task)[-2:] == ["tobroken", "broken"]
    with world.engine.begin() as tx:
        found = service.get(tx, task)
    assert (found.reason_code, found.reason) == (
        "scouts_failed",
        "Scout jobs could process 0 of 10 files: the task is broken.",
    )
    assert (found.n_files, found.n_files_failed) == (30, 10)
    assert counts(world, task) == {"failed": 10}
    sound(world)


def test_short_scouts_exhaust_the_task_until_it_is_retried(world: World) -> None:
    set_knobs(world, short_max_expected_jobs=29)
    task = scouting(world)
    end(world, jobs(world, task, "activated"), wall_s=10.0)
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.reason_code) == ("exhausted", "scouts_too_short")
    assert row.reason_facts == {
        **{"scouts": 10, "files_finished": 10, "files_failed": 0},
        **{"jobs_expected": 30, "short_scouts": 10, "short_s": 240},
    }
    assert row.ramcount == 700
    sound(world)
    ask(world, task, "retry")
    make_due(world)
    everything(world)
    assert history(world, task)[-2:] == ["exhausted", "running"]
    assert counts(world, task) == {"finished": 10, "activated": 20}
    assert work_off(world, task) == "done"
    sound(world)


def test_scouts_that_take_too_much_time_exhaust_the_task(world: World) -> None:
    task = scouting(world, cpuTime=2699)
    end(world, jobs(world, task, "activated"))
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.reason_code) == ("exhausted", "scouts_too_slow")
    assert row.cputime == 5400


def test_fixed_figures_stay(world: World) -> None:
    task = scouting(
        world, ramCount=900, ramUnit="MBPerCoreFixed", cpuTime=1, cpuTimeUnit="HS06sPerEventFixed"
    )
    end(world, jobs(world, task, "activated"))
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.ramcount, row.cputime) == ("running", 900, 1)


@pytest.mark.parametrize(("used_mb", "limit_mb"), [(700, 1400), (20, 1000)])
def test_a_job_may_use_more_than_the_scouts_did(world: World, used_mb: int, limit_mb: int) -> None:
    """Twice as much (`scout.limit_factor`), and a gigabyte at least (`scout.least_limit_mb`): the
    memory of small payloads tells more of the moment than of the payload."""
    task = scouting(world, site="SITE_A", ramCount=1500)
    limits: list[dict[str, int]] = []
    for _ in range(2):
        request = AcquireRequest(
            request_id=f"r{len(limits)}",
            pilot_id="p",
            site="SITE_A",
            n=1,
            resources=Resources(cores=1, memory_mb=0, walltime_s=0, disk_mb=0),
        )
        who = Identity("pilot", "SITE_A", None)
        answer = pilot_requests.acquire(world.engine, world.ddm, world.knobs, who, request)
        limits.append(answer["jobs"][0]["limits"])
        waiting = jobs(world, task, "activated")
        end_jobs(world, [answer["jobs"][0]["pandaid"]])
        end(world, waiting, max_pss_kb=used_mb * 1024)
        everything(world)
    assert [one["memory_mb"] for one in limits] == [1500, limit_mb]
    assert [one["wall_s"] for one in limits] == [0, 2400]


# ----------------------------------------------------------------------- holds, commands, ends


def test_a_task_that_was_held_meanwhile_is_judged_all_the_same(world: World) -> None:
    task = scouting(world)
    ask(world, task, "pause")
    cycle(world)
    assert status(world, task) == "paused"
    ask(world, task, "resume")
    cycle(world)
    assert status(world, task) == "scouting"
    ask(world, task, "reassign", site="SITE_A", nokill=True)
    everything(world)
    make_due(world)
    end(world, jobs(world, task, "activated"))
    everything(world)
    assert status(world, task) == "running"
    assert counts(world, task) == {"finished": 10, "activated": 20}
    sound(world)


def test_a_task_that_comes_back_with_all_scouts_ended_is_judged(world: World) -> None:
    """Its worker died again and again, say, and it is retried."""
    task = scouting(world)
    with world.engine.begin() as tx:
        moved = tasks.move_tasks(tx, [Move(task, None, "exhausted", "worker_killed", "")], "test")
        assert len(moved) == 1
    end(world, jobs(world, task, "activated"))
    ask(world, task, "retry")
    make_due(world)
    everything(world)
    assert history(world, task)[-4:] == ["exhausted", "scouting", "scouted", "running"]
    assert counts(world, task) == {"finished": 10, "activated": 20}
    sound(world)


def test_a_person_may_wave_a_task_through(world: World) -> None:
    task = scouting(world)
    end(world, jobs(world, task, "activated")[:1])
    ask(world, task, "avalanche")
    everything(world)
    assert history(world, task)[-3:] == ["scouting", "scouted", "running"]
    assert counts(world, task) == {"finished": 1, "activated": 29}
    assert task_row(world, task).ramcount is None
    sound(world)
    assert work_off(world, task) == "done"
    sound(world)


def test_who_finishes_early_gives_up_what_was_withheld(world: World) -> None:
    task = scouting(world)
    end(world, jobs(world, task, "activated")[:4])
    ask(world, task, "finish")
    make_due(world)
    cycle(world)
    with world.engine.begin() as tx:
        found = service.get(tx, task)
    assert (found.status, found.n_files, found.n_files_finished) == ("finished", 30, 4)
    assert files(world, task) == {"finished": 4, "failed": 26}
    sound(world)
    ask(world, task, "retry")
    make_due(world)
    assert work_off(world, task) == "done"
    sound(world)


def test_a_killed_task_withholds_nothing(world: World) -> None:
    task = scouting(world)
    ask(world, task, "kill")
    cycle(world)
    assert status(world, task) == "aborted"
    assert to_be_used(world, task) == [(30, 30)]
    sound(world)


def test_several_masters_share_the_scouts(world: World) -> None:
    for name, n in (("one", 4), ("two", 40)):
        data = {f"{name}{i:03d}": b"x" for i in range(n)}
        put_file_dataset(world, f"demo:{name}", data, "SITE_A_DATADISK")
    plain = document(nFilesPerJob=2, skipScout=False, site="SITE_A")
    source = {**plain["jobParameters"][0], "dataset": "demo:one,demo:two"}
    [task] = ready(world, {**plain, "jobParameters": [source, plain["jobParameters"][1]]})
    assert to_be_used(world, task) == [(4, 4), (16, 40)]
    assert generate(world) == 1
    assert counts(world, task) == {"activated": 10}
    end(world, jobs(world, task, "activated"))
    everything(world)
    assert counts(world, task) == {"finished": 10, "activated": 12}
    sound(world)


@pytest.mark.long
def test_many_tasks_are_judged_in_as_many_statements_as_one(world: World) -> None:
    add_inputs(world, 12)
    statements = watch(world.engine)
    seen = []
    for batch in (1, 6):
        ids = ready(
            world,
            *(
                document(nFilesPerJob=1, skipScout=False, output=f"a:{batch}.{i}", site="SITE_A")
                for i in range(batch)
            ),
        )
        JobGenerator(world).run_once()
        for task in ids:
            end(world, jobs(world, task, "activated"))
        before = len(statements)
        assert PostProcessor(world).run_once() == batch
        seen.append(len(statements) - before)
        assert {status(world, task) for task in ids} == {"running"}
        while JobGenerator(world).run_once():
            pass
    assert seen[0] == seen[1]
    assert ContentsFeeder(world).run_once() == 0
