"""Pre-processing: a job tells first what there is to do, then the task is refined with that."""

# Raw UPDATEs: what a preprocessing job reports; it does not run here.

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from sqlalchemy import text
from support.helpers import put_file_dataset
from support.task_rows import good, put, row_of
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.core.errors import BadInput, Refused
from jedi.model.jobs.wire import Report
from jedi.model.tasks.preprocessing import fill
from jedi.model.tasks.text import validate
from jedi.pilot import metadata
from jedi.pilot.base import PayloadFailure
from jedi.service.tasks import commanding

SPEC = {"transPath": "make-list", "jobParameters": "$JEDITASKID"}
READ = {
    "type": "template",
    "param_type": "input",
    "value": "cat ${IN/S} ${PP_HOW}",
    "dataset": "demo:${PP_SET}",
}
WRITE = {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": "a:${PP_SET}"}


def start(world: World, **keys: Any) -> int:
    document = good(site="SITE_A", preproSpec=SPEC, **{"jobParameters": [READ, WRITE], **keys})
    (task_id,) = put(world, document)
    cycle(world, jobs_end_too=False)
    return task_id


def tell(world: World, told: dict[str, Any], target: str = "finished") -> None:
    """The pre-processing job says this and ends."""
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_jobs SET metadata = CAST(:told AS jsonb) "
                "WHERE kind = 'preprocess' AND postprocessed_at IS NULL"
            ),
            {"told": json.dumps(told)},
        )
    assert end_jobs(world, target) == 1


def jobs(world: World) -> list[tuple[str, str, str]]:
    with world.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT kind, status, jobparameters FROM jedi_jobs JOIN jedi_job_params "
                "USING (pandaid) ORDER BY pandaid"
            )
        )
        return [(row.kind, row.status, row.jobparameters) for row in rows]


def way(world: World, task_id: int) -> list[str]:
    query = text("SELECT status FROM jedi_tasks_statuslog WHERE jeditaskid = :t ORDER BY log_id")
    with world.engine.begin() as tx:
        return list(tx.scalars(query, {"t": task_id}))


def test_a_task_is_refined_with_what_its_job_told(world: World) -> None:
    put_file_dataset(world, "demo:found", {"f": b"f"}, ENDPOINT)
    task_id = start(world)
    assert row_of(world, task_id).status == "preprocessing"
    assert jobs(world) == [("preprocess", "activated", f"make-list {task_id}")]
    tell(world, {"SET": "found", "HOW": 3, "MORE": True})
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.transpath) == ("done", None)
    assert jobs(world)[1:] == [("normal", "finished", "cat f 3 > o.000001")]
    assert "UP=3" in task.splitrule
    assert way(world, task_id)[:5] == [
        "registered",
        "topreprocess",
        "preprocessing",
        "registered",
        "defined",
    ]


def test_its_job_reads_none_of_the_files_that_the_task_is_to_have(world: World) -> None:
    put_file_dataset(world, "demo:found", {f"f{i:02}": b"f" for i in range(20)}, ENDPOINT)
    task_id = start(world, nFiles=12, nFilesPerJob=1)
    tell(world, {"SET": "found", "HOW": "x"})
    cycle(world)
    assert way(world, task_id)[5:7] == ["ready", "scouting"]
    assert row_of(world, task_id).errordialog == "12 of 12 input files were processed."


def test_a_dataset_that_nobody_knows_breaks_the_task(world: World) -> None:
    task_id = start(world)
    tell(world, {"SET": "nowhere", "HOW": "x"})
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("broken", "input_unknown")


def test_a_failed_job_is_tried_again_and_fails_the_task_in_the_end(world: World) -> None:
    task_id = start(world)
    for _ in range(2):
        tell(world, {}, "failed")
        cycle(world, jobs_end_too=False)
        assert row_of(world, task_id).status == "preprocessing"
    tell(world, {}, "failed")
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("failed", "preprocessing_failed")
    assert task.errordialog == "The pre-processing job failed: r"
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "retry")
    cycle(world, jobs_end_too=False)
    assert row_of(world, task_id).status == "preprocessing"
    put_file_dataset(world, "demo:found", {"f": b"f"}, ENDPOINT)
    tell(world, {"SET": "found", "HOW": ""})
    cycle(world)
    assert row_of(world, task_id).status == "done"


@pytest.mark.parametrize(
    ("told", "reason"),
    [({"SET": "found"}, "PP_HOW"), ({"SET": "a b", "HOW": "x"}, "dataset"), ({}, "PP_SET")],
)
def test_what_was_not_told_breaks_the_task(world: World, told: dict[str, Any], reason: str) -> None:
    task_id = start(world)
    tell(world, told)
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("broken", "malformed")
    assert reason in task.errordialog


def test_a_task_can_be_killed_meanwhile(world: World) -> None:
    task_id = start(world)
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "kill")
    cycle(world, jobs_end_too=False)
    end_jobs(world, "cancelled")
    cycle(world)
    assert row_of(world, task_id).status == "aborted"


def test_what_was_never_told_is_not_executed(world: World) -> None:
    """Whoever asked for it would wait for ever: no job could tell it any more."""
    for stop in ("kill", None):
        task_id = start(world)
        with world.engine.begin() as tx:
            if stop:
                commanding.command(tx, "anna", task_id, stop)
        for _ in range(3):
            cycle(world, jobs_end_too=False)
            end_jobs(world, "cancelled" if stop else "failed")
        cycle(world)
        assert row_of(world, task_id).status == ("aborted" if stop else "failed")
        with (
            world.engine.begin() as tx,
            pytest.raises(Refused, match="has not reported its result"),
        ):
            commanding.command(tx, "anna", task_id, "incexec")


def test_it_goes_on_with_new_input(world: World) -> None:
    """Incremental execution leaves what was told as it is."""
    put_file_dataset(world, "demo:found", {"f": b"f"}, ENDPOINT)
    task_id = start(world)
    tell(world, {"SET": "found", "HOW": "x"})
    cycle(world)
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "incexec", {"parameters": {"nFiles": 5}})
    cycle(world)
    assert row_of(world, task_id).status == "done"
    assert len(jobs(world)) == 2


def test_parameters_are_checked_before_anything_is_told() -> None:
    kept = validate(good(preproSpec=SPEC, jobParameters=[READ, WRITE])).dump()["jobParameters"]
    assert [(i["value"], i["dataset"]) for i in kept] == [
        (i["value"], i["dataset"]) for i in (READ, WRITE)
    ]
    with pytest.raises(BadInput, match="PP_SET"):
        validate(good(jobParameters=[READ, WRITE]))
    with pytest.raises(BadInput, match="it has no command"):
        validate(good(preproSpec={"jobParameters": " "}))
    with pytest.raises(BadInput, match="this job has no value"):
        validate(good(preproSpec={"jobParameters": "${IN}"}))


def test_only_what_was_told_is_filled_in() -> None:
    document = {
        "a": ["${PP_X} $PP_X ${PP_Y}", {"b": 1}],
        "preproSpec": {"jobParameters": "${PP_X}"},
    }
    assert fill(document, {"X": 1.5}) == {**document, "a": ["1.5 $PP_X ${PP_Y}", {"b": 1}]}


@pytest.mark.parametrize(
    "data", ["[]", "{", '{"a": 1}', '{"A": null}', '{"A": [1]}', '{"A": NaN}', '"' + 99_999 * "x"]
)
def test_metadata_that_make_no_sense_fail_the_job(tmp_path: Path, data: str) -> None:
    assert metadata.read(tmp_path, None) == {}
    (tmp_path / metadata.FILE).write_text('{"A_1": "x", "B": 1.5, "C": true}')
    assert metadata.read(tmp_path, None) == {"A_1": "x", "B": 1.5, "C": True}
    (tmp_path / metadata.FILE).write_text(data)
    with pytest.raises(PayloadFailure, match=r"jedi_metadata\.json can't be used"):
        metadata.read(tmp_path, None)


def test_the_service_takes_as_many_metadata_as_a_pilot_sends(tmp_path: Path) -> None:
    """Else a payload could end its pilot, whose report would be refused."""

    def made(n: int) -> dict[str, int]:
        names = ("".join(name) for name in product(ascii_uppercase, repeat=3))
        told = json.dumps(dict.fromkeys(islice(names, n), 1), separators=(",", ":"))
        (tmp_path / metadata.FILE).write_text(told)
        return metadata.read(tmp_path, None)

    report = {"pandaid": 1, "lock_seq": 1, "status": "finished", "metadata": made(10_000)}
    assert len(Report.model_validate(report).metadata) == 10_000
    with pytest.raises(PayloadFailure, match="more than 10000 names"):
        made(10_001)


def test_metadata_are_a_file_of_the_payload(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"A": 1}')
    (tmp_path / metadata.FILE).symlink_to(tmp_path / "secret")
    with pytest.raises(PayloadFailure) as wrong:
        metadata.read(tmp_path, None)
    assert wrong.value.code == "bad_metadata"
