"""The Adder on real files: published once, whoever dies, stalls or is faster."""

# Raw UPDATEs: deadlines pass; attributes of datasets that other plug-ins set.

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from sqlalchemy import text
from support.adder import ENDPOINT, Pilot, adder, claimed
from support.calls import call
from support.situations import lose_job

from jedi.agent.base import World
from jedi.agent.loop import Loop
from jedi.core.reasons import REASONS
from jedi.ddm.filesystem import FileSystemDDM
from jedi.jobdispatcher import agent as adders
from jedi.jobdispatcher.agent import Adder
from jedi.jobdispatcher.outcome import FINISHED, TRANSFERRING, judge, logs, stored
from jedi.model.jobs.attempt import JobFile, ReportedJob
from jedi.mover.agent import _waiting
from jedi.service.jobs import job_details as service_jobs
from jedi.service.system.check import check
from jedi.service.tasks import why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.jobs.transfers import moving_jobs


def reported(**fields: Any) -> ReportedJob:
    log = JobFile("log", "l", "s:log", "E", None, 1, "00000001", "g")
    out = JobFile("output", "o", "s:out", "E", None, 1, "00000001", "g")
    given = {
        "panda_id": 1,
        "lock_seq": 1,
        "pilot_result": "failed",
        "kill_code": None,
        "error_code": None,
        "error_diag": None,
        "site_endpoint": "E",
        "files": (out, log),
    }
    return ReportedJob(**{**given, **fields})


# ------------------------------------------------------------------------------------ the rules


@pytest.mark.parametrize(
    ("fields", "target", "code", "source"),
    [
        ({"pilot_result": "finished"}, "finished", "job_finished", None),
        ({"pilot_result": "finished", "kill_code": "killed"}, "finished", "job_finished", None),
        ({"error_code": "payload_exit"}, "failed", "payload_exit", "payload"),
        ({"error_code": "stagein_missing"}, "failed", "stagein_missing", "pilot"),
        ({"error_code": "pilot_terminated"}, "closed", "pilot_terminated", "pilot"),
        (
            {"error_code": "payload_exit", "kill_code": "task_killed"},
            "cancelled",
            "task_killed",
            "user",
        ),
        ({"pilot_result": "cancelled", "error_code": "killed"}, "cancelled", "killed", "user"),
        ({}, "failed", "no_reason", "pilot"),
    ],
)
def test_judge(fields: dict[str, Any], target: str, code: str, source: str | None) -> None:
    verdict = judge(reported(**fields))
    assert (verdict.target, verdict.code, verdict.source) == (target, code, source)


def test_an_output_that_was_not_reported_fails_the_job_by_name() -> None:
    missing = JobFile("output", "counts.txt", "s:n", "E", None, None, None, None)
    verdict = judge(reported(pilot_result="finished", files=(missing,)))
    assert (verdict.target, verdict.code) == ("failed", "output_not_reported")
    assert "counts.txt" in verdict.reason
    assert logs(reported(files=(missing,))) == []


def test_outputs_for_another_place_must_travel() -> None:
    assert stored(reported()) == FINISHED
    assert stored(reported(site_endpoint="ELSEWHERE")) == TRANSFERRING


# ------------------------------------------------------------------------------------ on files


def test_success_is_published_and_settled(world: World) -> None:
    pilot = Pilot(world, 3)
    pilot.finish()
    assert adder(world).run_once() == 3
    assert pilot.statuses() == ["finished"] * 3
    assert pilot.published("output") == [f"output.{job}.1" for job in pilot.made.jobs]
    assert pilot.published("log") == [f"log.{job}.1" for job in pilot.made.jobs]
    assert not any(pilot.staging(job).exists() for job in pilot.jobs)
    with world.engine.begin() as tx:
        rows = tx.execute(
            text("SELECT status, checksum FROM jedi_dataset_contents WHERE type = 'output'")
        )
        assert all(status == "finished" and checksum for status, checksum in rows)
    assert adder(world).run_once() == 0


def test_failure_leaves_its_log_and_nothing_else(world: World) -> None:
    pilot = Pilot(world)
    (job,) = pilot.jobs
    made = pilot.stage(job, "output", "log")
    pilot.tell(job, "failed", made, error_code="payload_exit", error_diag="Exit code 3.")
    adder(world).run_once()
    assert pilot.statuses() == ["failed"]
    assert pilot.error() == ("payload", "payload_exit", "Exit code 3.")
    assert pilot.published("output") == []
    assert len(pilot.published("log")) == 1
    assert not pilot.staging(job).exists()
    with world.engine.begin() as tx:
        inputs = tx.execute(
            text(
                "SELECT DISTINCT status, failedattempt "
                "FROM jedi_dataset_contents WHERE type = 'input'"
            )
        )
        assert inputs.all() == [("ready", 1)]


def test_outputs_for_another_endpoint_wait_for_the_mover(world: World) -> None:
    pilot = Pilot(world, destination="SITE_B_DATADISK")
    pilot.finish()
    adder(world).run_once()
    assert pilot.statuses() == ["transferring"]
    lfn = pilot.published("output")[0]
    assert world.ddm.locate(pilot.dataset("output"), [lfn]) == {lfn: [ENDPOINT]}


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_staged_file_that_is_not_as_reported_fails_the_job(world: World, damage: str) -> None:
    pilot = Pilot(world)
    pilot.finish()
    (job,) = pilot.jobs
    staged = pilot.staging(job) / f"output.{job.panda_id}.1"
    staged.write_bytes(b"x") if damage == "short" else staged.unlink()
    adder(world).run_once()
    assert pilot.statuses() == ["failed"]
    source, code, diag = pilot.error()
    assert (source, code) == (
        "jedi",
        {"missing": "staged_missing", "short": "size_differs"}[damage],
    )
    assert staged.name in diag
    assert pilot.published("output") == []
    assert len(pilot.published("log")) == 1


def test_a_job_whose_dataset_is_gone_fails_by_a_known_reason(world: World) -> None:
    pilot = Pilot(world)
    pilot.finish()
    rmtree(world.ddm.path(ENDPOINT, pilot.dataset("output"), "a").parent)
    adder(world).run_once()
    assert (pilot.statuses(), pilot.error()[1]) == (["failed"], "dataset_missing")
    assert "dataset_missing" in REASONS


@pytest.mark.long
@pytest.mark.parametrize("mount_point", [True, False], ids=["empty", "missing"])
@pytest.mark.parametrize("result", ["finished", "failed"])
def test_a_storage_that_vanishes_costs_no_attempt(
    world: World, tmp_path: Path, mount_point: bool, result: str
) -> None:
    pilot = Pilot(world)
    (job,) = pilot.jobs
    code = None if result == "finished" else "payload_exit"
    pilot.tell(job, result, pilot.stage(job, "output", "log"), error_code=code)
    root, away = pilot.staging(job).parents[1], tmp_path / "away"
    root.rename(away)
    if mount_point:
        root.mkdir()
    agent = adder(world)
    agent.run_once()
    assert pilot.statuses() == ["holding"]
    with world.engine.begin() as tx:
        (reason,) = tx.scalars(text("SELECT hold_reason FROM jedi_jobs"))
        assert f"The storage of {ENDPOINT} is not there" in reason and str(root) in reason
        tx.execute(text("UPDATE jedi_jobs SET hold_deadline = jedi_now() - interval '1 s'"))
    if mount_point:
        root.rmdir()
    away.rename(root)
    agent.run_once()
    assert pilot.statuses() == [result]
    assert len(pilot.published("log")) == 1


def test_a_storage_that_does_not_answer_holds_the_job_and_nothing_is_lost(world: World) -> None:
    pilot = Pilot(world, 2)
    pilot.finish()
    first, _ = pilot.made.jobs
    target = world.ddm.path(ENDPOINT, pilot.dataset("output"), f"output.{first}.1")
    target.mkdir()  # nothing can be renamed onto a directory
    agent = adder(world)
    assert agent.run_once() == 2
    assert pilot.statuses() == ["holding", "finished"]
    assert agent.run_once() == 0, "a job on hold is not tried at once"
    with world.engine.begin() as tx:
        held = tx.execute(text("SELECT * FROM jedi_jobs WHERE pandaid = :id"), {"id": first}).one()
        assert held.hold_kind == "failed_recoverable"
        assert target.name in held.hold_reason
        assert held.hold_deadline > held.hold_since
        assert held.hold_reason in (why.why(call(tx), pilot.made.task).detail or "")
        tx.execute(text("UPDATE jedi_jobs SET hold_deadline = jedi_now() - interval '1 s'"))
    target.rmdir()
    assert agent.run_once() == 1
    assert pilot.statuses() == ["finished", "finished"]
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_jobs WHERE hold_kind IS NOT NULL")) == 0


def test_what_is_staged_and_stays_costs_no_job_that_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise OSError("Directory not empty: .nfs0001")

    monkeypatch.setattr(FileSystemDDM, "drop_staging", busy)
    pilot = Pilot(world)
    pilot.finish()
    adder(world).run_once()
    assert pilot.statuses() == ["finished"]
    assert len(pilot.published("output")) == 1


def test_what_a_person_holds_meanwhile_stays_held_if_there_is_trouble(world: World) -> None:
    pilot = Pilot(world)
    pilot.finish()
    agent, [job] = claimed(world)
    with world.engine.begin() as tx:
        service_jobs.hold(tx, "me", [job.panda_id], "Let me look.")
        agent.trouble(tx, job, OSError("no answer"))
        held = tx.execute(text("SELECT hold_kind, hold_reason FROM jedi_jobs")).one()
    assert held.hold_kind == "user_request"
    assert "Let me look." in held.hold_reason
    assert agent.run_once() == 0


def test_reported_jobs_gather_for_a_moment_unless_there_are_enough(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle that was not full lasts so long; one that takes longer has no pause."""
    monkeypatch.setattr(Adder, "breath_s", 60.0)
    with world.engine.begin() as tx:
        knobs.put(tx, "adder.batch", 2, "test")
    pilot, loop, pauses = Pilot(world, 3), Loop(adder(world)), list[float | None]()
    pilot.finish()

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            self.set()
            return True

    loop.stopping = Stopping()
    loop.run()
    [pause] = pauses
    assert pause is not None and 40 < pause < 60
    assert (loop.cycles, pilot.statuses()) == (2, ["finished"] * 3)


# ----------------------------------------------------------------- who dies, stalls, is faster


@pytest.mark.long
@pytest.mark.parametrize("point", ["claimed", "before_commit", "after_commit"])
def test_an_adder_that_dies_is_no_loss(world: World, point: str, tmp_path: Path) -> None:
    pilot = Pilot(world, 3)
    pilot.finish()
    run = subprocess.run(
        [sys.executable, "-c", _ADDER_PROCESS, world.settings.database_url or ""],
        env={**os.environ, "JEDI_CRASH": f"adder:{point}", "JEDI_CRASH_MARK": str(tmp_path)},
        check=False,
        timeout=60,
    )
    assert (run.returncode, (tmp_path / f"adder:{point}").exists()) == (137, True)
    adder(world).run_once()
    assert pilot.statuses() == ["finished"] * 3
    assert len(pilot.published("output")) == 3


_ADDER_PROCESS = """
import sys
from pathlib import Path
from jedi.agent.base import World
from jedi.agent.loop import Loop
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.jobdispatcher import agent as adders
from jedi.jobdispatcher.agent import Adder
from jedi.taskbuffer.db import engine
from jedi.taskbuffer.db import knobs
url = sys.argv[1]
world = World(engine.connect(url), Settings(Path("/nowhere"), url), knobs.load, factory.load)
Adder(world).run_once()
"""


@pytest.mark.parametrize("rest", [0, 1e6])
def test_what_ends_before_others_that_were_found_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, rest: float
) -> None:
    """Looking from the last find on, an Adder passes over nothing for good."""
    monkeypatch.setattr(adders, "_REST", rest)
    pilot = Pilot(world, 4)
    first, second, third, fourth = pilot.jobs
    agent, found = adder(world), []

    def claim() -> None:
        with world.engine.begin() as tx:
            found.append([job.panda_id for job in agent.claim(tx, 10)])

    agent.world.refresh()
    pilot.tell(third, "finished", pilot.stage(third, "output", "log"))
    claim()
    pilot.tell(first, "finished", pilot.stage(first, "output", "log"))
    pilot.tell(fourth, "finished", pilot.stage(fourth, "output", "log"))
    claim()
    end = JobEnd(third.panda_id, "failed", "payload_exit", "")
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [end, end._replace(panda_id=fourth.panda_id)], "test")
    claim()
    late = [third.panda_id, fourth.panda_id]
    assert found == [late[:1], late if rest else [first.panda_id, *late], [first.panda_id]]
    pilot.tell(second, "failed", [])
    claim()
    assert found[-1] == [first.panda_id, second.panda_id]


def test_two_adders_on_the_same_jobs(world: World) -> None:
    pilot = Pilot(world, 40)
    pilot.finish()
    agents = [adder(world) for _ in range(3)]
    barrier = threading.Barrier(3)
    errors: list[Exception] = []

    def run(agent: Adder) -> None:
        try:
            agent.world.refresh()
            with world.engine.begin() as tx:
                claimed = agent.claim(tx, 100)
            barrier.wait(30)
            agent.prepare(claimed)
            verdicts = [(job, agent.work(job)) for job in claimed]
            with world.engine.begin() as tx:
                agent.apply(tx, verdicts)
        except Exception as error:  # noqa: BLE001 - told below, not lost in the thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # whoever finds a file gone between look and rename gives up and comes back later
    assert all(isinstance(error, FileNotFoundError) for error in errors)
    while adder(world).run_once():
        pass
    assert pilot.statuses() == ["finished"] * 40
    assert len(pilot.published("output")) == len(pilot.published("log")) == 40
    with world.engine.begin() as tx:
        ends = tx.scalar(text("SELECT count(*) FROM jedi_jobs_statuslog WHERE status = 'finished'"))
        assert ends == 40
        finished = tx.scalars(text("SELECT nfilesfinished FROM jedi_datasets ORDER BY datasetid"))
        assert finished.all() == [80, 40, 40, 40]


def test_what_was_published_for_a_job_that_was_ended_meanwhile_is_removed(world: World) -> None:
    pilot = Pilot(world, 2)
    pilot.finish()
    killed, good = pilot.made.jobs
    agent = adder(world)
    agent.world.refresh()
    with world.engine.begin() as tx:
        claimed = agent.claim(tx, 10)
    verdicts = [(job, agent.work(job)) for job in claimed]
    assert len(pilot.published("output")) == 2
    with world.engine.begin() as tx:
        assert job_ends.end_jobs(tx, [JobEnd(killed, "cancelled", "killed", "By me.")], "me")
    with world.engine.begin() as tx:
        agent.apply(tx, verdicts)
    agent.tidy(verdicts)
    assert pilot.statuses() == ["cancelled", "finished"]
    assert pilot.published("output") == [f"output.{good}.1"]


def test_a_slower_adder_does_not_take_away_what_the_faster_one_finished(world: World) -> None:
    pilot = Pilot(world)
    pilot.finish()
    slow, fast = adder(world), adder(world)
    slow.world.refresh()
    with world.engine.begin() as tx:
        claimed = slow.claim(tx, 10)
    # its configuration is out of date: it finds no place for the files
    slow.world._ddm = FileSystemDDM({})
    verdicts = [(job, slow.work(job)) for job in claimed]
    assert verdicts[0][1].target == "failed"
    fast.run_once()
    with world.engine.begin() as tx:
        slow.apply(tx, verdicts)
    slow.tidy(verdicts)
    assert pilot.statuses() == ["finished"]
    assert len(pilot.published("output")) == 1


def test_a_stalled_adder_publishes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = Pilot(world)
    pilot.finish()
    agent = adder(world)
    monkeypatch.setattr(Adder, "lease_s", -1.0)
    assert agent.run_once() == 1
    assert pilot.published("output") == []
    assert pilot.statuses() == ["holding"]
    monkeypatch.undo()
    agent.run_once()
    assert pilot.statuses() == ["finished"]


def test_jobs_of_a_task_that_moved_on_are_left_alone(world: World) -> None:
    pilot = Pilot(world)
    pilot.finish()
    agent, [job] = claimed(world)
    with world.engine.begin() as tx:
        lose_job(tx)
    with world.engine.begin() as tx:
        agent.apply(tx, [(job, FINISHED)])
    assert pilot.statuses() == ["holding"]
    with world.engine.begin() as tx:
        move = jobs.JobMove(job.panda_id, "transferring", "c", "r", job.lock_seq)
        assert job_ends.await_transfer(tx, [move], "me") == []


# ------------------------------------------------------------------------ what need not be made


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("destination", [None, "SITE_B_DATADISK"])
def test_an_output_that_a_job_need_not_make(
    world: World, destination: str | None, begun: bool
) -> None:
    pilot = Pilot(world, destination=destination)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET attributes = 'an,tr' WHERE type = 'output'"))
    (job,) = pilot.jobs
    if begun:
        pilot.tell(job, "running", [])
    pilot.tell(job, "finished", pilot.stage(job, "log"))
    assert adder(world).run_once() == 1
    assert pilot.statuses() == ["transferring" if destination else "finished"]
    with world.engine.begin() as tx:
        (status,) = tx.scalars(
            text("SELECT status FROM jedi_dataset_contents WHERE type = 'output'")
        )
        assert status == "nooutput"
        if destination:
            moving = moving_jobs(tx, "transferring", ["output", "log"], [], 1)
            assert [need.file[1] for need in _waiting(moving[0], "").needs] == [
                file.lfn for file in job.files if file.type == "log"
            ]
            job_ends.end_jobs(tx, [JobEnd(job.panda_id, "finished", "job_finished", "r")], "Mover")
        wrong = {one.invariant for one in check(tx) if one.violations}
        assert not wrong & {"output_counters", "outputs_of_finished_jobs", "finished_outputs"}
    assert pilot.published("output") == []


def test_an_output_may_be_lacking_only_if_the_job_had_success(world: World) -> None:
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET attributes = 'an' WHERE type = 'output'"))
    (job,) = pilot.jobs
    pilot.tell(job, "failed", [], error_code="payload_exit", error_diag="1")
    assert adder(world).run_once() == 1
    with world.engine.begin() as tx:
        query = text("SELECT status FROM jedi_dataset_contents WHERE type = 'output'")
        assert list(tx.scalars(query)) == ["failed"]
