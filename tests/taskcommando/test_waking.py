"""What operators change is heard at once by all that waited for it."""

# Raw UPDATEs: every wake-up is tried from its status.

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from support.adder import ENDPOINT, Pilot, adder
from support.calls import call
from support.generate import jobs_of, turn
from support.generating import catalogue, document, generate, ready, rows
from support.mover import B, assigned_jobs
from support.situations import set_sites
from support.statuses import statuses
from support.task_rows import good, put
from support.timeouts import put as put_job

from jedi.agent.base import World
from jedi.agent.loop import WakeUp
from jedi.core import clock, states
from jedi.host.home import Home
from jedi.jobgenerator.agent import JobGenerator
from jedi.mover.agent import Mover
from jedi.service.queues import work_queues
from jedi.service.sites import changes
from jedi.service.system import knobs
from jedi.watchdog.agent import WatchDog

pytestmark = pytest.mark.usefixtures("operators")


def set_knob(world: World, name: str, value: object) -> None:
    """As `jedi config set` does it."""
    with world.engine.begin() as tx:
        knobs.put(call(tx, "me"), name, str(value))


def waiting(world: World) -> dict[int, bool]:
    """Whether each task is put off."""
    query = "SELECT jeditaskid, next_run_at > jedi_now() AS later FROM jedi_tasks"
    return {row.jeditaskid: bool(row.later) for row in rows(world, query)}


def make_due(found: Callable[[], bool]) -> bool:
    deadline = clock.monotonic() + 20
    while not (there := found()) and clock.monotonic() < deadline:
        threading.Event().wait(0.05)
    return there


def held_by_the_throttler(world: World) -> int:
    """A task of 3 jobs whose work queue has as many as it may have."""
    catalogue(world, in_=3)
    turn(world, throttler__queue_cap=3)
    with world.engine.begin() as tx:
        set_sites(tx, "SITE_B", corecount=8)
    ready(world, document(nFilesPerJob=1, output="a:1"))
    assert generate(world) == 1
    (task,) = ready(world, document(nFilesPerJob=1, output="a:2", coreCount=8))
    assert generate(world) == 1
    assert waiting(world)[task]
    assert generate(world) == 0
    return task


def test_a_knob_that_made_a_task_wait_wakes_it(world: World) -> None:
    """A queue may have 3 jobs: the next task waits 30 s. With 9 it has its jobs in the generator's
    next cycle."""
    task = held_by_the_throttler(world)
    set_knob(world, "throttler.queue_cap", 9)
    assert generate(world) == 1
    assert len(jobs_of(world, task)) == 3


def test_any_knob_and_going_back_to_the_preset_wake_whatever_waits(world: World) -> None:
    """All but tasks that have ended, whatever they waited for."""
    ids = dict(
        zip(put(world, *[good()] * len(states.TASK_STATES)), states.TASK_STATES, strict=True)
    )

    def put_off() -> None:
        with world.engine.begin() as tx:
            tx.execute(text("SET LOCAL session_replication_role = replica"))
            for task, status in ids.items():
                tx.execute(
                    text(
                        "UPDATE jedi_tasks SET status = :s, reason_code = 'internal_error',"
                        " next_run_at = jedi_now() + interval '1 h' WHERE jeditaskid = :t"
                    ),
                    {"s": status, "t": task},
                )

    still = {task: status in states.TASK.final for task, status in ids.items()}
    put_off()
    set_knob(world, "jobgen.retry_s", 5)
    assert waiting(world) == still
    put_off()
    with world.engine.begin() as tx:
        knobs.unset(call(tx, "me"), "jobgen.retry_s")
    assert waiting(world) == still


def test_a_queue_file_wakes_what_its_queue_held_back(world: World) -> None:
    task = held_by_the_throttler(world)
    with world.engine.begin() as tx:
        work_queues.import_queues(
            call(tx, "me"),
            "- {queue_id: 1, queue_name: user, queue_type: user, vo: local, queue_order: 1}\n",
        )
    assert not waiting(world)[task]


@pytest.mark.parametrize("of", ["endpoint", "links"])
def test_storage_and_links_wake_what_had_no_site(world: World, of: str) -> None:
    placed, other = put(world, good(), good())
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text(
                "UPDATE jedi_tasks SET status = 'pending', next_run_at = jedi_now() + "
                "interval '1 h', reason_code = CASE WHEN jeditaskid = :t THEN "
                "'no_site_fits' ELSE 'input_open' END"
            ),
            {"t": placed},
        )
        if of == "links":
            changes.import_links(call(tx, "me"), "- {src: SITE_A, dst: SITE_B, mb_s_1h: 5}\n")
        else:
            changes.import_endpoints(
                call(tx, "me", home=Home(world.settings.home)),
                f"- {{ddm_endpoint: {B}, space_min_free: 1}}\n",
            )
    assert waiting(world) == {placed: False, other: True}


def test_timeouts_go_by_a_new_limit_at_once(world: World) -> None:
    """Dogs come once an hour. An assigned job of 2 h is to be closed after 1 h from now on; what
    changed since is folded into the statistics."""
    set_knob(world, "watchdog.timeouts_period_s", 3600)
    set_knob(world, "watchdog.statistics_period_s", 3600)
    agent = WatchDog(world)
    agent.run_once()
    made = put_job(world, "assigned", "statechangetime = jedi_now() - interval '2 h'")
    set_knob(world, "timeout.assigned_s", 3600)
    assert agent.run_once() == 0
    try:
        assert make_due(lambda: statuses(world, made.task) == ["closed"])
        assert make_due(lambda: rows(world, "SELECT count(*) AS n FROM job_stats")[0].n > 0)
    finally:
        agent.timetable.shutdown()


def test_the_mover_tries_at_once(world: World) -> None:
    """Without that it waits for 30 s."""
    made = assigned_jobs(world, 1, missing=1)
    mover = Mover(world)
    mover.run_once()
    world.ddm.path(B, f"test:{made.task}.input", f"input.{made.jobs[0]}.2").write_bytes(b"abc")
    mover.run_once()
    assert statuses(world, made.task) == ["assigned"]
    set_knob(world, "mover.patience_s", 5)
    mover.run_once()
    assert statuses(world, made.task) == ["activated"]


def test_results_that_could_not_be_stored_are_tried_at_once(world: World) -> None:
    pilot = Pilot(world)
    pilot.finish()
    (job,) = pilot.made.jobs
    target = world.ddm.path(ENDPOINT, pilot.dataset("output"), f"output.{job}.1")
    target.mkdir()
    agent = adder(world)
    agent.run_once()
    target.rmdir()
    assert agent.run_once() == 0
    set_knob(world, "adder.retry_s", 5)
    assert agent.run_once() == 1
    assert pilot.statuses() == ["finished"]


def test_every_agent_hears_of_it(world: World) -> None:
    """Not in its next poll, in 60 s."""
    heard: list[float] = []
    agents: list[Any] = [JobGenerator(world), WatchDog(world)]

    def listen(wake_up: WakeUp) -> None:
        began = clock.monotonic()
        wake_up.wait(60, threading.Event())
        heard.append(clock.monotonic() - began)

    calls = [WakeUp(world.engine, agent.wakes) for agent in agents]
    with calls[0] as one, calls[1] as other:
        threads = [threading.Thread(target=listen, args=[wake_up]) for wake_up in (one, other)]
        for thread in threads:
            thread.start()
        set_knob(world, "agent.poll_s", 3)
        for thread in threads:
            thread.join()
    assert all(seconds < 30 for seconds in heard)


def test_no_change_no_haste(world: World) -> None:
    """A dog whose knobs are as they were keeps to its period."""
    agent = WatchDog(world)
    while agent.run_once():
        pass
    before = {job.id: job.next_run_time for job in agent.timetable.get_jobs()}
    agent.run_once()
    assert {job.id: job.next_run_time for job in agent.timetable.get_jobs()} == before
    agent.timetable.shutdown()
