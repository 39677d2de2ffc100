"""Ranges that are lost: a consumer is killed in merging, attempts are used up, pieces are damaged.

Expected values: JEDI document, "Final status of Event Service jobs" and "Transition of event
status"; docs/reference/event-service.md.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.commanding import files, sound
from support.event_sets import EventPilot, events_task, range_counts, ranges, serve, set_jobs
from support.generating import rows

from jedi.agent.base import World
from jedi.core.errors import Refused
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.attempt import HeldJob
from jedi.service.jobs import job_details


def adder(world: World) -> None:
    while Adder(world).run_once():
        pass


def cancel(world: World, job: HeldJob) -> None:
    """A person kills one job."""
    with world.engine.begin() as tx:
        job_details.cancel(tx, "anna", [job.panda_id], None)


def kill_code(world: World, job: HeldJob) -> str:
    [row] = rows(world, "SELECT kill_code FROM jedi_jobs WHERE pandaid = :j", j=job.panda_id)
    return str(row.kill_code)


def damaged(pilot: EventPilot, lfn: str, problem: str) -> None:
    """A merge job can't read a zip file."""
    [merge] = pilot.take()
    bad: list[dict[str, Any]] = [{"lfn": lfn, "problem": problem}]
    pilot.end(merge, "failed", error_code="stagein_checksum", error_diag="Bad.", bad_inputs=bad)


def one_range(pilot: EventPilot, job: HeldJob, how: str = "finished") -> None:
    """The job processes one range, and ends."""
    pilot.process(job, pilot.ask(job, 1), how)
    pilot.end(job)


def test_a_consumer_killed_in_merging_loses_its_pieces(world: World) -> None:
    """Expected: "discarded: the ES job was killed in the merging state after the event range had
    finished". Its ranges are processed again, and the merge job has the other pieces alone."""
    task = events_task(world)
    pilot = EventPilot(world)
    [first] = pilot.take()
    one_range(pilot, first)
    serve(world)
    [second] = pilot.take()
    cancel(world, first)
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "cancelled", None),
        ("consumer", "running", None),
    ]
    assert ranges(world, task)[1] == [("discarded", 10), ("ready", 10)]
    assert pilot.ask(second, 9) == [1, 3, 5]
    pilot.process(second, [1, 3, 5])
    pilot.end(second)
    serve(world)
    [merge] = pilot.take()
    assert [one["lfn"] for one in pilot.pieces(merge)] == [f"{second.panda_id}.1.zip"]
    sound(world)


def test_failed_ranges_of_a_consumer_killed_in_merging_are_tried_again_once(world: World) -> None:
    """It processed event 1 and failed with event 3. Others try 3 again, with nine attempts, from
    its end on; its kill in merging does not add another such range."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    assert pilot.ask(first, 2) == [1, 3]
    pilot.process(first, [1])
    pilot.process(first, [3], "failed")
    pilot.end(first)
    serve(world)
    assert pilot.ask(second, 2) == [3, 5]
    cancel(world, first)
    serve(world)
    assert ranges(world, task)[3] == [("failed", 10), ("sent", 9)]
    sound(world)


def test_another_consumer_follows_the_last_one_if_others_did_something(world: World) -> None:
    """Two consumers wait for a third one. One of them is killed, then the third one: the ranges of
    all but the other one are processed again."""
    task = events_task(world, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    one_range(pilot, first)
    one_range(pilot, second)
    serve(world)
    third, fourth = pilot.take(2)
    pilot.end(fourth)
    serve(world)
    [fifth] = pilot.take()
    for job in (third, fifth):
        cancel(world, job)
        pilot.end(job, "cancelled")
    cancel(world, first)
    serve(world)
    assert [one[1] for one in set_jobs(world, task, "consumer")] == [
        "cancelled",
        "merging",
        "cancelled",
        "closed",
        "cancelled",
        "activated",
    ]
    assert ranges(world, task) == {
        1: [("discarded", 10), ("ready", 10)],
        3: [("done", 10)],
        5: [("ready", 10)],
    }
    sound(world)


def test_killing_the_only_consumer_in_merging_cancels_the_set(world: World) -> None:
    """Expected: docs, "cancelled if it was the last consumer": nothing is left to be merged."""
    task = events_task(world)
    pilot = EventPilot(world)
    [first] = pilot.take()
    one_range(pilot, first)
    serve(world)
    [second] = pilot.take()
    cancel(world, first)
    cancel(world, second)
    pilot.end(second, "cancelled")
    serve(world)
    assert {one[1] for one in set_jobs(world, task)} == {"cancelled"}
    assert range_counts(world, task) == {"discarded": 1, "cancelled": 3}
    sound(world)


def test_a_merge_job_that_reads_the_pieces_is_cancelled_instead(world: World) -> None:
    """As for makers of other merge jobs: the merge would contain what was discarded."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    with pytest.raises(Refused, match="cancel the merge job instead"):
        cancel(world, job)
    assert range_counts(world, task) == {"done": 3}


def test_a_range_without_attempts_fails_the_set_at_once(world: World) -> None:
    """Expected: "ES jobs have status=failed when the number of attempts for some event ranges
    reached the limit"; closed when "they were killed since associated ES jobs failed
    (jobsubstatus=es_aborted)"; "failed (jobsubstatus=es_merge_failed)" after merging. Those that
    end in the same moment are aborted, too."""
    task = events_task(world, nEsConsumers=5)
    pilot = EventPilot(world)
    waits, works, ends, fails = pilot.take(4)
    one_range(pilot, waits)
    serve(world)
    last = pilot.ask(fails, 1)
    pilot.end(ends)
    pilot.process(fails, last, "fatal")
    pilot.end(fails)
    serve(world)
    assert kill_code(world, works) == "es_aborted"
    assert files(world, task) == {"ready": 1}
    pilot.end(works, "cancelled")
    serve(world)
    found = Counter(one[1:] for one in set_jobs(world, task, "consumer"))
    aborted = ("closed", "es_aborted")
    assert found == {aborted: 4, ("failed", None): 1, ("failed", "es_merge_failed"): 1}
    sound(world)


def test_a_failed_range_of_a_consumer_that_runs_is_waited_for(world: World) -> None:
    """Expected: "failed → copied as a new ready row", when its consumer has ended; so its job set
    has a range left though none is ready or in work: nothing is merged without it."""
    task = events_task(world, 4, nEsConsumers=2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.process(second, pilot.ask(second, 1), "failed")
    one_range(pilot, first)
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "waiting", None),
        ("consumer", "merging", "es_wait"),
        ("consumer", "running", None),
    ]
    pilot.end(second)
    serve(world)
    assert ranges(world, task) == {1: [("failed", 10), ("ready", 9)], 3: [("done", 10)]}
    sound(world)


@pytest.mark.parametrize("partial", [True, False])
def test_a_corrupted_range_without_attempts(world: World, partial: bool) -> None:
    """Expected: "fatal: failed with a fatal error or attempt number reached the max", where the
    task does without it: the other pieces are merged. Else the set fails."""
    task = events_task(world, maxAttemptES=1, allowPartialFinish=partial)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 3)
    pilot.process(job, [1, 5])
    pilot.process(job, [3])
    pilot.end(job)
    serve(world)
    damaged(pilot, f"{job.panda_id}.3.zip", "broken")
    adder(world)
    assert ranges(world, task)[3] == [("fatal" if partial else "corrupted", 1)]
    serve(world)
    sound(world)
    if not partial:
        assert set_jobs(world, task, "consumer") == [("consumer", "failed", "es_merge_failed")]
        assert files(world, task) == {"ready": 1}
        return
    [merge] = pilot.take()
    assert [one["lfn"] for one in pilot.pieces(merge)] == [f"{job.panda_id}.1.zip"]
    pilot.end(merge)
    adder(world)
    serve(world)
    assert range_counts(world, task) == {"merged": 2, "fatal": 1}
    sound(world)


def test_a_merge_job_speaks_for_itself(world: World) -> None:
    """Expected: "temporary codes need repeated failures": the first merge job misses a zip file;
    the second one finds it, and fails for another reason. No range is corrupted."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    damaged(pilot, f"{job.panda_id}.1.zip", "missing")
    adder(world)
    serve(world)
    [merge] = pilot.take()
    pilot.end(merge, "failed", error_code="payload_exit", error_diag="It crashed.")
    adder(world)
    assert range_counts(world, task) == {"done": 3}
    sound(world)
