"""The agent EventService: ends of consumers, their ranges, merge jobs and job sets.

Expected values: JEDI document, "Final status of Event Service jobs";
docs/reference/event-service.md.
"""

# Raw UPDATEs: a person kills one job whose pilot has not asked since.

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.calls import call
from support.commanding import ask, cycle, files, sound, status
from support.dogs import run as run_dog
from support.event_sets import (
    EventPilot,
    events_task,
    range_counts,
    ranges,
    reasons,
    serve,
    set_jobs,
)
from support.generating import rows
from support.situations import make_due, pilots_ask, set_sites

from jedi.agent.base import World
from jedi.eventservice.agent import EventService
from jedi.jobdispatcher.agent import Adder
from jedi.service.jobs import job_details
from jedi.service.tasks.why import why
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import pieces


def adder(world: World) -> None:
    while Adder(world).run_once():
        pass


def merge_job(world: World, task: int) -> Any:
    query = """
SELECT j.*, p.texts FROM jedi_jobs j JOIN jedi_job_params p USING (pandaid)
WHERE jeditaskid = :t AND kind = 'es_merge' ORDER BY pandaid DESC LIMIT 1
"""
    [row] = rows(world, query, t=task)
    return row


def processed(world: World, **keys: Any) -> tuple[int, EventPilot]:
    """A task whose only consumer has processed three ranges and ended."""
    task = events_task(world, **keys)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    return task, pilot


def test_all_ranges_processed_are_merged_and_end_the_set(world: World) -> None:
    """Expected: "all event ranges were processed and ES merge jobs were generated
    (jobsubstatus=es_merge)"; "Then they go to status=finished … once corresponding ES-merge
    jobs are finished": done ranges are merged, the input is finished. Express, priority 5000,
    2000 MB."""
    task, pilot = processed(world)
    assert set_jobs(world, task, "consumer") == [("consumer", "merging", "es_merge")]
    assert range_counts(world, task) == {"done": 3}
    merge = merge_job(world, task)
    assert (merge.status, merge.site, merge.gshare, merge.priority, merge.memory_mb) == (
        "activated",
        "SITE_A",
        "Express",
        5000,
        2000,
    )
    sound(world)
    [job] = pilot.take()
    pilot.end(job)
    adder(world)
    serve(world)
    assert set_jobs(world, task) == [("es_merge", "finished", None), ("consumer", "finished", None)]
    assert range_counts(world, task) == {"merged": 3}
    assert files(world, task) == {"finished": 1}
    assert reasons(world, task) == ["es_merge", "es_merged"]
    assert reasons(world, task, "es_merge") == ["es_merge"]
    sound(world)


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [(10_000, [(1, [1]), (3, [3, 5])]), (2, [(1, [1]), (3, [3]), (3, [5])])],
)
def test_the_merge_job_asks_for_its_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int, expected: list[Any]
) -> None:
    """Each zip file is a piece, in the order of events; only done ranges are its members. An answer
    has so many ranges: with two, the second zip file is in two answers."""
    monkeypatch.setattr(pieces, "RANGES_AT_ONCE", at_once)
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    firsts = pilot.ask(job, 3)
    assert firsts == [1, 3, 5]
    pilot.process(job, [3, 5])
    pilot.process(job, [1])
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    found = pilot.pieces(merge)
    [file] = {member.split("-")[2] for one in found for member in one["members"]}
    assert [
        tuple(one[name] for name in ("lfn", "endpoint", "fsize", "adler32", "members"))
        for one in found
    ] == [
        (
            f"{job.panda_id}.{zip_file}.zip",
            "SITE_A_DATADISK",
            10,
            "00000001",
            [f"{task}-{job.panda_id}-{file}-{first}-10" for first in firsts],
        )
        for zip_file, firsts in expected
    ]
    place = world.ddm.pieces_where("SITE_A_DATADISK", task, job.panda_id)
    assert found[0]["path"] == f"{place}/{job.panda_id}.1.zip"
    with world.engine.begin() as tx:
        for stale in (
            ("SITE_B", merge.panda_id, 1),
            ("SITE_A", merge.panda_id, 2),
            ("SITE_A", job.panda_id, 1),
        ):
            assert pieces.page(tx, *stale) is None


def test_ranges_that_are_left_go_to_another_consumer(world: World) -> None:
    """Expected: "they were retried to run unprocessed even ranges (jobsubstatus=es_retry)";
    "new attempt, priority +1". A range without a result comes back with one attempt less."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    assert pilot.ask(job, 2) == [1, 3]
    pilot.process(job, [1])
    pilot.end(job)
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_retry"),
        ("consumer", "activated", None),
    ]
    assert ranges(world, task) == {1: [("done", 10)], 3: [("ready", 9)], 5: [("ready", 10)]}
    with world.engine.begin() as tx:
        hold = why(call(tx), task)
    assert hold.facts["consumer_end"] == "es_retry"
    assert hold.detail.endswith(
        f"Consumer {job.panda_id} (es_retry): Ranges processed: 1; left for another job: 2."
    )
    first, second = rows(
        world, "SELECT priority FROM jedi_jobs WHERE kind = 'consumer' ORDER BY pandaid"
    )
    assert second.priority == first.priority + 1
    sound(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "activated", None),
        ("consumer", "merging", "es_retry"),
        ("consumer", "merging", "es_merge"),
    ]
    sound(world)


def test_a_failed_range_gets_a_new_row_and_a_spared_one_keeps_its_attempts(world: World) -> None:
    """Expected: "failed → copied as a new ready row with attemptNr−1"; "attemptnr−1 unless rule
    XF"."""
    task = events_task(world, decAttOnFailedES=True)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 3)
    pilot.process(job, [1])
    pilot.process(job, [3], "failed")
    pilot.end(job)
    serve(world)
    assert ranges(world, task) == {
        1: [("done", 10)],
        3: [("failed", 10), ("ready", 9)],
        5: [("ready", 10)],
    }
    sound(world)


def test_no_progress_is_inaction_and_no_range_is_noevent(world: World) -> None:
    """Expected: "they didn't process any event ranges but were retried since the num of
    attempts didn't reach the limit (jobsubstatus=es_inaction)": merging. A job that never got a
    range is closed (es_noevent)."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 1)
    pilot.end(job)
    serve(world)
    [job] = pilot.take()
    pilot.end(job)
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_inaction"),
        ("consumer", "closed", "es_noevent"),
        ("consumer", "activated", None),
    ]
    assert reasons(world, task) == ["es_inaction", "es_noevent"]
    sound(world)


def test_while_others_have_ranges_nothing_is_merged(world: World) -> None:
    """Expected: "they didn't generate ES merge jobs since other jobs were still running
    (jobsubstatus=es_wait)"; a job that no pilot had is unused (es_unused), one at its site is
    killed (es_killed)."""
    task = events_task(world, nEsConsumers=4)
    pilot = EventPilot(world)
    first, second, idle = pilot.take(3)
    pilot.process(first, pilot.ask(first, 2))
    last = pilot.ask(second, 1)
    pilot.end(first)
    serve(world)
    jobs = set_jobs(world, task, "consumer")
    assert (jobs[0], jobs[3]) == (
        ("consumer", "merging", "es_wait"),
        ("consumer", "closed", "es_unused"),
    )
    assert merge_job(world, task).status == "waiting"
    pilot.process(second, last)
    pilot.end(second)
    serve(world)
    assert [detail for _, _, detail in set_jobs(world, task, "consumer")] == [
        "es_wait",
        "es_merge",
        None,
        "es_unused",
    ]
    assert merge_job(world, task).status == "activated"
    [told] = rows(world, "SELECT kill_code FROM jedi_jobs WHERE pandaid = :j", j=idle.panda_id)
    assert told.kill_code == "es_killed"
    pilot.end(idle, "cancelled")
    serve(world)
    assert set_jobs(world, task, "consumer")[2] == ("consumer", "closed", "es_killed")
    sound(world)


def test_a_range_without_attempts_fails_the_set(world: World) -> None:
    """Expected: "ES jobs have status=failed when the number of attempts for some event ranges
    reached the limit": the inputs are tried again, what waited is es_merge_failed."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.end(first)
    pilot.process(second, pilot.ask(second, 1), "fatal")
    pilot.process(second, pilot.ask(second, 9))
    serve(world)
    pilot.end(second)
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "failed", None),
        ("consumer", "failed", "es_merge_failed"),
        ("consumer", "failed", None),
    ]
    assert merge_job(world, task).error_code == "es_ranges_failed"
    assert range_counts(world, task) == {"discarded": 2, "failed": 1}
    assert files(world, task) == {"ready": 1}
    sound(world)


def test_a_task_that_allows_it_does_without_a_range(world: World) -> None:
    """Expected: "failed → fatal: no attempts left and partial finish accepted (AP)"; the others
    are merged."""
    task = events_task(world, allowPartialFinish=True)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 3)
    pilot.process(job, [1, 5])
    pilot.process(job, [3], "fatal")
    pilot.end(job)
    serve(world)
    assert range_counts(world, task) == {"done": 2, "fatal": 1}
    [job] = pilot.take()
    pilot.end(job)
    adder(world)
    serve(world)
    assert range_counts(world, task) == {"merged": 2, "fatal": 1}
    sound(world)


def test_jobs_without_progress_use_up_their_attempts(world: World) -> None:
    """Expected: "job attempts used up: failed if last consumer"; maxAttemptEsJob 1: one job may
    follow."""
    task = events_task(world, maxAttemptEsJob=1)
    pilot = EventPilot(world)
    for _ in range(2):
        [job] = pilot.take()
        pilot.ask(job, 1)
        pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
        serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "failed", None),
        ("consumer", "failed", "pilot_failed"),
        ("consumer", "failed", "pilot_failed"),
    ]
    assert merge_job(world, task).error_code == "es_attempts"
    assert range_counts(world, task) == {"cancelled": 3}
    sound(world)


def test_inputs_of_consumers_of_one_cause_are_retried(world: World) -> None:
    """A retry of a cause means its inputs alone. Inputs name the job that waits as their user, so a
    consumer's cause means the inputs of its job set."""
    task = events_task(world, maxAttemptEsJob=0, maxAttempt=1)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 1)
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    cycle(world)
    assert files(world, task) == {"failed": 1}
    ask(world, task, "retry", like_job=job.panda_id)
    cycle(world)
    assert files(world, task) == {"ready": 1}
    sound(world)


def test_without_a_queue_the_set_fails(world: World) -> None:
    """Expected: "no ES queue online: failed"."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 1))
    pilot.end(job)
    set_sites(world, "SITE_A", status="offline")
    serve(world)
    assert set_jobs(world, task) == [("es_merge", "failed", None), ("consumer", "failed", None)]
    assert reasons(world, task) == ["es_no_queue"]
    sound(world)


def test_a_lost_consumer_is_judged_by_what_it_processed(
    world: World, at: Callable[[float], None]
) -> None:
    """Expected: "heartbeat was lost without successful event ranges
    (jobsubstatus=es_heartbeat)": failed; with some it is merging, es_retry."""
    at(0)
    pilots_ask(world)
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.ask(second, 1)
    at(3 * 3600)
    run_dog(world, "timeouts")
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_retry"),
        ("consumer", "failed", "es_heartbeat"),
        ("consumer", "activated", None),
        ("consumer", "activated", None),
    ]
    assert ranges(world, task) == {1: [("done", 10)], 3: [("ready", 9)], 5: [("ready", 10)]}
    sound(world)


def test_a_consumer_whose_pilot_died_is_judged_by_what_it_processed(world: World) -> None:
    """Expected: "merging: they processed some event ranges and were retried to run unprocessed ones
    (jobsubstatus=es_retry)", "heartbeat was lost without successful event ranges
    (jobsubstatus=es_heartbeat)": it does not matter who notices the death."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.ask(second, 1)
    ends = [
        JobEnd(job.panda_id, "failed", "lost_pilot", "It was killed.", job.lock_seq, "pilot")
        for job in (first, second)
    ]
    with world.engine.begin() as tx:
        job_ends.end_lost(tx, ends, [end.panda_id for end in ends], "Submitter")
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_retry"),
        ("consumer", "failed", "es_heartbeat"),
        ("consumer", "activated", None),
        ("consumer", "activated", None),
    ]
    assert ranges(world, task) == {1: [("done", 10)], 3: [("ready", 9)], 5: [("ready", 10)]}
    sound(world)


def test_the_end_of_a_held_consumer_waits(world: World) -> None:
    """A person holds it after its pilot reported: it is judged after its release, and followed
    once."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 1))
    pilot.end(job)
    with world.engine.begin() as tx:
        job_details.hold(tx, "anna", [job.panda_id], None)
    serve(world)
    assert set_jobs(world, task, "consumer") == [("consumer", "holding", None)]
    with world.engine.begin() as tx:
        job_details.release(tx, "anna", [job.panda_id], None)
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_retry"),
        ("consumer", "activated", None),
    ]
    sound(world)


def test_an_unused_consumer_is_tried_elsewhere(world: World, at: Callable[[float], None]) -> None:
    """Expected: "they were killed before being dispatched to WN (jobsubstatus=es_unused)": one
    that waited too long for a pilot costs no attempt, and another one follows."""
    at(0)
    pilots_ask(world)
    task = events_task(world, maxAttemptEsJob=0)
    at(30 * 86400)
    run_dog(world, "timeouts")
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "waiting", None),
        ("consumer", "closed", "es_unused"),
        ("consumer", "activated", None),
    ]
    sound(world)


def test_consumers_whose_input_never_comes_use_up_attempts(world: World) -> None:
    """An input that is lost fails each consumer before a pilot has it: after the attempts of
    maxAttemptEsJob the set fails, and its input goes back to the broker."""
    task = events_task(world, maxAttemptEsJob=1)
    for n in range(1, 3):
        [job] = rows(
            world, "SELECT pandaid FROM jedi_jobs WHERE kind = 'consumer' AND status = 'activated'"
        )
        lacking = JobEnd(job.pandaid, "failed", "transfer_failed", "It is lost.", None, "jedi")
        with world.engine.begin() as tx:
            job_ends.end_jobs(tx, [lacking], "Mover")
        serve(world)
        merge = ("es_merge", "waiting" if n == 1 else "failed", None)
        rest = [("consumer", "activated", None)] if n == 1 else []
        assert set_jobs(world, task) == [merge, *[("consumer", "failed", None)] * n, *rest]
    assert files(world, task) == {"ready": 1}
    sound(world)


def test_a_merge_that_fails_is_tried_three_times(world: World) -> None:
    """Three merge jobs, one after the other; then the consumers are failed, es_merge_failed,
    and the inputs are tried again. Each takes over the inputs and outputs; done ranges stay
    done."""
    task, pilot = processed(world)
    for n in range(3):
        assert range_counts(world, task) == {"done": 3}
        [job] = pilot.take()
        pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
        adder(world)
        sound(world)
        serve(world)
        sound(world)
        if n < 2:
            assert files(world, task) == {"running": 1}
    assert [state for _, state, _ in set_jobs(world, task, "es_merge")] == ["failed"] * 3
    assert set_jobs(world, task, "consumer") == [("consumer", "failed", "es_merge_failed")]
    assert range_counts(world, task) == {"discarded": 3}
    assert files(world, task) == {"ready": 1}
    assert reasons(world, task)[-1] == "es_merge_failed"


def test_an_heir_merges(world: World) -> None:
    """A merge that failed once: the second job makes the outputs, and the input is finished
    once."""
    task, pilot = processed(world)
    [job] = pilot.take()
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    adder(world)
    assert [state for _, state, _ in set_jobs(world, task, "es_merge")] == ["failed", "waiting"]
    serve(world)
    [job] = pilot.take()
    pilot.end(job)
    adder(world)
    serve(world)
    assert range_counts(world, task) == {"merged": 3}
    assert files(world, task) == {"finished": 1}
    query = "SELECT reason_code FROM jedi_jobs_statuslog WHERE pandaid = :j AND status = 'waiting'"
    assert [row.reason_code for row in rows(world, query, j=job.panda_id)] == ["es_merge_again"]
    sound(world)


def test_corrupt_pieces_give_back_just_their_ranges(world: World) -> None:
    """Expected: "merge failed with corrupt-input codes → corrupted": the ranges of a damaged
    zip file are processed again, all others stay done."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 3)
    pilot.process(job, [1, 5])
    pilot.process(job, [3])
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    bad = [{"lfn": f"{job.panda_id}.3.zip", "problem": "broken"}]
    pilot.end(merge, "failed", error_code="stagein_checksum", error_diag="Bad.", bad_inputs=bad)
    adder(world)
    assert ranges(world, task) == {
        1: [("done", 10)],
        3: [("corrupted", 10), ("ready", 9)],
        5: [("done", 10)],
    }
    serve(world)
    sound(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    pilot.end(merge)
    adder(world)
    serve(world)
    assert range_counts(world, task) == {"merged": 3, "corrupted": 1}
    sound(world)


def test_killed_by_a_person_ends_the_set(world: World) -> None:
    """Expected: "ES jobs have status=cancelled when they were killed by human using the kill
    command"; done ranges are discarded, others cancelled."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.end(first)
    serve(world)
    pilot.ask(second, 1)
    ask(world, task, "kill")
    cycle(world)
    pilot.end(second, "cancelled")
    serve(world)
    make_due(world)
    cycle(world)
    assert {state for _, state, _ in set_jobs(world, task)} == {"cancelled"}
    assert range_counts(world, task) == {"discarded": 1, "cancelled": 2}
    assert status(world, task) == "aborted"
    sound(world)


def test_one_killed_consumer_leaves_its_ranges_to_others(world: World) -> None:
    """Expected: "done/finished → discarded; others → cancelled (consumer killed)": each of its
    events is processed again, by others."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.ask(first, 1)
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "UPDATE jedi_jobs SET kill_code = 'cancelled_by_user' WHERE pandaid = %s",
            (first.panda_id,),
        )
    pilot.end(first, "cancelled")
    serve(world)
    assert set_jobs(world, task, "consumer")[0] == ("consumer", "cancelled", None)
    assert ranges(world, task) == {
        1: [("discarded", 10), ("ready", 10)],
        3: [("cancelled", 10), ("ready", 10)],
        5: [("ready", 10)],
    }
    pilot.process(second, pilot.ask(second, 9))
    pilot.end(second)
    serve(world)
    assert merge_job(world, task).status == "activated"
    sound(world)


def test_when_the_set_fails_the_others_are_aborted(world: World) -> None:
    """Expected: "they were killed since associated ES jobs failed (jobsubstatus=es_aborted)";
    "all ranges failed: failed"."""
    task = events_task(world, nEsConsumers=3, allowPartialFinish=True)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 9), "fatal")
    pilot.end(first)
    serve(world)
    pilot.end(second, "cancelled")
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "failed", None),
        ("consumer", "failed", None),
        ("consumer", "closed", "es_aborted"),
        ("consumer", "closed", "es_aborted"),
    ]
    assert range_counts(world, task) == {"fatal": 3}
    assert files(world, task) == {"ready": 1}
    sound(world)


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_a_crash_loses_and_doubles_nothing(world: World, point: str) -> None:
    """A kill before or after the commit of consumers' ends: the next agent goes on from the
    rows."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(first, pilot.ask(first, 1))
    pilot.ask(second, 1)
    pilot.end(first)
    pilot.end(second, "failed", error_code="payload_exit", error_diag="It crashed.")
    assert crashed(world, point) == 137
    sound(world)
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "merging", "es_retry"),
        ("consumer", "failed", "pilot_failed"),
        ("consumer", "activated", None),
        ("consumer", "activated", None),
    ]
    assert ranges(world, task) == {1: [("done", 10)], 3: [("ready", 9)], 5: [("ready", 10)]}
    for job in pilot.take(2):
        pilot.process(job, pilot.ask(job, 1))
        pilot.end(job)
    assert crashed(world, point) == 137
    serve(world)
    [merge] = pilot.take()
    pilot.end(merge)
    adder(world)
    assert crashed(world, point) == 137
    serve(world)
    assert range_counts(world, task) == {"merged": 3}
    assert files(world, task) == {"finished": 1}
    sound(world)


def crashed(world: World, point: str) -> int:
    """An EventService in a process of its own dies at a point; its exit code."""
    environment = {
        **os.environ,
        "JEDI_HOME": str(world.settings.home),
        "JEDI_DATABASE_URL": world.settings.database_url or "",
        "JEDI_CRASH": f"eventservice:{point}",
    }
    command = [sys.executable, "-m", "jedi", "agent", "run", "EventService", "--once"]
    return subprocess.run(command, env=environment, check=False, timeout=120).returncode


def test_two_agents_at_the_same_job_set_do_its_work_once(world: World) -> None:
    """Both have claimed the ends of the same consumers: the second one finds nothing to do."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    for job in pilot.take(2):
        pilot.process(job, pilot.ask(job, 1))
        pilot.end(job)
    agents = [EventService(world), EventService(world)]
    claimed = []
    for agent in agents:
        agent.world.refresh()
        with world.engine.begin() as tx:
            items = agent.claim(tx, 10)
        claimed.append([(item, agent.work(item)) for item in items])
    for agent, results in zip(agents, claimed, strict=True):
        assert len(results) == 1
        with world.engine.begin() as tx:
            agent.apply(tx, results)
    assert [detail for _, _, detail in set_jobs(world, task, "consumer")] == [
        "es_retry",
        "es_retry",
        None,
        None,
    ]
    assert ranges(world, task) == {1: [("done", 10)], 3: [("done", 10)], 5: [("ready", 10)]}
    sound(world)
