"""Tasks that are submitted again, that share outputs, that want to be the only ones, and tasks that
make lost files of others."""

# Raw UPDATEs: a status to which no short way leads.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.helpers import put_file_dataset
from support.resubmission import OUT, submit
from support.task_rows import INPUT, row_of
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.core.errors import BadInput, Refused
from jedi.model.queries import FileQuery
from jedi.model.tasks.incremental import same_but_inputs
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import commanding
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskcommando.agent import TaskCommando


def problems(world: World, base: Path = Path(), **keys: Any) -> dict[str, str]:
    """What is refused, by key, with rule and remedy."""
    with pytest.raises(BadInput) as wrong:
        submit(world, base, **keys)
    return {one.path: f"{one.rule} {one.remedy}" for one in wrong.value.problems}


def files(world: World, task_id: int, kind: str = "input") -> dict[str, str]:
    with world.engine.begin() as tx:
        found = service.files(call(tx), task_id, query=FileQuery([kind]))
    return {f.lfn: f.status for f in found if f.status != "skipped"}


def jobs(world: World) -> int:
    with world.engine.begin() as tx:
        return int(tx.scalar(text("SELECT count(*) FROM jedi_jobs")) or 0)


def there(world: World, name: str) -> list[str]:
    return [file.lfn for file in world.ddm.list_files(name)]


def stored_params(world: World, task_id: int) -> dict[str, Any]:
    with world.engine.begin() as tx:
        return dict(new_tasks.PARAMS_OF.rows(tx, ids=[task_id]))[task_id]


def kept(task_id: int, path: str, value: str) -> str:
    return (
        f"{path} stays {value}: a resubmission of task {task_id} does not change it. "
        "For a new task choose other output datasets."
    )


@pytest.fixture
def first(world: World) -> int:
    """A task over three files, of which it used two; done."""
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in "abc"}, ENDPOINT)
    done = submit(world, nFiles=2)
    assert (done.created, done.again) == (True, False)
    cycle(world)
    assert row_of(world, done.jedi_task_id).status == "done"
    return done.jedi_task_id


# ------------------------------------------------------------------------------ submitted again


def test_only_what_is_unused_or_failed_is_processed(world: World, first: int) -> None:
    done = submit(world, nFiles=3, nFilesPerJob=2)
    assert (done.jedi_task_id, done.created, done.again) == (first, False, True)
    cycle(world, jobs_end_too=False)
    assert jobs(world) == 3
    end_jobs(world, "failed")
    cycle(world)
    assert row_of(world, first).status == "finished"
    assert submit(world).jedi_task_id == first  # nFiles is taken back
    cycle(world)
    assert (row_of(world, first).status, jobs(world)) == ("done", 4)
    assert files(world, first) == dict.fromkeys("abc", "finished")
    assert there(world, "a:p") == ["p.000001", "p.000002", "p.000004"]
    assert row_of(world, first).attemptnr == 3


def test_what_can_not_change_is_kept_and_named(world: World, first: int) -> None:
    """JEDI document, "Task retry and resubmission": "some task parameters can be implicitly
    changed … Other parameters are not changed even if they show up in the cliParams field"."""
    done = submit(world, nEventsPerJob=5, nEventsPerInputFile=10, ramCount=2000, nFiles=3)
    assert (done.jedi_task_id, done.again) == (first, True)
    says = "stays unset: a resubmission of task {} does not change it. For a new task choose other"
    assert sorted(done.warnings) == [
        f"{key} {says.format(first)} output datasets."
        for key in ("nEventsPerInputFile", "nEventsPerJob", "ramCount")
    ]
    cycle(world)
    assert files(world, first) == dict.fromkeys("abc", "finished")
    assert row_of(world, first).ramcount != 2000
    stored = stored_params(world, first)
    assert not stored.keys() & {"nEventsPerJob", "nEventsPerInputFile", "ramCount"}
    with world.engine.begin() as tx:
        knobs.put(tx, "core.preset", "current", "op")
    assert submit(world, ramCount=2000, nFiles=2).again
    cycle(world)
    assert row_of(world, first).ramcount == 2000


def test_inputs_are_added(world: World, first: int) -> None:
    put_file_dataset(world, "demo:more", {lfn: lfn.encode() for lfn in "de"}, ENDPOINT)
    again = [{**INPUT, "dataset": "demo:in,demo:more"}, OUT]
    submit(world, jobParameters=again)
    cycle(world)
    assert files(world, first) == dict.fromkeys("abcde", "finished")
    done = submit(world, jobParameters=[{**INPUT, "value": "cat -n ${IN/S}"}, OUT])
    assert done.warnings == (kept(first, "jobParameters[0].value", "`cat ${IN/S}`"),)
    assert same_but_inputs(again, [INPUT, OUT])
    assert not same_but_inputs(again, [INPUT])


def test_the_item_and_the_key_that_differ_are_named(world: World, first: int) -> None:
    """Only the value of item 1 differs: neither the whole list nor a default is printed. An item
    beyond those of the task is kept out, and new datasets are read all the same. An item that is
    wrong in itself is refused."""
    put_file_dataset(world, "demo:more", {"d": b"d"}, ENDPOINT)
    both = {**INPUT, "dataset": "demo:in,demo:more"}
    more = {"type": "constant", "value": "-v"}
    done = submit(world, jobParameters=[both, {**OUT, "value": "| wc > p.${SN}"}, more])
    assert done.warnings == (
        kept(first, "jobParameters[1].value", "`> p.${SN}`"),
        kept(first, "jobParameters[2]", "unset"),
    )
    cycle(world)
    assert files(world, first) == dict.fromkeys("abcd", "finished")
    assert [item["value"] for item in stored_params(world, first)["jobParameters"]] == [
        INPUT["value"],
        OUT["value"],
    ]
    found = problems(world, jobParameters=[INPUT, {**OUT, "value": "> ${NOSUCH}"}])
    assert found and not any("stays" in words for words in found.values())


def test_new_code_is_asked_for(world: World, tmp_path: Path) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    code = tmp_path / "run.sh"
    code.write_text("false")
    task = submit(world, tmp_path, sandbox=["run.sh"], nFiles=1).jedi_task_id
    cycle(world)
    assert submit(world, tmp_path, sandbox=["run.sh"], nFiles=1).again
    cycle(world)
    code.write_text("true")
    done = submit(world, tmp_path, sandbox=["run.sh"], nFiles=1)
    assert done.warnings == (
        f"Task {task} keeps its files, which differ from these. "
        "Set useNewCode: true to replace them.",
    )
    cycle(world)
    query = "SELECT sandbox_sha256 FROM jedi_taskparams WHERE jeditaskid = :t"
    with world.engine.begin() as tx:
        before = tx.scalar(text(query), {"t": task})
    assert submit(world, tmp_path, sandbox=["run.sh"], useNewCode=True).jedi_task_id == task
    cycle(world)
    with world.engine.begin() as tx:
        assert tx.scalar(text(query), {"t": task}) != before
    assert row_of(world, task).status == "done"


def test_a_task_at_work_or_broken_is_not_submitted_again(world: World, first: int) -> None:
    submit(world)
    TaskCommando(world).run_once()
    assert f"is the output of task {first}" in problems(world)["jobParameters[1].dataset"]
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = 'broken'"))
    assert "allowTaskDuplication: true" in problems(world)["taskName"]


def test_validating_says_the_same(world: World, first: int) -> None:
    """The checked parameters are those with which the task goes on."""
    document = {"taskName": "p", "jobParameters": [INPUT, OUT]}
    with world.engine.begin() as tx:
        found = storing.check(
            tx, world.ddm, examined(Document(json.dumps(document), "json", Path()), "anna")
        )
    assert kept(first, "maxAttempt", "1") in found.warnings
    assert (found.params.max_attempt, found.params.site) == (1, None)
    assert jobs(world) == 2


# ------------------------------------------------------------------------------ shared outputs


def test_an_output_dataset_belongs_to_one_task(world: World, first: int) -> None:
    found = problems(world, taskName="other")
    assert f"is the output of task {first}" in found["jobParameters[1].dataset"]
    other = submit(world, taskName="other", allowTaskDuplication=True)
    assert other.created
    found = problems(world, taskName="third", allowTaskDuplication=True)
    assert f"task {other.jedi_task_id}, which has not ended" in found["jobParameters[1].dataset"]
    cycle(world)
    # no name is used twice
    assert there(world, "a:p") == [f"p.{n:06d}" for n in range(1, 6)]


def test_a_task_with_another_output_is_a_new_one(world: World, first: int) -> None:
    done = submit(world, jobParameters=[INPUT, {**OUT, "dataset": "a:$JEDITASKID.p"}])
    assert done.created and done.jedi_task_id != first


def test_a_task_may_want_to_be_the_only_one(world: World, first: int) -> None:
    out = {**OUT, "dataset": "a:$JEDITASKID.p"}
    only = submit(world, uniqueTaskName=True, jobParameters=[INPUT, out]).jedi_task_id
    cycle(world)
    row = row_of(world, only)
    assert (row.status, row.reason_code) == ("aborted", "unique_name_taken")
    assert f"Task {first} has this name already" in row.errordialog
    alone = submit(world, taskName="alone", uniqueTaskName=True, jobParameters=[INPUT, out])
    cycle(world)
    assert row_of(world, alone.jedi_task_id).status == "done"


# ----------------------------------------------------------------------- lost files, a new task


@pytest.fixture
def made(world: World) -> int:
    """A task over five files, two a job; done."""
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in "abcde"}, ENDPOINT)
    task = submit(world, nFilesPerJob=2).jedi_task_id
    cycle(world)
    assert there(world, "a:p") == ["p.000001", "p.000002", "p.000003"]
    return task


@pytest.mark.parametrize("into", ["same", "new"])
def test_a_task_makes_lost_files_again(world: World, made: int, into: str) -> None:
    lost: dict[str, Any] = {
        "lostFiles": ["p.000001", "p.000003"],
        "lostFilesDataset": "a:p",
        "recoverInto": into,
    }
    world.ddm.remove_files("a:p", lost["lostFiles"])
    name = "a:p" if into == "same" else "a:again"
    items = [INPUT, {**OUT, "dataset": name}]
    if into == "same":
        found = problems(
            world, taskName="r", jobParameters=items, **lost | {"lostFiles": ["p.000002"]}
        )
        assert "still exists in a:p" in found["lostFiles"]
    done = submit(world, taskName="r", nFilesPerJob=2, jobParameters=items, **lost)
    assert done.created
    cycle(world)
    task = done.jedi_task_id
    assert row_of(world, task).status == "done"
    assert files(world, task) == dict.fromkeys("abe", "finished")
    if into == "same":
        assert there(world, name) == ["p.000002", "p.000004", "p.000005"]
        found = problems(world, taskName="r2", jobParameters=items, **lost)
        assert f"task {task} has made it again" in found["lostFiles"]
    else:
        assert (there(world, "a:p"), len(there(world, name))) == (["p.000002"], 2)


def test_what_is_wrong_with_lost_files_is_told(world: World, made: int) -> None:
    found = problems(world, lostFiles=["p.00001"], lostFilesDataset="a:p")
    assert "Did you mean p.000001" in found["lostFiles"]
    assert (
        "is the output of task"
        in problems(
            world, taskName="r", lostFiles=["p.000001"], lostFilesDataset="a:p", recoverInto="new"
        )["jobParameters[1].dataset"]
    )
    assert "Give lostFilesDataset" in problems(world, lostFiles=["p.000001"])["lostFiles"]
    assert "the task has no lostFiles" in problems(world, recoverInto="new")["recoverInto"]
    found = problems(world, lostFiles=["p.000001"], lostFilesDataset="a:p", nEventsPerJob=2)
    assert "jedi-task recover" in found["lostFiles"]


def test_tasks_do_not_fill_a_dataset_together(world: World, first: int) -> None:
    submit(world, taskName="other", allowTaskDuplication=True)
    cycle(world, jobs_end_too=False)
    with world.engine.begin() as tx, pytest.raises(Refused, match="fills a:p, too") as refused:
        commanding.command(tx, "anna", first, "incexec")
    assert refused.value.code == "output_in_use"
    cycle(world)
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", first, "incexec", {"parameters": {"nFiles": 3}})
    cycle(world)
    assert there(world, "a:p") == [f"p.{n:06d}" for n in range(1, 7)]
