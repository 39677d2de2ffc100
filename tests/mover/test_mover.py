"""The Mover: inputs come to the sites of jobs, outputs go where they belong, each file once."""

# Raw UPDATEs: jobs change hands while a copy runs.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.helpers import put_file_dataset, unguard
from support.job_rows import Made, make_jobs
from support.mover import A, B, assigned_jobs, transferring_jobs
from support.situations import end_leases
from support.statuses import statuses

from jedi.agent.base import World
from jedi.core import clock
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import TransferResult
from jedi.model.jobs.wire import Resources
from jedi.mover.agent import Mover
from jedi.mover.plan import EXPRESS, NeededFile, Route, WaitingJob, activity, make_plan
from jedi.taskbuffer.db import knobs, locks
from jedi.taskbuffer.jobs import dispatch
from jedi.watchdog.copies import run as run_copies
from jedi.watchdog.lookup import run as run_lookup

# ------------------------------------------------------------------------------ pure: the plan


def waiting(panda_id: int, *needs: NeededFile, usual: str = "usual") -> WaitingJob:
    return WaitingJob(panda_id, 0.0, usual, needs)


def test_express() -> None:
    assert activity("usual", None, 999) == "usual"
    assert activity("usual", None, 1000) == activity("usual", "urgent", 1) == EXPRESS


def test_a_file_is_copied_once_and_express_for_all_if_for_one() -> None:
    shared, own = NeededFile(("s:d", "f"), "X"), NeededFile(("s:d", "g"), "X")
    jobs = [waiting(1, shared, own), waiting(2, shared, usual=EXPRESS), waiting(3, shared)]
    plan = make_plan(jobs, {shared.file: ["P", "Q"], own.file: ["P", "Q"]}, {})
    assert plan.routes == {
        Route("P", "X", EXPRESS): [shared.file],
        Route("P", "X", "usual"): [own.file],
    }


def test_what_one_job_keeps_is_kept() -> None:
    need = NeededFile(("s:d", "f"), "X")
    jobs = [waiting(1, need), replace(waiting(2, need), kept=frozenset({"s:d"}))]
    plan = make_plan(jobs, {need.file: ["P"]}, {})
    assert plan.routes == {Route("P", "X", "usual", kept=True): [need.file]}


def test_what_is_there_stays_and_what_nobody_has_is_named() -> None:
    here, gone = NeededFile(("s:d", "f"), "X"), NeededFile(("s:d", "g"), "X")
    plan = make_plan([waiting(1, here, gone)], {here.file: ["Z", "X"]}, {})
    assert plan.routes == {}
    assert plan.lacking(waiting(1, here)) == ""
    said = "s:d/g could not be brought to X: No endpoint has it."
    assert plan.lacking(waiting(1, here, gone)) == said


# -------------------------------------------------------------------------------- with a world


@pytest.fixture(autouse=True)
def real_time() -> Iterator[None]:
    yield
    clock.turn_to(None)


def test_inputs_come_and_jobs_are_activated(world: World) -> None:
    made = assigned_jobs(world, 3)
    assert Mover(world).run_once() == 1
    assert statuses(world, made.task) == ["activated"] * 3
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 3
        job = dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), "r", "p")[0]
    inputs = [file for file in job.files if file.type == "input"]
    paths = [world.ddm.path(f.endpoint or "", f.dataset, f.lfn) for f in inputs]
    assert [path.read_bytes() for path in paths] == [b"abc", b"abc"]
    assert Mover(world).run_once() == 0


def test_copies_of_one_time_inputs_go_after_use(world: World) -> None:
    made, many = assigned_jobs(world, 3), assigned_jobs(world, 1)
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_datasets SET attributes = 'ratio=2,manytime' WHERE datasetid = :d"),
            {"d": many.input},
        )
    assert Mover(world).run_once() == 1
    copies = world.ddm.copies()
    assert {copy.dataset for copy in copies} == {f"test:{made.task}.input"}
    assert {copy.endpoint for copy in copies} == {A} and len(copies) == 6
    assert not +run_copies(world)
    with world.engine.begin() as tx:
        unguard(tx)
        tx.execute(
            text(
                "UPDATE jedi_dataset_contents SET status = CASE WHEN fileid = (SELECT min(fileid) "
                "FROM jedi_dataset_contents WHERE datasetid = :d) THEN 'finished' ELSE 'ready' END "
                "WHERE datasetid = :d"
            ),
            {"d": made.input},
        )
    assert run_copies(world) == {"copies": 1}
    clock.turn_to(clock.now() + timedelta(days=8))
    assert run_copies(world) == {"copies": 5}
    assert world.ddm.copies() == []
    held = {r.endpoint: r.n_files for r in world.ddm.replicas(f"test:{many.task}.input")}
    assert held == {A: 2, B: 2}


def test_a_copy_of_one_task_stays_for_another_that_reads_it_many_times(world: World) -> None:
    """No transfer is needed for the second task, so none could tell that the copy is to stay."""
    once, other = assigned_jobs(world, 1), assigned_jobs(world, 1)
    assert Mover(world).run_once() == 1
    with world.engine.begin() as tx:
        many = make_jobs(tx, 1).input
        unguard(tx)
        values = {"name": f"test:{once.task}.input", "d": many}
        tx.execute(
            text(
                "UPDATE jedi_datasets SET datasetname = :name, attributes = 'manytime' "
                "WHERE datasetid = :d"
            ),
            values,
        )
        tx.execute(
            text("UPDATE jedi_dataset_contents SET status = 'finished' WHERE type = 'input'")
        )
    assert run_copies(world) == {"kept": 2, "copies": 2}
    assert world.ddm.copies() == [] and not +run_copies(world)
    held = {r.endpoint: r.n_files for r in world.ddm.replicas(f"test:{once.task}.input")}
    assert held == {A: 2, B: 2}
    held = {r.endpoint: r.n_files for r in world.ddm.replicas(f"test:{other.task}.input")}
    assert held.get(A, 0) == 0


def test_only_so_many_jobs_in_one_claim(world: World) -> None:
    made = assigned_jobs(world, 3)
    with world.engine.begin() as tx:
        knobs.put(tx, "mover.batch", 2, "test")
    mover = Mover(world)
    assert mover.run_once() == 1
    assert sorted(statuses(world, made.task)) == ["activated", "activated", "assigned"]
    assert mover.run_once() == 1
    assert statuses(world, made.task) == ["activated"] * 3


def test_a_shared_input_is_copied_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = assigned_jobs(world, 4, files=1)
    with world.engine.begin() as tx:
        lfn = tx.scalar(
            text("SELECT min(lfn) FROM jedi_job_files WHERE datasetid = :d"), {"d": made.input}
        )
        tx.execute(
            text("UPDATE jedi_job_files SET lfn = :lfn WHERE datasetid = :d"),
            {"lfn": lfn, "d": made.input},
        )
    asked: list[tuple[str, str]] = []
    transfer = FileSystemDDM.transfer

    def listened(ddm: FileSystemDDM, files: list[tuple[str, str]], *how: Any) -> object:
        asked.extend(files)
        return transfer(ddm, files, *how)

    monkeypatch.setattr(FileSystemDDM, "transfer", listened)
    Mover(world).run_once()
    assert asked == [(f"test:{made.task}.input", lfn)]
    assert statuses(world, made.task) == ["activated"] * 4


def test_a_missing_input_holds_up_only_its_job_and_not_for_ever(world: World) -> None:
    made = assigned_jobs(world, 2, missing=1)
    mover = Mover(world)
    assert mover.run_once() == 1
    assert statuses(world, made.task) == ["activated", "assigned"]
    assert mover.run_once() == 0  # it is tried again later, not at once

    patience_s = world.knobs["mover.patience_s"]
    with world.engine.begin() as tx:
        since = tx.scalar(text("SELECT statechangetime FROM jedi_jobs WHERE status = 'assigned'"))
    clock.turn_to(since + timedelta(seconds=patience_s - 1))
    Mover(world).run_once()
    assert statuses(world, made.task) == ["activated", "assigned"]
    clock.turn_to(since + timedelta(seconds=patience_s))
    Mover(world).run_once()
    assert statuses(world, made.task) == ["activated", "failed"]
    with world.engine.begin() as tx:
        job = tx.execute(text("SELECT * FROM jedi_jobs WHERE status = 'failed'")).one()
        assert (job.error_source, job.error_code) == ("jedi", "transfer_failed")
        assert f"test:{made.task}.input/input.{job.pandaid}.2 could not" in job.error_diag
        files = tx.execute(
            text(
                "SELECT status, failedattempt FROM jedi_dataset_contents "
                "WHERE pandaid = :p AND type = 'input' ORDER BY fileid"
            ),
            {"p": job.pandaid},
        )
        # no endpoint has the second one any more, and the first one is not to blame
        assert [tuple(file) for file in files] == [("ready", 0), ("missing", 1)]


def test_files_of_a_storage_that_is_away_are_not_missing(world: World) -> None:
    """Data management then does not know their dataset either: the job fails as others do."""
    made = assigned_jobs(world, 1)
    home = world.ddm.path(B, f"test:{made.task}.input", "x").parent
    home.rename(home.with_name("away"))
    clock.turn_to(clock.now() + timedelta(seconds=world.knobs["mover.patience_s"] + 60))
    Mover(world).run_once()
    assert statuses(world, made.task) == ["failed"]
    with world.engine.begin() as tx:
        files = tx.execute(
            text(
                "SELECT DISTINCT status, failedattempt FROM jedi_dataset_contents "
                "WHERE datasetid = :d"
            ),
            {"d": made.input},
        )
        assert [tuple(file) for file in files] == [("ready", 1)]


def test_what_is_on_its_way_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time-outs of jobs end that, not the Mover's patience, which is for what fails."""

    def ask(_: FileSystemDDM, files: list[tuple[str, str]], *__: Any) -> list[TransferResult]:
        return [TransferResult(*file, "requested", "On its way.") for file in files]

    made = assigned_jobs(world, 2, missing=1)
    with monkeypatch.context() as patch:
        patch.setattr(FileSystemDDM, "transfer", ask)
        Mover(world).run_once()
        assert statuses(world, made.task) == ["assigned"] * 2
        clock.turn_to(clock.now() + timedelta(seconds=world.knobs["mover.patience_s"] + 60))
        Mover(world).run_once()
    assert sorted(statuses(world, made.task)) == ["assigned", "failed"]
    Mover(world).run_once()
    assert sorted(statuses(world, made.task)) == ["activated", "failed"]


def test_an_input_that_comes_later_is_found(world: World) -> None:
    made = assigned_jobs(world, 1, missing=1)
    with world.engine.begin() as tx:
        knobs.put(tx, "mover.retry_s", 0.1, "test")
    mover = Mover(world)
    mover.run_once()
    path = world.ddm.path(B, f"test:{made.task}.input", f"input.{made.jobs[0]}.2")
    path.write_bytes(b"abc")
    deadline = clock.monotonic() + 10
    while statuses(world, made.task) != ["activated"] and clock.monotonic() < deadline:
        mover.run_once()
    assert statuses(world, made.task) == ["activated"]


def description(world: World, made: Made) -> Path:
    """Where people may say what the inputs of jobs are."""
    return world.ddm.path(B, f"test:{made.task}.input", "x").with_name(".dataset.yaml")


def test_a_dataset_that_cannot_be_looked_up_keeps_no_other_waiting(world: World) -> None:
    bad, good = assigned_jobs(world, 1), assigned_jobs(world, 1)
    said = description(world, bad)
    said.write_text("state: [")
    Mover(world).run_once()
    assert (statuses(world, bad.task), statuses(world, good.task)) == (["assigned"], ["activated"])
    clock.turn_to(clock.now() + timedelta(seconds=world.knobs["mover.patience_s"] + 1))
    Mover(world).run_once()  # people have to mend it: it does not fail for that
    assert statuses(world, bad.task) == ["assigned"]
    said.unlink()
    Mover(world).run_once()
    assert statuses(world, bad.task) == ["activated"]


def test_a_storage_that_fails_on_one_route_keeps_no_other_waiting(world: World) -> None:
    """What was copied can't be noted, as where a disk is full."""
    bad, good = assigned_jobs(world, 1), assigned_jobs(world, 1, priority=1000)
    notes = world.ddm.path(A, f"test:{bad.task}.input", "x").with_name(".files.jsonl")
    notes.mkdir(parents=True)
    Mover(world).run_once()
    assert (statuses(world, bad.task), statuses(world, good.task)) == (["assigned"], ["activated"])
    notes.rmdir()
    Mover(world).run_once()
    assert statuses(world, bad.task) == ["activated"]


def test_nor_does_it_keep_the_dog_from_others(world: World) -> None:
    bad, good = (assigned_jobs(world, 1, priority=801) for _ in range(2))
    description(world, bad).mkdir()
    [job] = good.jobs
    here = {f"input.{job}.{number}": b"abc" for number in (1, 2)}
    put_file_dataset(world, f"test:{good.task}.input", here, A)
    assert run_lookup(world) == {"activated": 1}
    assert (statuses(world, bad.task), statuses(world, good.task)) == (["assigned"], ["activated"])


def test_two_movers_share_the_work_and_do_no_harm(world: World) -> None:
    made = assigned_jobs(world, 2)
    first, second = Mover(world), Mover(replace(world))
    second.world.me = "another"
    second.world.refresh()
    with world.engine.begin() as tx:
        (load,) = first.claim(tx, 10)
    assert second.run_once() == 0  # the site's jobs are being seen to
    plan = first.work(load)
    with world.engine.begin() as tx:  # the first one stalls, its lease ends
        end_leases(tx)
    assert second.run_once() == 1
    assert statuses(world, made.task) == ["activated"] * 2
    with world.engine.begin() as tx:
        dispatch.acquire(tx, "SITE_A", 2, Resources(cores=1), "r", "p")
    first._apply_all([(load, plan)])
    assert statuses(world, made.task) == ["sent"] * 2
    with world.engine.begin() as tx:
        assert locks.take(tx, load.lock, "a third one", 1.0)


def test_a_killed_job_is_left_alone(world: World) -> None:
    made = assigned_jobs(world, 1)
    mover = Mover(world)
    with world.engine.begin() as tx:
        (load,) = mover.claim(tx, 10)
        tx.execute(text("UPDATE jedi_jobs SET status = 'cancelled'"))
    mover._apply_all([(load, mover.work(load))])
    assert statuses(world, made.task) == ["cancelled"]


# ------------------------------------------------------------------------------------- outputs


def test_outputs_go_where_they_belong_and_jobs_finish(world: World) -> None:
    made = transferring_jobs(world, 2)
    assert Mover(world).run_once() == 1
    assert statuses(world, made.task) == ["finished"] * 2
    for kind in ("output", "log"):
        lfn = f"{kind}.{made.jobs[0]}.1"
        assert world.ddm.path(B, f"test:{made.task}.{kind}", lfn).read_text() == lfn
    with world.engine.begin() as tx:
        outputs = tx.execute(
            text("SELECT DISTINCT status, fsize FROM jedi_dataset_contents WHERE datasetid = :d"),
            {"d": made.output},
        ).one()
        assert tuple(outputs) == ("finished", len(f"output.{made.jobs[0]}.1"))
        ends = tx.execute(text("SELECT DISTINCT nfilesfinished, type FROM jedi_datasets"))
        assert {r.type: r.nfilesfinished for r in ends} == {
            "input": 4,
            "random_seed": 2,
            "output": 2,
            "log": 2,
        }


def test_who_reads_outputs_looks_when_they_have_arrived(world: World) -> None:
    made = transferring_jobs(world, 1)
    with world.engine.begin() as tx:
        reader = make_jobs(tx, 1).input
        unguard(tx)
        values = {"d": reader, "name": f"test:{made.task}.output"}
        tx.execute(
            text(
                "UPDATE jedi_datasets SET datasetname = :name, status = 'running', "
                "statechecktime = jedi_now() - interval '1 minute' WHERE datasetid = :d"
            ),
            values,
        )
    assert Mover(world).run_once() == 1
    assert statuses(world, made.task) == ["finished"]
    with world.engine.begin() as tx:
        looked_at = text("SELECT statechecktime FROM jedi_datasets WHERE datasetid = :d")
        assert tx.scalar(looked_at, values) is None


def test_an_output_that_cannot_be_moved_fails_its_job_and_leaves_nothing(world: World) -> None:
    made = transferring_jobs(world, 2)
    dataset = f"test:{made.task}.output"
    lfn = f"output.{made.jobs[0]}.1"
    world.ddm.path(B, dataset, lfn).write_bytes(b"something else")
    mover = Mover(world)
    mover.run_once()
    assert statuses(world, made.task) == ["transferring", "finished"]
    with world.engine.begin() as tx:
        since = tx.scalar(text("SELECT max(statechangetime) FROM jedi_jobs"))
    clock.turn_to(since + timedelta(seconds=world.knobs["mover.patience_s"] + 1))
    Mover(world).run_once()
    assert statuses(world, made.task) == ["failed", "finished"]
    assert [file.lfn for file in world.ddm.list_files(dataset)] == [f"output.{made.jobs[1]}.1"]
