"""Simulated consumers: jobs that ask for ranges of events, die, and finish."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from jedi.simulator.consumers import EventBook, EventWork
from jedi.simulator.event_use import EventTotals, event_use, events_by_site
from jedi.simulator.job_times import JobTimes
from jedi.simulator.measure import measure
from jedi.simulator.plots import write_plots
from jedi.simulator.random_streams import RandomStreams
from jedi.simulator.record import JobLives, ProcessedEvents, Record
from jedi.simulator.run import simulate_in
from jedi.simulator.scenario import START, Scenario, read_scenario
from jedi.taskbuffer.housekeeping.simulation import JobLife, TaskLife

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulations"
ORDER = {"n_ranges": 4, "zip_ranges": 3, "zip_s": 60.0, "jobset_id": 1}


def scenario(factor: float, name: str = "eventservice", **changes: Any) -> Scenario:
    """An example, smaller."""
    found = read_scenario((EXAMPLES / f"{name}.yaml").read_text())
    return found.smaller(factor).model_copy(update=changes)


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


def work(**changes: Any) -> EventWork:
    """A consumer that began at 0 s, with 4 ranges of 5 events, each event of 10 s."""
    given = {
        "order": ORDER,
        "panda_id": 7,
        "event_s": 10.0,
        "spread": 0.0,
        "streams": RandomStreams(1),
        "since": START,
        **changes,
    }
    found = EventWork(**given)
    found.take([{"id": f"1-7-3-{n}-10", "start": n, "end": n + 4} for n in (1, 6, 11, 16)], False)
    return found


def test_ranges_come_one_after_the_other_and_go_in_zips() -> None:
    """Four ranges end at 50, 100, 150 and 200 s. The first zip is due 60 s after the first range:
    at 110 s with two ranges; the last when all have ended and there are no others."""
    consumer = work()
    assert consumer.wakes() == at(110)
    consumer.process(at(109))
    assert consumer.zip(at(109)) == []
    consumer.process(at(110))
    assert [one.n_events for one in consumer.zip(at(110))] == [5, 5]
    consumer.process(at(205))
    assert not consumer.open
    assert (consumer.since, consumer.idle) == (at(200), False)
    consumer.take([], True)
    assert consumer.idle
    assert [one.ends for one in consumer.zip(at(205), end=True)] == [at(150), at(200)]


def test_a_consumer_that_dies_keeps_what_it_finished_before() -> None:
    """It dies at 120 s: two ranges have ended, two are lost."""
    consumer = work(dies=at(120))
    assert not consumer.dead(at(119))
    consumer.process(at(500))
    assert consumer.dead(at(500))
    assert [one.ends for one in consumer.zip(at(500), end=True)] == [at(50), at(100)]
    assert len(consumer.open) == 2


def test_a_held_payload_finishes_later_and_a_stuck_one_never() -> None:
    consumer = work()
    consumer.rest(timedelta(seconds=30))
    assert [one.ends for one in consumer.open] == [at(80), at(130), at(180), at(230)]
    stuck = work(stuck=True)
    stuck.rest(timedelta(seconds=30))
    stuck.process(at(10**6))
    assert len(stuck.open) == 4


def test_a_range_is_redone_if_it_was_handed_out_before() -> None:
    book = EventBook()
    book.note_given("mc", [{"id": "1-7-3-1-10"}, {"id": "1-7-3-6-10"}])
    book.note_given("mc", [{"id": "1-8-3-6-9"}, {"id": "2-9-3-6-10"}])
    assert (book.ranges["mc"], book.redone["mc"]) == (3, 1)


def _life(panda_id: int, kind: str, begins: float, ends: float) -> JobLife:
    hours = [at(3600 * hour) for hour in (begins, ends)]
    return JobLife(
        panda_id=panda_id,
        jedi_task_id=1,
        kind=kind,
        site="A",
        gshare="user",
        status="finished",
        error_code=None,
        cores=1,
        creation_time=START,
        start_time=hours[0],
        end_time=hours[1],
        state_change_time=hours[1],
        queue="user",
        share="user",
    )


def test_packed_lives_are_the_same_each_time() -> None:
    lives = [_life(number, "normal", 1, 2) for number in range(5)]
    packed = JobLives()
    packed.add(lives[:3])
    packed.add(lives[3:])
    assert [*packed] == [*packed] == lives


def test_waste_is_the_time_after_the_last_report() -> None:
    """Consumer 2 ran for 4 h and its last report that counted came after 3 h; consumer 3 ran for
    6 h and reported all. So 1 of 10 core-hours is lost. 7200 events in the 5 h from the first
    start to the last report are 0.4 a second. The merge job counts from its start on."""
    record = Record(scenario(1.0))
    record.tasks = [TaskLife(1, "mc.1", "done", "user", None, START, None)]
    record.jobs = [_life(1, "es_merge", 8, 9), _life(2, "consumer", 1, 5), _life(3, "fine", 2, 8)]
    record.left, record.kept = {2: 5.0, 3: 8.0}, {2: 4.0, 3: 8.0}
    record.ranges["mc"], record.redone["mc"], record.merged = 10, 2, {1: 7000}
    record.processed = [ProcessedEvents("mc", "A", 3.5, 3600), ProcessedEvents("mc", "A", 6, 3600)]
    lives = JobTimes(record)
    assert event_use(record, lives) == [EventTotals("mc", 7200, 7000, 0.4, 10, 2, 0.1)]
    assert lives.made.tolist() == [8, 0, 0]
    rates = events_by_site(record, np.array([0.0, 2.0, 4.0, 8.0]))
    assert rates["A"].tolist() == rates["all"].tolist() == [0, 0.5, 0.25]


@pytest.mark.long
def test_consumers_die_and_each_event_is_merged_once(engine: Engine) -> None:
    """One consumer in five fails. Others process its ranges; all events are merged, and `jedi
    check`, whose invariants have each range merged once, finds nothing wrong."""
    record = simulate_in(engine, scenario(0.2, tick_s=600))
    assert (record.wrong, dict(record.troubles)) == ([], {})
    outcome = measure(record)
    [use] = outcome.events
    assert outcome.tasks == {"done": 2}
    assert use.merged == 2 * 4 * 2000
    again = sum(job.kind == "consumer" and job.status == "failed" for job in record.jobs)
    assert use.events == use.merged + 2000 * bool(again)  # of the set whose three merges failed
    assert use.ranges == 2 * 4 * 80
    assert {"payload_exit", "lost_heartbeat"} & outcome.ends.keys()
    assert use.redone > 0
    assert 0 < (use.waste or 0) < 0.1
    assert set(outcome.curves.events) == {"all", *{row.site for row in record.jobs}}


@pytest.mark.long
@pytest.mark.parametrize(("jumbo_tasks", "least_h", "most_h"), [(0, 20.8, 24), (4, 4.9, 14)])
def test_a_large_queue_eats_what_many_small_ones_leave(
    engine: Engine, tmp_path: Path, jumbo_tasks: int, least_h: float, most_h: float
) -> None:
    """Each range is handed out once, and merged. Without jumbo jobs the largest task of 5,000
    events of 15 s takes 20.8 h at least at its small queue of one slot. With them the large queue
    takes part, 8 times as fast: the 14,000 events of all take 4.9 h at least, and all is over
    earlier than without."""
    known = scenario(0.2, "jumbo")
    knobs = {
        "jumbo_dog.min_events_enable": 1600,
        "jumbo_dog.min_events_disable": 200,
        "jumbo_dog.max_tasks": jumbo_tasks,
    }
    record = simulate_in(
        engine, known.model_copy(update={"tick_s": 600, "knobs": known.knobs | knobs})
    )
    assert (record.wrong, dict(record.troubles)) == ([], {})
    outcome = measure(record)
    assert outcome.tasks == {"done": 4}
    assert [one.events for one in outcome.events] == [4000, 3000, 5000, 2000]
    for one in outcome.events:
        assert (one.merged, one.ranges, one.redone) == (one.events, one.events // 25, 0)
    small = {f"SMALL_{n}" for n in range(1, 5)}
    assert {job.site for job in record.jobs if job.kind != "jumbo"} == small
    large = {"LARGE"} if jumbo_tasks else set()
    assert {job.site for job in record.jobs if job.kind == "jumbo"} == large
    assert set(outcome.curves.events) == {"all", *small, *large}
    assert least_h < max(one.took_h or 0 for one in outcome.task_ends) < most_h
    write_plots({"": outcome}, tmp_path)
    assert (tmp_path / "events.png").stat().st_size > 10_000
