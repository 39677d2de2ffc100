"""Scouts: the first jobs of a task measure it, and decide whether the others follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scouts import CLASSIC, CURRENT, JOB, MANAGED, MB, USER, judged

from jedi.core.knobs import Knobs
from jedi.model.jobs.scouting import (
    Declared,
    Master,
    Measured,
    Progress,
    Release,
    Scout,
    Scouted,
    released,
)
from jedi.model.splitting.split_rules import SplitRules, render_split_rule
from jedi.postprocessor.scouts import judge, measure, nearest_rank


def measured(*jobs: Scout, task: Declared = USER, knobs: Knobs = CLASSIC) -> Measured:
    return measure(task, jobs or (JOB,), knobs)


# ------------------------------------------------------------------------------ what is released


@pytest.mark.parametrize(
    ("files", "rules", "expected"),
    [
        ([10], {}, []),  # scouts would be all there is
        ([11], {}, [10]),
        ([100], {"n_files_per_job": 5}, [50]),
        ([50], {"n_files_per_job": 5}, []),
        ([51], {"n_files_per_job": 5}, [50]),
        ([7, 100], {"n_files_per_job": 5}, [7, 40]),  # 2 jobs, then 8
        ([60, 9], {"n_files_per_job": 5}, [50, 0]),
        ([30], {"n_gb_per_job": 3.0}, [10]),
        ([30], {"max_files_per_job": 3}, [10]),
    ],
)
def test_the_input_of_the_first_jobs_is_released(
    files: list[int], rules: dict[str, Any], expected: list[int]
) -> None:
    masters = [Master(i, n, 0) for i, n in enumerate(files)]
    found = released(masters, SplitRules(**rules), 10)
    assert [one.n_files for one in found] == expected
    assert released(masters, SplitRules(**rules), 0) == []


def test_of_input_that_grows_scouts_get_what_is_there() -> None:
    masters = [Master(1, 3, 0), Master(2, 0, 0), Master(3, 40, 0)]
    rules = SplitRules(n_files_per_job=2)
    assert released(masters, rules, 30) == []
    assert [one.n_files for one in released(masters, rules, 30, more=True)] == [3, 0, 40]
    assert [one.n_files for one in released(masters, rules, 10, more=True)] == [3, 0, 16]
    assert released([Master(1, 0, 0)], rules, 10, more=True) == []


def test_a_job_may_be_a_number_of_events() -> None:
    rules = SplitRules(n_events_per_job=100)
    assert released([Master(1, 30, 900)], rules, 10) == []
    assert released([Master(1, 30, 1500), Master(2, 9, 900)], rules, 10) == [
        Release(1, 30, 1000),
        Release(2, 9, 0),
    ]


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=5), st.integers(1, 40), st.integers(1, 20)
)
def test_scouts_never_take_more_than_told(files: list[int], per_job: int, jobs: int) -> None:
    masters = [Master(i, n, 0) for i, n in enumerate(files)]
    found = released(masters, SplitRules(n_files_per_job=per_job), jobs)
    if found:
        assert sum(-(-one.n_files // per_job) for one in found) == jobs
        assert all(one.n_files <= n for one, n in zip(found, files, strict=True))
    else:
        assert sum(-(-n // per_job) for n in files) <= jobs


def test_the_stage_of_scouting_is_a_split_rule() -> None:
    rules = SplitRules(n_files_per_job=5).then(2)
    assert rules.scouting
    assert not rules.then(3).scouting
    assert render_split_rule(rules) == "NF=5,US=2"


# ------------------------------------------------------------------------------------- measuring


def test_cpu_time_as_worked_by_hand() -> None:
    # docs/reference/scouts.md#cputime: 7200 s, base 600, power 10, 8 cores, 90 %, 500 events ->
    # 1426
    found = measured()
    assert (found.cpu_time, found.cpu_time_unit) == (1426, "HS06sPerEvent")


def test_cpu_time_counts_from_the_start_of_a_job_to_its_end() -> None:
    """JEDI document, "HS06sPerEvent": "the job with 95th percentile of
    (endTime-startTime)*corepower", "cpuTime =
    max(0,endTime-startTime-baseTime)*corePower*coreCount*cpuEfficiency/NEvents*1.5": (7200 - 600) x
    10 x 8 x 0.9 / 500 x 1.5, however long its pilot saw the payload run. DISKIO:
    "(totWBytes+totRBytes)/((endTime-startTime)": 720 MB in 7200 s."""
    paused = replace(JOB, wall_s=3600)
    assert measured(paused).cpu_time == 1426
    assert measured(paused).disk_io == 100
    short, long = replace(JOB, lasted_s=3000, wall_s=9000), replace(JOB, wall_s=600)
    assert measured(*[short] * 3, long).cpu_time == 1426


def test_scouts_tell_little_memory_as_it_is() -> None:
    """JEDI document, "Memory probe and brokerage": "the task ramcount is set to
    (max(maxpss)-baseramcount)/corecount", without a floor: 120 MB on one core are 120. PanDA of
    today has one (SCOUT_RAMCOUNT_MIN)."""
    small = replace(JOB, cores=1, memory_kb=120 * 1024)
    assert measured(small).ram_count == 120
    assert measured(small, knobs=Knobs({"core.preset": "current"})).ram_count == 500


def test_little_cpu_time_is_told_in_thousandths() -> None:
    # 60 s beyond the base x 10 x 1 core x 0.9 / 100 events x 1.5 = 8.1
    job = replace(JOB, lasted_s=660, cores=1, n_events=100)
    found = measured(job)
    assert (found.cpu_time, found.cpu_time_unit) == (8100, "mHS06sPerEvent")


def test_cpu_time_is_that_of_the_job_at_the_95th_percentile() -> None:
    jobs = [replace(JOB, lasted_s=1000 * n, n_events=1000, cores=1) for n in range(1, 21)]
    # nearest rank of 20: the 19th; (19000 - 600) x 10 x 0.9 / 1000 x 1.5
    assert measured(*jobs).cpu_time == 249
    slow_site = replace(JOB, lasted_s=5000, core_power=50, n_events=10, cores=1)
    # 5000 x 50 is more than 20000 x 10: rank 20 of 21, with its own power and events
    assert measured(*jobs[:-1], slow_site).cpu_time == 249
    assert measured(*jobs[:10], slow_site).cpu_time == 29_700


@pytest.mark.parametrize(
    ("task", "job"),
    [
        (USER, {"lasted_s": 600}),
        (USER, {"lasted_s": 5}),
        (replace(USER, cpu_efficiency=0), {}),
        (replace(USER, cpu_time_unit="HS06sPerEventFixed", cpu_time=7), {}),
    ],
)
def test_what_cannot_be_told_leaves_the_task_as_it_is(task: Declared, job: dict[str, Any]) -> None:
    found = measured(replace(JOB, **job), task=task)
    assert (found.cpu_time, found.cpu_time_unit) == (None, None)


def test_few_events_tell_nothing_in_the_current_preset() -> None:
    few = replace(JOB, n_events=79)  # less than 10 x 8 cores
    assert measured(few).cpu_time
    assert measured(few, knobs=CURRENT).cpu_time is None
    assert measured(replace(few, lasted_s=6.1 * 3600), knobs=CURRENT).cpu_time
    assert measured(replace(few, input_bytes=0), knobs=CURRENT).cpu_time
    assert measured(replace(few, n_events=80), knobs=CURRENT).cpu_time


def test_a_file_of_unknown_contents_is_one_event() -> None:
    job = replace(JOB, n_events=None, n_files=4, cores=1)
    assert measured(job).cpu_time == 6600 * 10 * 0.9 / 4 * 1.5


def test_memory_is_that_of_the_largest_per_core() -> None:
    task = replace(USER, base_ram_mb=1000)
    large = replace(JOB, memory_kb=17_000 * 1024)
    assert measured(JOB, large, task=task).ram_count == 2000  # (17000 - 1000) / 8
    single = replace(JOB, memory_kb=3500 * 1024, cores=1)
    assert measured(large, single, task=task).ram_count == 2500  # by its own cores
    assert measured(large, task=replace(task, ram_unit="MB")).ram_count == 17_000
    assert measured(large, task=replace(task, ram_unit="MBPerCoreFixed")).ram_count is None
    assert measured(replace(JOB, memory_kb=0)).ram_count is None
    assert measured(knobs=Knobs({"scout.ram_min_mb": 2500})).ram_count == 2500


def test_memory_in_the_current_preset() -> None:
    jobs = [replace(JOB, cores=1, memory_kb=1000 * n * 1024) for n in range(1, 5)]
    assert measured(*jobs, knobs=CURRENT).ram_count == 3300  # the 3rd of 4, and 10 %
    assert measured(*jobs).ram_count == 4000


def test_outputs_are_told_by_events_or_by_input() -> None:
    found = measured()  # 50 MB of 500 events
    assert (found.out_disk_count, found.out_disk_unit) == (103, "kBPerEvent")  # 102.4
    found = measured(replace(JOB, n_events=9))  # 50 MB of 100 MB
    assert (found.out_disk_count, found.out_disk_unit) == (512, "kB")
    found = measured(replace(JOB, n_events=None, input_bytes=1000))
    assert found.out_disk_count == 10 * 1024  # not more than 10 MB per MB
    found = measured(replace(JOB, n_events=None, input_bytes=0, n_files=25))
    assert found.out_disk_count == 2048  # 50 MB of 25 files without size
    jobs = [replace(JOB, n_events=None, output_bytes=n * MB) for n in (10, 20, 30, 40)]
    assert measured(*jobs).out_disk_count == 308  # the 3rd of 4: 0.3 MB per MB


def test_the_larger_work_directory_counts() -> None:
    found = measured(JOB, replace(JOB, workdir_kb=9000))
    assert (found.work_disk_count, found.work_disk_unit) == (9000, "kB")
    assert measured(task=replace(USER, work_disk_kb=5001)).work_disk_count is None


def test_walltime_per_mb_is_told_by_long_jobs() -> None:
    found = measured()  # 7000 s of 100 MB, and half as much again
    assert (found.walltime, found.walltime_unit) == (105, "sPerMB")
    assert measured(replace(JOB, cpu_s=3599)).walltime is None


def test_input_and_output_over_time_and_cores() -> None:
    one = replace(
        JOB,
        wall_s=100,
        lasted_s=100,
        cores=1,
        input_bytes=3_000_000,
        output_bytes=1_000_000,
        local_bytes=5_000_000,
    )
    two = replace(one, wall_s=200, lasted_s=200, cores=2, local_bytes=30_000_000)
    found = measured(one, two)
    assert (found.io_intensity, found.io_intensity_unit) == (16, "kBPerS")  # 8000 / 500
    assert (found.disk_io, found.disk_io_unit) == (100, "kBPerS")  # mean of 50 and 150


def test_only_the_first_that_finished_are_measured() -> None:
    jobs = [replace(JOB, memory_kb=1024 * 1000 * n, cores=1) for n in (1, 1, 1, 1, 1, 9)]
    found = Scouted(USER, Progress(100, 6, 0), tuple(jobs))
    assert judge(found, CLASSIC).measured.ram_count == 1000
    assert judge(found, Knobs({"scout.sample": 6})).measured.ram_count == 9000


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_one_of_the_values(values: list[float], percent: float) -> None:
    found = values[nearest_rank(values, percent)]
    assert sum(value <= found for value in values) >= percent / 100 * len(values) - 1e-6
    assert values[nearest_rank(values, 100)] == max(values)


@given(
    st.lists(
        st.builds(
            Scout,
            st.floats(0, 1e6),
            st.floats(0, 1e6),
            st.floats(0, 1e7),
            st.integers(1, 64),
            st.floats(1, 50),
            st.integers(0, 1000),
            st.none() | st.integers(0, 10**6),
            st.integers(0, 10**9),
            st.integers(0, 10**9),
            st.integers(0, 10**13),
            st.integers(0, 10**13),
            st.integers(0, 10**13),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_pilots_report_can_be_stored(jobs: list[Scout]) -> None:
    for knobs in (CLASSIC, CURRENT):
        found = measure(USER, jobs, knobs)
        numbers = (
            found.cpu_time,
            found.ram_count,
            found.out_disk_count,
            found.work_disk_count,
            found.walltime,
            found.io_intensity,
            found.disk_io,
        )
        assert all(0 <= number < 2**63 for number in numbers if number is not None)


# --------------------------------------------------------------------------------------- judging


def test_one_success_lets_all_others_follow() -> None:
    found = judged(JOB, failed=9)
    assert (found.target, found.code) == ("scouted", "scouts_succeeded")
    assert found.reason == "Scout jobs processed 1 of 10 files: all others follow."
    assert found.facts == {
        "scouts": 1,
        "files_finished": 1,
        "files_failed": 9,
        "jobs_expected": 100,
    }


def test_without_any_the_task_is_broken() -> None:
    found = judged(failed=10)
    assert (found.target, found.code) == ("tobroken", "scouts_failed")
    assert found.reason == "Scout jobs could process 0 of 10 files: the task is broken."
    assert found.measured == Measured()


def test_half_of_an_analysis_task_has_to_succeed_in_the_current_preset() -> None:
    assert judged(*[JOB] * 4, failed=6, knobs=CURRENT).target == "tobroken"
    assert judged(*[JOB] * 5, failed=5, knobs=CURRENT).target == "scouted"
    assert judged(*[JOB] * 1, failed=9, knobs=CURRENT, task=MANAGED).target == "scouted"


@pytest.mark.parametrize(
    ("short", "n_files", "label", "target"),
    [
        (6, 1001, "user", "exhausted"),
        (5, 1001, "user", "scouted"),
        (6, 1000, "user", "scouted"),
        (6, 1001, "managed", "scouted"),
    ],
)
def test_very_many_very_short_jobs_are_a_question(
    short: int, n_files: int, label: str, target: str
) -> None:
    jobs = [replace(JOB, wall_s=239)] * short + [replace(JOB, wall_s=240)] * (10 - short)
    found = judged(*jobs, n_files=n_files, task=replace(USER, label=label))
    assert found.target == target
    if target == "exhausted":
        assert found.code == "scouts_too_short"
        assert found.reason == (
            "6 of 10 scout jobs took less than 240 s, and 1001 jobs are expected, more than 1000: "
            "let each job do more (nFilesPerJob). Retry the task to run it all the same, or "
            "submit it anew with better figures."
        )
        assert found.facts["short_scouts"] == 6
        assert found.measured.ram_count == 2000


def test_jobs_are_expected_as_large_as_scouts_were() -> None:
    jobs = [replace(JOB, wall_s=1, n_files=10)] * 10
    assert judged(*jobs, n_files=10_000).facts["jobs_expected"] == 1000
    assert judged(*jobs, n_files=10_001).target == "exhausted"


def test_much_more_cpu_time_than_declared_is_a_question() -> None:
    for label in ("user", "managed"):
        task = replace(USER, label=label, cpu_time=712)
        found = judged(JOB, task=task)
        assert (found.target, found.code) == ("exhausted", "scouts_too_slow")
        assert found.reason.startswith(
            "Scout jobs took 1426 HS06 s an event, more than 2 times the 712 of the task's cpuTime."
        )
        assert found.facts["cpu_time"] == 1426
    assert judged(JOB, task=replace(USER, cpu_time=713)).target == "scouted"
    milli = replace(USER, cpu_time=712_999, cpu_time_unit="mHS06sPerEvent")
    assert judged(JOB, task=milli).target == "exhausted"
    assert judged(JOB, task=replace(milli, cpu_time=713_000)).target == "scouted"
    assert judged(JOB, task=task, knobs=Knobs({"scout.max_cpu_ratio": 0.0})).target == "scouted"


def test_the_current_preset_asks_less_often() -> None:
    task = replace(MANAGED, cpu_time=100)
    assert judged(JOB, task=task, knobs=CURRENT).target == "scouted"  # no job of more than a day
    day = replace(JOB, wall_s=25 * 3600)
    assert judged(day, task=task, knobs=CURRENT).target == "exhausted"
    assert judged(day, task=task, knobs=CURRENT, n_files=21).target == "scouted"  # 20 more jobs
    assert judged(day, task=task, knobs=CURRENT, n_files=22).target == "exhausted"


def test_memory_beyond_the_limit_is_a_question_in_the_current_preset() -> None:
    large = replace(JOB, cores=1, memory_kb=4000 * 1024)
    found = judged(large, task=replace(MANAGED, ram_count=2000), knobs=CURRENT)
    assert (found.target, found.code) == ("exhausted", "scouts_too_large")
    assert found.reason.startswith(
        "Scout jobs needed 4400 MB a core, the task asks for 2000 MB (limit 4000 MB)."
    )
    assert judged(large, task=replace(MANAGED, ram_count=2000)).target == "scouted"
    said = replace(MANAGED, ram_count=4000)
    assert judged(large, task=said, knobs=CURRENT).target == "scouted"
