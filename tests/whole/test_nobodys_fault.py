"""Ends of jobs that are nobody's fault do not count against maxAttempt.

Expected: "shutdown, drain, rebrokerage, a pilot ended by its batch system's own limit or a lost
node, a lost heartbeat of the site: recorded as an attempt that does not count against maxAttempt,
up to a knob (default 10 in a row), after which it does. What counts: the payload, its data, its
limits" (docs/reference/retries-and-timeouts.md#attempts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.commanding import ask, cycle, end, files, jobs, obey, running, sound, status, take
from support.commanding import work_off as finish_all
from support.event_sets import EventPilot, events_task, range_counts, ranges, serve, set_jobs
from support.generating import generate, rows
from support.merging import make, merge_jobs, merged_at_last, task_of
from support.situations import make_due, pilots_ask

from jedi.agent.base import World
from jedi.core.faults import NOBODYS_FAULT
from jedi.core.reasons import JOBS
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.jobs import retry_rules
from jedi.taskbuffer.tasks import retrying

COUNT = (
    "payload_exit",
    "wall_limit",
    "memory_limit",
    "stagein_missing",
    "stageout_failed",
    "lost_pilot",
    "lost_heartbeat",
    "pilot_error",
    "cancelled_by_user",
)
"""Ends of the payload, its data and its limits, and others that these may have caused."""


def turn(world: World, name: str, value: Any) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, name, value, "op")
    world.refresh()


def end_all(world: World, task: int, *codes: str) -> None:
    """The jobs of a task end so, again and again."""
    for code in codes:
        pilots_ask(world)
        make_due(world)
        generate(world)
        target = {"cancelled_by_user": "cancelled"}.get(code, "failed")
        if code in NOBODYS_FAULT:
            target = "closed"
        take(world, found := jobs(world, task, "activated"))
        assert found
        end(world, found, target, code)


def inputs(world: World, task: int) -> list[tuple[Any, ...]]:
    """Status, attempts, attempts that do not count, limit and failures of inputs."""
    query = (
        "SELECT DISTINCT status, attemptnr, freeattempt, maxattempt, failedattempt "
        "FROM jedi_dataset_contents WHERE jeditaskid = :t AND type = 'input'"
    )
    return [tuple(row) for row in rows(world, query, t=task)]


def test_codes_of_faults_are_reasons() -> None:
    assert JOBS.keys() >= NOBODYS_FAULT
    assert not NOBODYS_FAULT & {*COUNT}


@pytest.mark.parametrize("code", sorted(NOBODYS_FAULT))
def test_an_end_that_is_nobodys_fault_is_a_free_attempt(world: World, code: str) -> None:
    """With maxAttempt 1 the input is tried again, and the task is done. One attempt is recorded."""
    task = running(world, 1, maxAttempt=1)
    end_all(world, task, code)
    assert inputs(world, task) == [("ready", 1, 1, 2, 0)]
    sound(world)
    assert finish_all(world, task) == "done"
    assert inputs(world, task) == [("finished", 2, 1, 2, 0)]
    sound(world)


@pytest.mark.parametrize("code", COUNT)
def test_all_other_ends_count(world: World, code: str) -> None:
    task = running(world, 1, maxAttempt=1)
    end_all(world, task, code)
    failures = code != "cancelled_by_user"
    assert inputs(world, task) == [("failed", 1, 0, 1, failures)]


def test_an_end_without_a_code_counts(world: World) -> None:
    task = running(world, 1, maxAttempt=2)
    take(world, found := jobs(world, task, "activated"))
    nothing: Any = None
    end(world, found, "failed", nothing)
    assert inputs(world, task) == [("ready", 1, 0, 2, 1)]


def test_so_many_in_a_row_are_free(world: World) -> None:
    """The knob is 2: the third end in a row counts, whatever its reason, and ends the row. With
    maxAttempt 2 the third of the next row is the last attempt."""
    assert world.knobs.attempts.most_free == 10
    turn(world, "attempts.most_free", 2)
    task = running(world, 1, maxAttempt=2)
    end_all(world, task, "shut_down", "pilot_terminated", "shut_down")
    assert inputs(world, task) == [("ready", 3, 2, 4, 0)]
    end_all(world, task, "rebrokered", "shut_down")
    assert inputs(world, task) == [("ready", 5, 4, 6, 0)]
    end_all(world, task, "shut_down")
    assert inputs(world, task) == [("failed", 6, 4, 6, 0)]


def test_any_number_may_be_free(world: World) -> None:
    turn(world, "attempts.most_free", 100_000)
    task = running(world, 1, maxAttempt=1)
    end_all(world, task, "shut_down")
    assert inputs(world, task) == [("ready", 1, 1, 2, 0)]


def test_an_end_that_counts_begins_the_row_anew(world: World) -> None:
    turn(world, "attempts.most_free", 1)
    task = running(world, 1, maxAttempt=3)
    end_all(world, task, "shut_down", "payload_exit", "shut_down", "payload_exit", "shut_down")
    assert inputs(world, task) == [("ready", 5, 3, 6, 2)]


def test_a_failure_that_is_nobodys_fault_is_none(world: World) -> None:
    """maxFailure 1: the lost node does not use it up."""
    task = running(world, 1, maxAttempt=2, maxFailure=1)
    take(world, found := jobs(world, task, "activated"))
    end(world, found, "failed", "lost_node")
    assert inputs(world, task) == [("ready", 1, 1, 3, 0)]


def test_free_attempts_do_not_throttle(world: World) -> None:
    """Expected: "the largest attemptNr in the task is a multiple of 5", of those that count. Five
    shut-downs are no sign of a bad task."""
    task = running(world, 1, maxAttempt=9)
    end_all(world, task, *["shut_down"] * 5)
    make_due(world)
    assert generate(world) == 1
    assert status(world, task) == "running"
    end_all(world, task, *["payload_exit"] * 4)
    make_due(world)
    assert generate(world) == 1
    assert status(world, task) == "throttled"


def test_rules_and_limits_count_attempts_that_count(world: World) -> None:
    """limit_retry 2 means two attempts of the payload; the cost of a file likewise; a new
    maxAttempt, too."""
    with world.engine.begin() as tx:
        rule = {
            "rule_id": 2,
            "active": True,
            "error_code": "payload_exit",
            "action": "limit_retry",
            "attempts": 2,
        }
        retry_rules.put(tx, [rule], "op")
    task = running(world, 1, maxAttempt=5)
    end_all(world, task, "shut_down", "shut_down", "payload_exit")
    assert inputs(world, task) == [("ready", 3, 2, 4, 1)]
    with world.engine.begin() as tx:
        assert retrying.spent(tx, [task])[task].file_attempts == 2
    end_all(world, task, "payload_exit")
    assert inputs(world, task) == [("failed", 4, 2, 4, 2)]


def test_a_merge_that_nobody_disturbed_is_no_attempt(world: World) -> None:
    """Pre-merge files of a merge job that a shut-down ended: three merges are still allowed."""
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    turn(world, "attempts.most_free", 4)
    for _ in range(4):
        make_due(world)
        generate(world)
        [merge] = [job.panda_id for job in merge_jobs(world, task) if job.status == "activated"]
        with world.engine.begin() as tx:
            end_jobs(tx, [JobEnd(merge, "closed", "shut_down", "Down.")], "supervisor")
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_a_task_that_is_reassigned_again_keeps_its_attempts(world: World) -> None:
    task = running(world, 1, maxAttempt=1)
    for _ in range(2):
        take(world, jobs(world, task, "activated"))
        ask(world, task, "reassign", site="SITE_A")
        cycle(world)
        assert obey(world) == 1
        make_due(world)
        cycle(world)
        assert files(world, task) == {"ready": 1}
        pilots_ask(world)
        assert generate(world) == 1
    assert inputs(world, task) == [("running", 3, 2, 3, 0)]


# ---------------------------------------------------------------------------------- events


def consume(world: World, pilot: EventPilot, made: int, **how: Any) -> None:
    """A consumer gets two ranges, processes some, and ends so."""
    [job] = pilot.take()
    first = pilot.ask(job, 2)
    if made:
        pilot.process(job, first[:made])
    if code := how.get("shut_down"):
        with world.engine.begin() as tx:
            end_jobs(tx, [JobEnd(job.panda_id, "closed", code, "Down.")], "supervisor")
    else:
        pilot.end(job, "failed", **how)
        while Adder(world).run_once():
            pass
    serve(world)


def attempts(world: World, task: int) -> Sequence[int]:
    """Attempts that ranges have left, most first."""
    found = ranges(world, task).values()
    return sorted((left for several in found for _, left in several), reverse=True)


def test_consumers_and_ranges_keep_their_attempts(world: World) -> None:
    """One attempt a range, no consumer may follow one that fails: shut-downs and an end by the site
    use up neither, and the set is merged."""
    task = events_task(world, maxAttemptES=1, maxAttemptEsJob=0)
    pilot = EventPilot(world)
    consume(world, pilot, 0, shut_down="shut_down")
    consume(world, pilot, 0, error_code="pilot_terminated", error_diag="SIGTERM")
    consume(world, pilot, 1, shut_down="shut_down")
    assert attempts(world, task) == [1, 1, 1]
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    assert range_counts(world, task) == {"done": 3}
    sound(world)


def test_consumers_in_a_row_are_limited(world: World) -> None:
    """The knob is 1: the second end without progress in a row uses up the attempt of its ranges."""
    turn(world, "attempts.most_free", 1)
    task = events_task(world, maxAttemptES=3, maxAttemptEsJob=1)
    pilot = EventPilot(world)
    consume(world, pilot, 0, shut_down="shut_down")
    assert attempts(world, task) == [3, 3, 3]
    consume(world, pilot, 0, shut_down="shut_down")
    assert attempts(world, task) == [3, 2, 2]
    consume(world, pilot, 0, shut_down="shut_down")
    assert attempts(world, task) == [3, 2, 2]
    consume(world, pilot, 0, shut_down="shut_down")
    assert [one[:2] for one in set_jobs(world, task, "es_merge")] == [("es_merge", "failed")]
    sound(world)
