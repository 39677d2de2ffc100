"""What tasks say of their scouts, scouts judged early, tasks measured anew."""

# Raw UPDATEs: sizes of files whose jobs do not run here.

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import counts, everything, jobs, running, sound, status, take
from support.commanding import end as end_jobs
from support.generating import rows
from support.scouting import end, fed, history, scouting, set_knobs, task_row
from support.scouts import CURRENT, JOB, MANAGED, USER, judged
from support.situations import make_due

from jedi.agent.base import World
from jedi.core.knobs import Knobs
from jedi.model.jobs.scouting import Measured, Progress, Scouted
from jedi.postprocessor.scouts import judge, shaped
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from jedi.watchdog import retries
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

GB = 2**30


@pytest.mark.parametrize("task", [USER, MANAGED])
def test_a_task_may_say_how_many_scouts_have_to_succeed(task: Any) -> None:
    wants = replace(task, success_percent=70.0)
    assert judged(*[JOB] * 7, failed=3, task=wants).target == "scouted"
    assert judged(*[JOB] * 6, failed=4, task=wants).target == "tobroken"
    assert judged(JOB, failed=9, task=replace(task, success_percent=0.0)).target == "scouted"


def test_between_broken_and_good_a_person_may_be_asked() -> None:
    asking = Knobs({"scout.exhaust_from_percent": 20.0})
    wants = replace(USER, success_percent=50.0)
    found = judged(*[JOB] * 2, failed=8, task=wants, knobs=asking)
    assert (found.target, found.code) == ("exhausted", "scouts_partly_failed")
    assert judged(JOB, failed=9, task=wants, knobs=asking).target == "tobroken"
    assert judged(*[JOB] * 5, failed=5, task=wants, knobs=asking).target == "scouted"


def test_cores_that_wait_are_a_question() -> None:
    busy, idle = replace(JOB, cpu_s=0.8 * 7200 * 8), replace(JOB, cpu_s=0.2 * 7200 * 8)
    wants = replace(MANAGED, min_cpu_efficiency=50)
    assert judged(busy, busy, idle, task=wants).target == "scouted"
    found = judged(busy, idle, idle, task=wants)
    assert (found.target, found.code) == ("exhausted", "scouts_too_idle")
    assert found.facts["cpu_efficiency"] == 20.0
    assert judged(idle, task=MANAGED).target == "scouted"


def test_so_is_more_processor_time_than_cores_have() -> None:
    greedy = replace(JOB, cpu_s=2.01 * 7200 * 8)
    assert judged(greedy, knobs=CURRENT).code == "scouts_too_busy"
    assert judged(replace(JOB, cpu_s=2 * 7200 * 8), knobs=CURRENT).target == "scouted"
    assert judged(greedy).target == "scouted"  # classic


@pytest.mark.parametrize(
    ("wanted", "size", "current"),
    [(10.0, 30.0, 28.5), (0.1, 2.6, 1.0), (50.0, 100.0, 100.0)],
)
def test_the_size_of_jobs_follows_from_the_output_wanted(
    wanted: float, size: float, current: float
) -> None:
    """1 GB in, 2 GB out, of which 1 GB in the largest: for 10 GB of that, 10 + 20, for 0.1 GB 0.1 +
    max(0.2, 2.5), between 1 and 100 GB; current: less the 1500 MB that are allowed on top."""
    jobs = [replace(JOB, input_bytes=GB // 2, output_bytes=GB)] * 2
    task = replace(USER, max_output_gb=wanted)
    found = judge(Scouted(task, Progress(100, 2, 0), tuple(jobs), largest_output=GB), Knobs())
    assert found.n_gb_per_job == pytest.approx(size, abs=0.01)  # and the work directory
    found = judge(Scouted(task, Progress(100, 2, 0), tuple(jobs), largest_output=GB), CURRENT)
    assert found.n_gb_per_job == pytest.approx(current, abs=0.05)
    assert judge(Scouted(USER, Progress(100, 2, 0), tuple(jobs), GB), Knobs()).n_gb_per_job is None


# ---------------------------------------------------------------------------- among the agents


def test_the_rules_of_scouts_reach_their_judge(world: World) -> None:
    task = scouting(world, scoutSuccessRate=6, maxAttempt=1)
    found = jobs(world, task, "activated")
    end(world, found[:5])
    end(world, found[5:], "failed")
    everything(world)
    assert status(world, task) == "broken"


@pytest.mark.parametrize(
    ("code", "keys", "limits", "measures"),
    [
        ("scouts_too_idle", {"minCpuEfficiency": 50}, {}, {"cpu_s": 400.0}),
        ("scouts_too_busy", {}, {"max_cpu_use": 2.0}, {"cpu_s": 2500.0}),
        ("scouts_too_large", {"ramCount": 500}, {"max_ram_mb": 1000}, {"max_pss_kb": 2**21}),
    ],
)
def test_what_scouts_used_may_be_a_question_for_a_person(
    world: World, code: str, keys: Any, limits: Any, measures: Any
) -> None:
    set_knobs(world, **limits)
    task = scouting(world, **keys)
    end(world, jobs(world, task, "activated"), **measures)
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.reason_code) == ("exhausted", code)
    sound(world)


def test_so_may_be_how_few_of_them_succeeded(world: World) -> None:
    set_knobs(world, exhaust_from_percent=20.0)
    task = scouting(world, scoutSuccessRate=5, maxAttempt=1)
    found = jobs(world, task, "activated")
    end(world, found[:3])
    end(world, found[3:], "failed")
    everything(world)
    row = task_row(world, task)
    assert (row.status, row.reason_code) == ("exhausted", "scouts_partly_failed")
    sound(world)


def test_a_task_may_refuse_scouts(world: World) -> None:
    task = scouting(world, useScout=False)
    assert status(world, task) == "running"


def test_scouts_may_be_as_large_as_other_jobs(world: World) -> None:
    task = fed(world, 33, nFilesPerJob=None, nMaxFilesPerJob=3, respectSplitRule=True)
    everything(world)
    query = (
        "SELECT kind, n_inputs, count(*) AS n FROM jedi_jobs WHERE jeditaskid = :t GROUP BY 1, 2"
    )
    assert [tuple(row) for row in rows(world, query, t=task)] == [("scout", 3, 10)]


def test_jobs_become_as_large_as_the_output_wanted(world: World) -> None:
    task = scouting(world, nFilesPerJob=None, tgtMaxOutputForNG=2)
    found = jobs(world, task, "activated")
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_job_files SET fsize = 1000000 WHERE type = 'output'"))
    end(world, found)  # each reads 2 MB and writes 1 MB
    everything(world)
    # for 2 GB of output 4 GB are read; the output counts as 2.5, and 4000 kB are for work
    assert "NG=6.5038" in task_row(world, task).splitrule
    sound(world)


def test_an_explicit_size_is_respected(world: World) -> None:
    task = scouting(world, nFilesPerJob=None, nGBPerJob=4, tgtMaxOutputForNG=2)
    end(world, jobs(world, task, "activated"))
    everything(world)
    assert "NG=4," in task_row(world, task).splitrule


def test_half_of_the_scouts_suffice_in_the_current_preset(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "core.preset", "current", "op")
    task = scouting(world)
    found = jobs(world, task, "activated")
    end(world, found[:4])
    everything(world)
    assert status(world, task) == "scouting"
    end(world, found[4:5])
    everything(world)
    make_due(world)
    assert history(world, task)[-2:] == ["scouted", "running"]
    assert counts(world, task)["finished"] == 5
    assert task_row(world, task).measured_jobs == 5
    sound(world)


def walk_measure(world: World) -> Counts:
    world.refresh()
    return walk(world, DOGS["measure"])


def test_a_running_task_is_measured_by_its_first_five_jobs(world: World) -> None:
    task = running(world, 8, skipScout=True)
    found = jobs(world, task, "activated")
    end(world, found[:4])
    assert walk_measure(world) == Counts()
    end(world, found[4:6], max_pss_kb=900 * 1024)
    assert walk_measure(world) == Counts(measured=1)
    row = task_row(world, task)
    assert (row.ramcount, row.measured_jobs) == (900, 6)  # the fifth used more than the others
    end(world, found[6:])
    assert walk_measure(world) == Counts()
    sound(world)


def test_and_again_in_the_current_preset(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "core.preset", "current", "op")
    task = running(world, 6, skipScout=True)
    found = jobs(world, task, "activated")
    end(world, found[:1])
    assert [walk_measure(world), walk_measure(world)] == [Counts(measured=1), Counts()]
    end(world, found[1:5], max_pss_kb=2000 * 1024)
    assert walk_measure(world) == Counts(measured=1)
    assert task_row(world, task).ramcount == 2200  # and a tenth


def test_or_never(world: World) -> None:
    set_knobs(world, measure_at="none")
    task = running(world, 6, skipScout=True)
    end(world, jobs(world, task, "activated"))
    assert walk_measure(world) == Counts()


@pytest.mark.parametrize("measured_first", [True, False])
def test_what_failed_jobs_proved_is_not_measured_away(world: World, measured_first: bool) -> None:
    """JEDI document, "Memory increase in job retry": "When 30% of the jobs in a task have failed
    because of insufficient memory, the setting will be increased for the whole task." 4 of 10 jobs
    had too little with 200 MB: the next step is 1000. The other jobs need 13 MB, whoever
    ends first."""
    task = running(world, 10, skipScout=True, ramCount=200, ramUnit="MB")
    found = jobs(world, task, "activated")

    def well() -> None:
        end(world, found[4:], max_pss_kb=13 * 1024)
        assert walk_measure(world) == Counts(measured=1)

    if measured_first:
        well()
        assert figure(world, task) == ("ramCount", 13, "MB", "finished jobs", None)
    take(world, found[:4])
    end_jobs(world, found[:4], "failed", "memory_limit")
    assert retries.run(world) == {"tasks": 1}
    measured = 13 if measured_first else None
    assert figure(world, task) == ("ramCount", 1000, "MB", "failed jobs", measured)
    if not measured_first:
        well()
    assert figure(world, task) == ("ramCount", 1000, "MB", "failed jobs", 13)
    assert task_row(world, task).resource_type == "SCORE"


def figure(world: World, task: int, name: str = "ramCount") -> Any:
    """A figure as `show` has it."""
    with world.engine.begin() as tx:
        [found] = [one for one in service.show(call(tx), task).measured if one.name == name]
    return astuple(found)


def test_time_that_failed_jobs_proved_counts_too() -> None:
    """HS06 s an event: failed jobs prove 20; others need 7.2, in thousandths, or more than 20."""
    task = replace(USER, figures={"cpu_time": {"proven": 20}})
    small = Measured(cpu_time=7200, cpu_time_unit="mHS06sPerEvent")
    found = shaped(task, small, ())
    assert (found.cpu_time, found.cpu_time_unit) == (20, "HS06sPerEvent")
    assert found.figures == {"cpu_time": {"measured": 7200}}
    large = Measured(cpu_time=21, cpu_time_unit="HS06sPerEvent")
    assert shaped(task, large, ()).cpu_time == 21
