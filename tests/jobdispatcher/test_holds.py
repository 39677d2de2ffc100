"""Holds in pilots and after a job has run, and cancelling what is being stored."""

# Raw UPDATEs: deadlines pass; holds that a pilot asks for.

from __future__ import annotations

import pytest
from sqlalchemy import text
from support.adder import Pilot, adder, claimed
from support.calls import call
from support.commanding import OWNER, ask, cycle, running
from support.commanding import jobs as command_jobs
from support.mover import transferring_jobs
from support.statuses import statuses

from jedi.agent.base import World
from jedi.core.errors import Refused
from jedi.ddm.content import adler32
from jedi.model.jobs.wire import Beat, Resources
from jedi.mover.agent import Mover
from jedi.service.files import contents
from jedi.service.jobs import job_details
from jedi.service.system import check
from jedi.taskbuffer.jobs import dispatch
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

ME = "me"


@pytest.fixture(autouse=True)
def _sound(world: World) -> None:
    """Jobs of `make_jobs` belong to ME."""
    with world.engine.begin() as tx:
        tx.execute(text("ALTER TABLE jedi_jobs ALTER username SET DEFAULT 'me'"))


def pgi(world: World) -> list[str]:
    with world.engine.begin() as tx:
        return list(tx.scalars(text("SELECT pgi_state FROM jedi_job_states ORDER BY pandaid")))


def notes(world: World) -> list[str]:
    """The codes of a job's log."""
    with world.engine.begin() as tx:
        return list(tx.scalars(text("SELECT reason_code FROM jedi_jobs_statuslog ORDER BY log_id")))


def sound(world: World) -> None:
    with world.engine.begin() as tx:
        assert [one for one in check.check(tx) if one.violations and one.of == "job"] == []


def allow(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value) "
                "VALUES ('hold', 'sites', '\"SITE_B, SITE_A\"')"
            )
        )
    world.refresh()


def told(world: World, pilot: Pilot) -> str:
    """What a pilot is told with its heartbeat."""
    [job] = pilot.jobs
    with world.engine.begin() as tx:
        [(command, _)] = dispatch.beat(
            tx, "SITE_A", [Beat(pandaid=job.panda_id, lock_seq=job.lock_seq)]
        )
    return command


def test_held_after_it_has_run(world: World) -> None:
    """Outputs stay where the pilot laid them, and their owner may have them there."""
    pilot = Pilot(world)
    [job] = pilot.made.jobs
    with world.engine.begin() as tx:
        [one] = job_details.hold(tx, ME, [job], None, after=True)
        assert (one.hold_kind, one.hold_next) == (None, "user_request")
    pilot.finish()
    adder(world).run_once()
    adder(world).run_once()
    assert pgi(world) == ["Post-processing-Hold"]
    assert (pilot.statuses(), pilot.published("output")) == (["holding"], [])
    with world.engine.begin() as tx:
        [file] = job_details.outputs(call(tx), job)
        found = contents.of_job(call(tx, ddm=world.ddm), job, file_id=file.file_id)
    assert (found.name, found.adler32) == (file.lfn, adler32(found.path))
    assert found.path.stat().st_size == file.size
    with world.engine.begin() as tx:
        [one] = job_details.release(tx, ME, [job], None)
        assert one.pgi_state == "Post-processing"
    adder(world).run_once()
    assert (pilot.statuses(), len(pilot.published("output"))) == (["finished"], 1)
    assert notes(world)[-3:] == ["held", "released", "job_finished"]
    sound(world)


def test_a_failed_payload_is_not_held(world: World) -> None:
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None, after=True)
    pilot.tell(pilot.jobs[0], "failed", [], error_code="payload_exit")
    adder(world).run_once()
    assert (pilot.statuses(), pgi(world)) == (["failed"], ["Finished"])


def test_not_held_after_all(world: World) -> None:
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None, after=True)
        job_details.release(tx, ME, pilot.made.jobs, None)
    pilot.finish()
    adder(world).run_once()
    assert pilot.statuses() == ["finished"]


def test_what_is_held_while_it_is_added_stays(world: World) -> None:
    """The Adder has it already: what it publishes may stay, the job does not go on."""
    pilot = Pilot(world)
    pilot.finish()
    agent, taken = claimed(world)
    verdicts = [(job, agent.work(job)) for job in taken]
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None)
    with world.engine.begin() as tx:
        agent.apply(tx, verdicts)
    assert pgi(world) == ["Post-processing-Hold"]
    sound(world)
    with world.engine.begin() as tx:
        job_details.release(tx, ME, pilot.made.jobs, None)
    adder(world).run_once()
    assert (pilot.statuses(), len(pilot.published("output"))) == (["finished"], 1)


def test_the_mover_leaves_held_outputs(world: World) -> None:
    made = transferring_jobs(world, 2)
    mover = Mover(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, made.jobs[:1], None)
        loads = mover.claim(tx, 9)
    plans = [(load, mover.work(load)) for load in loads]
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, made.jobs[1:], None)  # too late for the copy, not for the job
        mover.apply(tx, plans)
    assert statuses(world, made.task) == ["transferring"] * 2
    with world.engine.begin() as tx:
        job_details.release(tx, ME, made.jobs, None)
    mover.run_once()
    assert statuses(world, made.task) == ["finished"] * 2


def test_in_a_pilot_only_where_it_is_allowed(world: World) -> None:
    pilot = Pilot(world)
    [job] = pilot.made.jobs
    with (
        world.engine.begin() as tx,
        pytest.raises(Refused, match="SITE_A does not allow held jobs"),
    ):
        job_details.hold(tx, ME, [job], None)
    allow(world)
    with world.engine.begin() as tx:
        [one] = job_details.hold(tx, ME, [job], None)
    assert one.pgi_state == "Delegated-Hold"
    assert one.hold_deadline is not None
    assert one.hold_since is not None
    assert (one.hold_deadline - one.hold_since).total_seconds() == 7200
    assert told(world, pilot) == "hold"
    with world.engine.begin() as tx:
        job_details.release(tx, ME, [job], None)
    assert (told(world, pilot), pgi(world)) == ("none", ["Delegated"])


def test_a_hold_in_a_pilot_changes_no_plan(world: World) -> None:
    allow(world)
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None, after=True)
        job_details.hold(tx, ME, pilot.made.jobs, None)
        job_details.release(tx, ME, pilot.made.jobs, None)
    pilot.finish()
    adder(world).run_once()
    assert pgi(world) == ["Post-processing-Hold"]


def test_a_payload_that_ends_before_it_hears_of_its_hold(world: World) -> None:
    allow(world)
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None)
    pilot.finish()
    assert pgi(world) == ["Post-processing"]
    adder(world).run_once()
    assert pilot.statuses() == ["finished"]
    assert notes(world)[-4:] == ["held", "reported", "released", "job_finished"]
    sound(world)


def test_a_slot_is_not_held_for_ever(world: World) -> None:
    """T12; a release that comes later is refused, and the pilot is told to end it."""
    allow(world)
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        job_details.hold(tx, ME, pilot.made.jobs, None)
        tx.execute(text("UPDATE jedi_jobs SET hold_deadline = jedi_now() - interval '1 s'"))
    assert walk(world, DOGS["timeouts"]) == {"hold_timeout": 1}
    assert (pilot.statuses(), pgi(world)) == (["failed"], ["Failed-Cancelled"])
    with world.engine.begin() as tx:
        held = text("SELECT count(*) FROM jedi_job_allocations WHERE released_at IS NULL")
        assert tx.scalar(held) == 0
        with pytest.raises(Refused):
            job_details.release(tx, ME, pilot.made.jobs, None)
    assert told(world, pilot) == "kill"


@pytest.mark.parametrize("held", [False, True])
def test_cancel_before_it_is_added(world: World, *, held: bool) -> None:
    pilot = Pilot(world)
    pilot.finish()
    with world.engine.begin() as tx:
        if held:
            job_details.hold(tx, ME, pilot.made.jobs, None)
        job_details.cancel(tx, ME, pilot.made.jobs, None)
    with world.engine.begin() as tx:
        job_details.tidy(tx, world.ddm, pilot.made.jobs)
    assert not pilot.staging(pilot.jobs[0]).exists()
    assert (pilot.statuses(), pgi(world)) == (["cancelled"], ["Failed-Cancelled"])
    adder(world).run_once()
    assert pilot.published("output") == []
    with world.engine.begin() as tx:
        inputs = text("SELECT DISTINCT status FROM jedi_dataset_contents WHERE type = 'input'")
        assert list(tx.scalars(inputs)) == ["ready"]
    sound(world)


def test_cancel_while_it_is_added(world: World) -> None:
    """Who published it removes it."""
    pilot = Pilot(world)
    pilot.finish()
    agent, taken = claimed(world)
    with world.engine.begin() as tx:
        job_details.cancel(tx, ME, pilot.made.jobs, None)
    verdicts = [(job, agent.work(job)) for job in taken]
    assert len(pilot.published("output")) == 1
    with world.engine.begin() as tx:
        agent.apply(tx, verdicts)
    agent.tidy(verdicts)
    assert (pilot.statuses(), pilot.published("output")) == (["cancelled"], [])


def test_cancel_while_outputs_move(world: World) -> None:
    made = transferring_jobs(world, 1)
    with world.engine.begin() as tx:
        job_details.cancel(tx, ME, made.jobs, None)
    with world.engine.begin() as tx:
        job_details.tidy(tx, world.ddm, made.jobs)
    assert world.ddm.list_files(f"test:{made.task}.output") == []
    assert statuses(world, made.task) == ["cancelled"]


def test_a_task_says_where_its_jobs_stop(world: World) -> None:
    """Before they run, and before what they made is stored: each time until it is released."""
    task = running(world, files=2, holdJobs=["manual_stage_in", "manual_stage_out"])
    made = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        assert dispatch.acquire(tx, "SITE_A", 9, Resources(cores=1), "a", "p") == []
        one = job_details.get(tx, made)[0]
        assert (one.pgi_state, one.pgi_substate) == ("Pre-processing-Hold", "Manual-Stage-In")
        job_details.release(tx, OWNER, made[:1], None)
        job_details.release(tx, OWNER, made[1:], None)
        assert {one.hold_next for one in job_details.get(tx, made)} == {"manual_stage_out"}


def test_a_killed_task_waits_for_no_release(world: World) -> None:
    """What has run goes on as it would without a hold; what a pilot has is killed."""
    task = running(world, files=2, holdJobs=["user_request"])
    first, second = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        held = dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), "a", "p")
        assert [job.panda_id for job in held] == [first]
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = 'holding', hold_kind = 'user_request' "
                "WHERE pandaid = :id"
            ),
            {"id": first},
        )
    ask(world, task, "kill")
    cycle(world)
    with world.engine.begin() as tx:
        told = {
            job.panda_id: (job.status, job.hold_kind)
            for job in job_details.get(tx, [first, second])
        }
    assert told == {first: ("holding", None), second: ("cancelled", None)}
