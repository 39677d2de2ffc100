"""Job cloning: one of several copies of a job counts.

Source: docs/reference/event-service.md#job-cloning. Expected: "first to lock (runonce) or finish
(storeonce) wins; others closed/jc_unlock".
"""

from __future__ import annotations

import zlib
from typing import Any

from support.commanding import files, sound
from support.event_sets import EventPilot, copies_task, range_counts, reasons, serve, set_jobs
from support.generating import rows

from jedi.agent.base import World
from jedi.eventservice.agent import EventService
from jedi.model.jobs.attempt import HeldJob
from jedi.service.jobs import job_details
from jedi.service.system import check


def kill_code(world: World, job: HeldJob) -> str | None:
    [row] = rows(world, "SELECT kill_code FROM jedi_jobs WHERE pandaid = :j", j=job.panda_id)
    code: str | None = row.kill_code
    return code


def outputs(world: World) -> list[Any]:
    """The jobs and statuses of outputs."""
    query = "SELECT outpandaid, status FROM jedi_dataset_contents WHERE type = 'output'"
    return [tuple(row) for row in rows(world, query)]


def test_runonce_counts_the_first_that_starts(world: World) -> None:
    """The first copy that starts counts: one without a pilot is closed, one that runs is killed.
    It makes the outputs, and the input is finished with it."""
    task = copies_task(world, "runonce")
    pilot = EventPilot(world)
    [first] = pilot.take()
    [second] = pilot.take()
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "waiting", None),
        ("clone", "running", None),
        ("clone", "running", None),
        ("clone", "closed", "jc_unlock"),
    ]
    assert (kill_code(world, first), kill_code(world, second)) == (None, "jc_unlock")
    assert range_counts(world, task) == {"sent": 1}
    sound(world)
    pilot.end(second)  # too late
    serve(world)
    assert set_jobs(world, task)[2] == ("clone", "closed", "jc_unlock")
    pilot.end(first)
    serve(world)
    assert set_jobs(world, task)[:2] == [
        ("es_merge", "closed", "jc_unlock"),
        ("clone", "finished", None),
    ]
    assert outputs(world) == [(first.panda_id, "finished")]
    assert (files(world, task), range_counts(world, task)) == ({"finished": 1}, {"merged": 1})
    assert "jc_unlock" in reasons(world, task, "clone")
    sound(world)


def test_storeonce_counts_the_first_that_stores(world: World) -> None:
    """All copies run until one has stored its outputs; the others are killed or closed then."""
    task = copies_task(world, "storeonce")
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    serve(world)
    assert [state for _, state, _ in set_jobs(world, task, "clone")] == [
        "running",
        "running",
        "activated",
    ]
    pilot.end(second)
    serve(world)
    assert kill_code(world, first) == "jc_unlock"
    assert outputs(world) == [(second.panda_id, "finished")]
    pilot.end(first, "cancelled")
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "closed", "jc_unlock"),
        ("clone", "closed", "jc_unlock"),
        ("clone", "finished", None),
        ("clone", "closed", "jc_unlock"),
    ]
    assert (files(world, task), range_counts(world, task)) == ({"finished": 1}, {"merged": 1})
    sound(world)


def test_of_two_that_store_at_once_one_counts(world: World) -> None:
    """Two good copies in one look: the outputs exist once, and the second copy is closed."""
    task = copies_task(world, "storeonce", 2)
    pilot = EventPilot(world)
    for job in pilot.take(2):
        pilot.end(job)
    serve(world)
    assert set_jobs(world, task, "clone") == [
        ("clone", "finished", None),
        ("clone", "closed", "jc_unlock"),
    ]
    assert [state for _, state in outputs(world)] == ["finished"]
    assert files(world, task) == {"finished": 1}
    sound(world)


def test_when_the_copy_that_counts_fails_another_follows(world: World) -> None:
    """The others are gone by then: a new copy starts, and counts."""
    task = copies_task(world, "runonce", 2)
    pilot = EventPilot(world)
    [first] = pilot.take()
    serve(world)
    pilot.end(first, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    assert set_jobs(world, task, "clone") == [
        ("clone", "failed", "pilot_failed"),
        ("clone", "closed", "jc_unlock"),
        ("clone", "activated", None),
    ]
    sound(world)
    [third] = pilot.take()
    serve(world)
    pilot.end(third)
    serve(world)
    assert outputs(world) == [(third.panda_id, "finished")]
    assert files(world, task) == {"finished": 1}
    sound(world)


def test_a_failed_copy_leaves_it_to_the_others(world: World) -> None:
    """Other copies of storeonce still run: none follows the one that failed."""
    task = copies_task(world, "storeonce", 2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    pilot.end(first, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    assert set_jobs(world, task, "clone") == [
        ("clone", "failed", "pilot_failed"),
        ("clone", "running", None),
    ]
    pilot.end(second)
    serve(world)
    assert outputs(world) == [(second.panda_id, "finished")]
    sound(world)


def test_a_copy_whose_pilot_was_terminated_is_closed(world: World) -> None:
    """ "others closed": it stored nothing, so that the end of another copy must not finish it."""
    task = copies_task(world, "runonce", 2)
    pilot = EventPilot(world)
    [first] = pilot.take()
    serve(world)
    pilot.end(first, "failed", error_code="pilot_terminated", error_diag="The batch slot ended.")
    serve(world)
    [third] = pilot.take()
    serve(world)
    pilot.end(third)
    serve(world)
    assert set_jobs(world, task, "clone") == [
        ("clone", "closed", "es_inaction"),
        ("clone", "closed", "jc_unlock"),
        ("clone", "finished", None),
    ]
    assert outputs(world) == [(third.panda_id, "finished")]
    sound(world)


def test_outputs_of_a_copy_that_was_cancelled_while_they_were_stored(world: World) -> None:
    """Outputs of copies have the same names. By hand: those that a copy left, because somebody
    cancelled it after they were stored, give way to those of the copy that follows."""
    task = copies_task(world, "runonce", 2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    serve(world)
    assert kill_code(world, second) == "jc_unlock"
    pilot.end(first)
    agent = EventService(world)
    agent.world.refresh()
    with world.engine.begin() as tx:
        claimed = agent.claim(tx, 100)
    results = [(item, agent.work(item)) for item in claimed]
    with world.engine.begin() as tx:
        job_details.cancel(tx, "anna", [first.panda_id], None)
    with world.engine.begin() as tx:
        agent.apply(tx, results)  # and dies before it tidies up
    pilot.end(second, "cancelled")
    serve(world)
    assert set_jobs(world, task, "clone")[0] == ("clone", "cancelled", None)
    [next_one] = pilot.take()
    serve(world)
    pilot.end(next_one)
    serve(world)
    assert outputs(world) == [(next_one.panda_id, "finished")]
    assert files(world, task) == {"finished": 1}
    with world.engine.begin() as tx:
        assert [one for one in check.check(tx, world.ddm) if one.violations] == []


def test_a_copy_keeps_its_outputs_when_an_agent_dies(world: World) -> None:
    """A copy that was cancelled made the same as the one that counts. By hand: an agent dies after
    it stored the outputs, and the next one finds them."""
    task = copies_task(world, "runonce", 2)
    pilot = EventPilot(world)
    first, second = pilot.take(2)
    serve(world)
    pilot.end(first)
    with world.engine.begin() as tx:
        job_details.cancel(tx, "anna", [first.panda_id], None)
    pilot.end(second, "cancelled")
    serve(world)
    [next_one] = pilot.take()
    serve(world)
    pilot.end(next_one)
    with world.engine.begin() as tx:  # Raw: both copies made the same
        tx.exec_driver_sql(
            "UPDATE jedi_job_files f SET fsize = n.fsize, checksum = n.checksum "
            "FROM jedi_job_files n WHERE f.pandaid = %s AND n.pandaid = %s "
            "AND f.type = 'output' AND n.type = 'output'",
            (first.panda_id, next_one.panda_id),
        )
    for _ in range(2):
        agent = EventService(world)
        agent.world.refresh()
        with world.engine.begin() as tx:
            claimed = agent.claim(tx, 100)
        results = [(item, agent.work(item)) for item in claimed]
    with world.engine.begin() as tx:
        agent.apply(tx, results)
    serve(world)
    assert outputs(world) == [(next_one.panda_id, "finished")]
    assert files(world, task) == {"finished": 1}
    with world.engine.begin() as tx:
        assert [one for one in check.check(tx, world.ddm) if one.violations] == []


def test_an_agent_that_comes_back_late_removes_no_outputs(world: World) -> None:
    """Of two agents one stalls between its look and its work. By hand: the copy that it would store
    is cancelled, another copy counts, which made the same as one that failed before. The late agent
    removes and stores nothing."""
    task = copies_task(world, "storeonce")
    pilot = EventPilot(world)
    failed, chosen, counts = pilot.take(3)
    for job in (failed, chosen):
        pilot.end(job)
        if job is failed:
            with world.engine.begin() as tx:
                job_details.cancel(tx, "anna", [job.panda_id], None)
    made = f"made by {counts.panda_id}".encode()
    late = EventService(world)
    late.world.refresh()
    with (
        world.engine.begin() as tx
    ):  # Raw: the copy that failed made the same as the one that counts
        tx.exec_driver_sql(
            "UPDATE jedi_job_files SET fsize = %s, checksum = %s "
            "WHERE pandaid = %s AND type = 'output'",
            (len(made), f"{zlib.adler32(made):08x}", failed.panda_id),
        )
        claimed = late.claim(tx, 100)
        job_details.cancel(tx, "anna", [chosen.panda_id], None)
    pilot.end(counts)
    serve(world)
    assert outputs(world) == [(counts.panda_id, "finished")]
    results = [(item, late.work(item)) for item in claimed]
    assert [found.copy for _, found in results] == [None]
    with world.engine.begin() as tx:
        late.apply(tx, results)
    serve(world)
    assert (outputs(world), files(world, task)) == (
        [(counts.panda_id, "finished")],
        {"finished": 1},
    )
    with world.engine.begin() as tx:
        assert [one for one in check.check(tx, world.ddm) if one.violations] == []
