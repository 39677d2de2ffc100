"""Jumbo jobs: ranges of all job sets of a task, beside co-jumbo jobs.

Expected values: JEDI document, "Jumbo jobs and co-jumbo jobs";
docs/reference/event-service.md#jumbo-jobs.
"""

# Raw statements: time passes; SITE_A reads pieces at SITE_B.

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import files, sound
from support.dogs import run as run_dog
from support.event_sets import (
    EventPilot,
    events_task,
    jumbo_jobs_task,
    look_again,
    range_counts,
    serve,
    set_jobs,
)
from support.generating import rows
from support.situations import set_sites

from jedi.agent.base import World
from jedi.core import states
from jedi.eventservice.agent import EventService
from jedi.eventservice.jumbo_jobs import (
    JUMBO_OUTCOMES,
    JumboNeed,
    JumboPlace,
    judge_jumbo,
    next_jumbos,
    refusal,
    size_at,
)
from jedi.eventservice.outcome import ConsumerFacts
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.attempt import HeldJob
from jedi.service.tasks.why import why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.jobs.jobs import LOCK_JOBS


def jumbo_task(world: World, files: int = 2, jumbos: int = 1, **keys: Any) -> int:
    """A task of job sets of three ranges, each with a co-jumbo job at SITE_A; jumbo jobs wait at
    SITE_B."""
    task = jumbo_jobs_task(world, "online", files=files, nJumboJobs=jumbos, **keys)
    assert run_dog(world, "jumbo_jobs") == {"added": 1}
    serve(world)
    return task


def ended(world: World, task: int) -> None:
    """JEDI merges what is to be merged, at any site."""
    for site in ("SITE_A", "SITE_B"):
        waiting = rows(
            world,
            "SELECT pandaid FROM jedi_jobs WHERE kind = 'es_merge' "
            "AND status = 'activated' AND site = :s",
            s=site,
        )
        pilot = EventPilot(world, site)
        for job in pilot.take(len(waiting)) if waiting else ():
            pilot.end(job)
    while Adder(world).run_once():
        pass
    serve(world)


def jumbo_at_work(world: World, task: int) -> tuple[EventPilot, HeldJob]:
    """A pilot that has the task's jumbo job."""
    pilot = EventPilot(world, "SITE_B")
    [job] = pilot.take()
    assert set_jobs(world, task, "jumbo")[-1][:2] == ("jumbo", "running")
    return pilot, job


def test_one_jumbo_job_a_site_from_the_jumbo_jobs_of_the_task() -> None:
    """Expected: "one jumbo job is generated for each PQ which has useJumbo"; so many of the task
    (nJumboJobs) and at a site (maxJumboPerSite)."""
    assert next_jumbos(["A", "B", "C"], [], 2, 1) == ["A", "B"]
    assert next_jumbos(["A", "B", "C"], ["A"], 2, 1) == ["B"]
    assert next_jumbos(["A", "B", "C"], ["A", "B"], 2, 1) == []
    assert next_jumbos(["A", "B"], [], 9, 1) == ["A", "B"]
    assert next_jumbos(["A", "B"], ["B"], 5, 2) == ["A", "A", "B"]
    assert next_jumbos([], [], 5, 2) == []


@pytest.mark.parametrize(
    ("change", "need", "code"),
    [
        ({}, {}, None),
        ({"releases": "22.0"}, {}, "jumbo_release"),
        ({"releases": "22.0", "status": "offline"}, {}, "jumbo_offline"),
        ({"joins": False}, {}, "jumbo_merge"),
        ({"memory_mb": 15_999}, {}, "jumbo_memory"),
        ({"memory_mb": 0}, {"memory_mb": 10**6}, None),
        ({"min_events": 101}, {}, "jumbo_min_events"),
        ({"min_events": 100}, {}, None),
    ],
)
def test_a_site_that_cannot_run_a_jumbo_job_is_left_out(
    change: dict[str, Any], need: dict[str, Any], code: str | None
) -> None:
    """A jumbo job takes a whole slot: of 8 cores here, so 8 x 2000 MB where a consumer asks 4000 MB
    for 2 cores. Sites say how many events it takes to begin (minEventsForJumbo)."""
    place = JumboPlace("S", "21.0", "", 8, 16_000, 0, "online", True)._replace(**change)
    asked = JumboNeed("21.0", 100, 2, 4000)._replace(**need)
    found = refusal(place, asked)
    assert (found and found[0]) == code
    assert size_at(place, asked) == (8, place.memory_mb or 4_000_000)


def test_a_jumbo_job_is_as_large_as_a_slot_of_its_site(world: World) -> None:
    """Expected: co-jumbo jobs and jumbo jobs are "consumers with different sizes": a slot at SITE_B
    has 8 cores and 16000 MB."""
    set_sites(world, "SITE_B", corecount=8, maxrss=16_000)
    task = jumbo_task(world)
    found = rows(
        world,
        "SELECT cores, memory_mb FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'jumbo'",
        t=task,
    )
    assert [tuple(row) for row in found] == [(8, 16_000)]
    sound(world)


def test_why_says_that_no_site_can_run_a_jumbo_job(world: World) -> None:
    """SITE_B takes jumbo jobs for 100 events or more, the task has 12."""
    task = jumbo_jobs_task(world, "online", files=2)
    few = {"useJumboJobs": True, "minEventsForJumbo": 100}
    set_sites(world, "SITE_B", catchall=few)
    assert run_dog(world, "jumbo_jobs") == {}
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert found.facts["jumbo_lack"] == ["jumbo_min_events"]
    assert "SITE_B takes jumbo jobs for 100 events or more" in found.detail
    assert "12 are ready" in found.detail
    set_sites(world, "SITE_B", catchall={**few, "minEventsForJumbo": 12})
    assert run_dog(world, "jumbo_jobs") == {"added": 1}


def test_no_jumbo_job_goes_where_the_broker_refuses(world: World) -> None:
    """SITE_B has had no pilot for long: the task gets none, and `why` says so
    (docs/reference/event-service.md#jumbo-jobs)."""
    task = jumbo_jobs_task(world, "online", files=2)
    set_sites(world, "SITE_B", lastpilot="2020-01-01")
    assert run_dog(world, "jumbo_jobs") == {}
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert found.facts["jumbo_lack"] == ["jumbo_refused"]
    assert "The broker refuses SITE_B: the last pilot was seen " in found.detail
    set_sites(world, "SITE_B", lastpilot=None)
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert "The broker refuses SITE_B: no pilot was ever seen." in found.detail


def test_jumbo_jobs_go_to_free_slots_not_to_the_first_name(world: World) -> None:
    """Both sites take jumbo jobs, and jobs wait at SITE_A: SITE_B gets the jumbo job; when no pilot
    has taken it in time, SITE_A gets the next one."""
    task = jumbo_jobs_task(world, "online", files=2)
    set_sites(world, "SITE_A", catchall={"useJumboJobs": True})
    assert run_dog(world, "jumbo_jobs") == {"added": 1}
    jumbos = "SELECT site FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'jumbo' ORDER BY pandaid"
    assert [row.site for row in rows(world, jumbos, t=task)] == ["SITE_B"]
    serve(world)
    with world.engine.begin() as tx:
        knobs.put(tx, "watchdog.merging_timeout_s", 0, "op")
    world.refresh()
    assert run_dog(world, "timeouts") == {"not_taken": 1}
    serve(world)
    assert run_dog(world, "jumbo_jobs") == {"added": 1}
    assert [row.site for row in rows(world, jumbos, t=task)] == ["SITE_B", "SITE_A"]


@pytest.mark.parametrize(
    ("facts", "target", "substatus", "code"),
    [
        (ConsumerFacts(made=2), "finished", None, "es_jumbo"),
        (ConsumerFacts(made=2, result="lost"), "finished", None, "es_jumbo"),
        (ConsumerFacts(), "closed", "es_noevent", "es_noevent"),
        (ConsumerFacts(result="lost"), "failed", "es_heartbeat", "es_heartbeat"),
        (ConsumerFacts(result="failed"), "failed", "pilot_failed", "pilot_failed"),
        (ConsumerFacts(kill_code="killed", made=2), "cancelled", None, "killed"),
        (ConsumerFacts(kill_code="es_unused"), "closed", "es_unused", "es_unused"),
        (ConsumerFacts(kill_code="reassigned"), "closed", None, "reassigned"),
        (ConsumerFacts("closed", dispatched=False), None, "es_unused", ""),
        (ConsumerFacts("failed"), None, None, ""),
    ],
)
def test_ends(facts: ConsumerFacts, target: str, substatus: str, code: str) -> None:
    """A row each of docs/reference/event-service.md#jumbo-jobs."""
    assert judge_jumbo(facts)[:3] == (target, substatus, code)
    assert len(JUMBO_OUTCOMES) == 9


def test_no_jumbo_job_where_its_pieces_cannot_be_merged(world: World) -> None:
    """No site reads the storage of both: pieces at SITE_B would never be merged with those at
    SITE_A."""
    set_sites(world, "SITE_B", catchall={"useJumboJobs": True})
    task = events_task(world, site=None, includedSite="SITE_A", inFilePosEvtNum=True, nJumboJobs=1)
    assert run_dog(world, "jumbo_jobs") == {}
    assert set_jobs(world, task, "jumbo") == []


def test_a_job_set_waits_for_its_merge_from_the_end_of_the_jumbo_job(
    world: World,
) -> None:
    """Its co-jumbo job ended an hour before the jumbo job that had its last ranges: the time-out of
    waiting merges (30 min) begins with the end of the latter, and the EventService looks at the set
    at once. Raw: time passes."""
    task = jumbo_task(world, files=1)
    jumbo, big = jumbo_at_work(world, task)
    jumbo.ask(big, 2)
    small = EventPilot(world)
    [one] = small.take()
    small.process(one, small.ask(one, 1))
    small.end(one)
    serve(world)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_consumers SET settled_at = settled_at - interval '1 hour'"))
        tx.execute(
            text(
                "UPDATE jedi_jobs SET statechangetime = statechangetime - interval '1 hour'"
                " WHERE kind = 'es_merge'"
            )
        )
    jumbo.end(big)  # without a result of its ranges
    serve(world)
    run_dog(world, "timeouts")
    assert set_jobs(world, task, "es_merge") == [("es_merge", "waiting", None)]
    assert range_counts(world, task) == {"done": 1, "ready": 2}
    assert set_jobs(world, task, "co_jumbo")[-1][1] == "activated"


def test_a_jumbo_job_processes_ranges_of_all_job_sets(world: World) -> None:
    """Expected: "Each jumbo job can process any events in the task across all jobsets"; "When
    jumbo jobs process events, those events go to finished state … jumbo jobs don't change event
    status to done when they are finished". It has the inputs of all job sets."""
    task = jumbo_task(world)
    assert [kind for kind, *_ in set_jobs(world, task)] == [
        "es_merge",
        "es_merge",
        "co_jumbo",
        "co_jumbo",
        "jumbo",
    ]
    pilot, job = jumbo_at_work(world, task)
    inputs = [file for file in job.files if file.type == "input"]
    assert [file.endpoint for file in inputs] == ["SITE_B_DATADISK"] * 2  # brought there
    pilot.process(job, pilot.ask(job, 3))
    assert pilot.ask(job, 3) == [1, 3, 5]  # of the other file
    assert range_counts(world, task) == {"finished": 3, "sent": 3}
    pilot.end(job)
    serve(world)
    assert range_counts(world, task) == {"finished": 3, "ready": 3}
    assert set_jobs(world, task, "jumbo") == [("jumbo", "finished", None)]
    sound(world)


def test_the_end_of_a_co_jumbo_job_makes_ranges_done_and_starts_the_merge(world: World) -> None:
    """Expected: "Those events are changed to done when co-jumbo jobs are finished … Then co-jumbo
    jobs generate merge jobs similarly as conventional event service jobs"."""
    task = jumbo_task(world, files=1)
    jumbo, big = jumbo_at_work(world, task)
    small = EventPilot(world)
    [one] = small.take()
    jumbo.process(big, jumbo.ask(big, 2))
    small.process(one, small.ask(one, 9))
    small.end(one)
    serve(world)
    assert range_counts(world, task) == {"done": 3}
    assert set_jobs(world, task) == [
        ("es_merge", "activated", None),
        ("co_jumbo", "merging", "es_merge"),
        ("jumbo", "running", None),
    ]
    ended(world, task)
    assert range_counts(world, task) == {"merged": 3}
    assert files(world, task) == {"finished": 1}
    jumbo.end(big)
    serve(world)
    assert set_jobs(world, task, "jumbo") == [("jumbo", "finished", None)]
    sound(world)


def test_merge_jobs_speak_for_their_own_sets(world: World) -> None:
    """A zip file of a jumbo job has ranges of two job sets. The merge job of the first one finds it
    damaged, that of the second one fails for another reason. Expected: "gives back just their
    ranges": those of the first job set."""
    task = jumbo_task(world)
    jumbo, big = jumbo_at_work(world, task)
    for _ in range(2):  # the same name, size and checksum: one zip file
        jumbo.process(big, jumbo.ask(big, 3))
    jumbo.end(big)
    small = EventPilot(world)
    for one in small.take(2):
        small.end(one)
    serve(world)
    [spoilt] = rows(world, "SELECT lfn FROM jedi_event_zips")
    first, second = jumbo.take(2)
    bad = [{"lfn": spoilt.lfn, "problem": "broken"}]
    jumbo.end(first, "failed", error_code="stagein_checksum", error_diag="Bad.", bad_inputs=bad)
    jumbo.end(second, "failed", error_code="payload_exit", error_diag="It crashed.")
    while Adder(world).run_once():
        pass
    counts = rows(
        world,
        "SELECT e.jobsetid, e.status, count(*) AS n FROM jedi_events e GROUP BY 1, 2 ORDER BY 1, 2",
    )
    one, other = sorted({row.jobsetid for row in counts})
    code = states.EVENT_CODES
    assert [tuple(row) for row in counts] == [
        (one, code["ready"], 3),
        (one, code["corrupted"], 3),
        (other, code["done"], 3),
    ]
    sound(world)


def test_ends_of_jumbo_jobs_lock_jobs_before_job_sets(world: World) -> None:
    """An EventService that ends a jumbo job and a job set at once waits for the jumbo job before it
    has a job set: whoever has the one gets the other, too. Expected: locks are taken in one order,
    jobs, job sets, datasets."""
    task = jumbo_task(world, files=1)
    jumbo, big = jumbo_at_work(world, task)
    jumbo.ask(big, 1)
    small = EventPilot(world)
    [one] = small.take()
    small.end(one)
    jumbo.end(big)
    agent = EventService(world)
    agent.world.refresh()
    with world.engine.begin() as tx:
        results = [(item, agent.work(item)) for item in agent.claim(tx, 9)]
    assert [item.jumbo for item, _ in results] == [False, True]

    def settle() -> None:
        with world.engine.begin() as tx:
            agent.apply(tx, results)

    with ThreadPoolExecutor(1) as other, world.engine.begin() as tx:
        LOCK_JOBS.run(tx, ids=[big.panda_id])
        late = other.submit(settle)
        while not rows(world, "SELECT FROM pg_locks WHERE NOT granted"):
            assert not late.done()
        tx.execute(text("SELECT FROM jedi_jobsets FOR NO KEY UPDATE NOWAIT"))
        tx.commit()
        late.result(timeout=30)
    assert set_jobs(world, task, "jumbo") == [("jumbo", "closed", "es_noevent")]
    serve(world)
    sound(world)


def test_a_job_set_waits_for_ranges_of_a_jumbo_job(world: World) -> None:
    """The last co-jumbo job ends while the jumbo job has a range: the merge starts when the jumbo
    job has processed it, though nobody else serves the job set."""
    task = jumbo_task(world, files=1)
    jumbo, big = jumbo_at_work(world, task)
    small = EventPilot(world)
    [one] = small.take()
    held = jumbo.ask(big, 1)
    small.process(one, small.ask(one, 9))
    small.end(one)
    serve(world)
    assert set_jobs(world, task, "co_jumbo") == [("co_jumbo", "merging", "es_wait")]
    assert serve(world) == 0
    jumbo.process(big, held)
    look_again(world)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "activated", None)]
    assert range_counts(world, task) == {"done": 3}
    sound(world)


def test_the_end_of_a_jumbo_job_starts_the_merges_that_waited_for_it(world: World) -> None:
    """Its co-jumbo job ended while the jumbo job had a range. The jumbo job processes it and ends:
    the EventService looks at the job set at once, not only when `eventservice.retry_s` is over."""
    task = jumbo_task(world, files=1)
    jumbo, big = jumbo_at_work(world, task)
    small = EventPilot(world)
    [one] = small.take()
    held = jumbo.ask(big, 1)
    small.process(one, small.ask(one, 9))
    small.end(one)
    serve(world)
    jumbo.process(big, held)
    jumbo.end(big)
    serve(world)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "activated", None)]
    assert range_counts(world, task) == {"done": 3}
    sound(world)


@pytest.mark.parametrize(("takes", "site"), [(True, "SITE_B"), ("only", "SITE_A")])
def test_merges_leave_queues_of_jumbo_jobs_alone(world: World, takes: object, site: str) -> None:
    """All pieces are at SITE_B. If that is a queue of jumbo jobs alone, these may keep its slots
    for days: the merge runs at SITE_A, which reads the pieces from afar."""
    task = jumbo_task(world, files=1)
    set_sites(world, "SITE_B", catchall={"useJumboJobs": takes})
    jumbo, big = jumbo_at_work(world, task)
    jumbo.process(big, jumbo.ask(big, 3))
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    serve(world)
    merges = "SELECT site, status FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'es_merge'"
    assert rows(world, merges, t=task) == [(site, "activated")]
    sound(world)


def test_ranges_of_a_dead_jumbo_job_return_to_their_job_sets(world: World) -> None:
    """Ranges in sent or running come back ready, failed ones get a new row; a job set that nobody
    serves gets a consumer, and the task its next jumbo job, up to three that process nothing."""
    task = jumbo_task(world, files=1)
    small = EventPilot(world)
    [one] = small.take()
    for nth in range(3):
        jumbo, big = jumbo_at_work(world, task)
        got = jumbo.ask(big, 3)
        if not nth:
            jumbo.process(big, got[:1], "failed")
        if nth == 1:
            small.end(one)  # it got nothing
            serve(world)
            assert set_jobs(world, task, "co_jumbo") == [("co_jumbo", "closed", "es_inaction")]
        jumbo.end(big, "failed", error_code="payload_exit")
        serve(world)
        assert range_counts(world, task)["ready"] == 3
        assert run_dog(world, "jumbo_jobs") == ({"added": 1} if nth < 2 else {})
        serve(world)
    assert set_jobs(world, task, "jumbo") == [("jumbo", "failed", "pilot_failed")] * 3
    with world.engine.begin() as tx:
        assert why(call(tx), task).facts["jumbo_lack"] == ["jumbo_tries"]
    look_again(world)
    assert set_jobs(world, task, "co_jumbo")[1:] == [("co_jumbo", "activated", None)]
    sound(world)


def test_the_sweep_ends_co_jumbo_jobs_whose_events_are_processed(world: World) -> None:
    """Expected: "A cron hourly checks co-jumbo jobs in waiting/assigned/activated state and
    finishes them if all events in corresponding jobsets are done. Then co-jumbo jobs generate merge
    jobs"."""
    task = jumbo_task(world)
    jumbo, big = jumbo_at_work(world, task)
    assert run_dog(world, "co_jumbo") == {}
    jumbo.process(big, jumbo.ask(big, 3))
    held = jumbo.ask(big, 3)
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    jumbo.process(big, held)
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    serve(world)
    assert set_jobs(world, task, "co_jumbo") == [("co_jumbo", "closed", "es_unused")] * 2
    assert range_counts(world, task) == {"done": 6}
    ended(world, task)
    assert files(world, task) == {"finished": 2}
    sound(world)


def test_a_jumbo_job_that_no_pilot_has_is_closed_when_no_events_are_left(world: World) -> None:
    """Jumbo jobs without work use no slot; the task gets no other one."""
    task = jumbo_task(world)
    small = EventPilot(world)
    for one in small.take(2):
        small.process(one, small.ask(one, 9))
        small.end(one)
    serve(world)
    assert run_dog(world, "jumbo_jobs") == {"closed": 1}
    serve(world)
    assert set_jobs(world, task, "jumbo") == [("jumbo", "closed", "es_unused")]
    ended(world, task)
    assert Counter(status for _, status, _ in set_jobs(world, task, "es_merge")) == {"finished": 2}
    sound(world)


def test_a_task_that_names_its_site_has_no_jumbo_jobs(world: World) -> None:
    """Expected: "This machinery is disabled if the task sets the site parameter"."""
    set_sites(world, "SITE_A", catchall={"useJumboJobs": True})
    task = events_task(world, nJumboJobs=1)
    assert run_dog(world, "jumbo_jobs") == {}
    assert [kind for kind, *_ in set_jobs(world, task)] == ["es_merge", "consumer"]


def test_why_says_that_no_site_takes_jumbo_jobs(world: World) -> None:
    """A task asks for jumbo jobs, but no site takes them; then one does."""
    task = events_task(world, site=None, includedSite="SITE_A", nJumboJobs=1)
    said = "No site has useJumboJobs in catchall."
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert found.facts["jumbo_lack"] == ["jumbo_no_site"]
    assert said in found.detail
    set_sites(world, "SITE_A", catchall={"useJumboJobs": True})
    with world.engine.begin() as tx:
        assert "jumbo_lack" not in why(call(tx), task).facts
    set_sites(world, "SITE_A", status="offline")
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert found.facts["jumbo_lack"] == ["jumbo_offline"]
    assert "SITE_A is offline." in found.detail and "release" not in found.detail
