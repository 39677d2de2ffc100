"""Outputs that were made and are lost: they are made again, with what they are made of; nobody
reads the same twice."""

# Raw UPDATEs: the size of a file whose job does not run here.

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import sound
from support.generating import rows
from support.helpers import put_file_dataset
from support.merging import kinds, merged_at_last, task_of
from support.recovery import fail_one, jobs_of, task, there
from support.situations import end_leases
from support.task_rows import OUTPUT, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.core.errors import BadInput, Forbidden, NotFound, Refused
from jedi.model.queries import FileQuery
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import commanding
from jedi.service.tasks import recovering as service
from jedi.service.tasks import task_details as tasks_service
from jedi.taskcommando.agent import TaskCommando


@pytest.fixture
def first(world: World) -> int:
    """A task over three files, done."""
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in "abc"}, ENDPOINT)
    found = task(world, "p")
    cycle(world)
    assert row_of(world, found).status == "done"
    return found


def recover(world: World, *task_ids: int, who: str = "anna", **more: Any) -> service.Recovered:
    with world.engine.begin() as tx:
        return service.recover(call(tx, who, ddm=world.ddm), [*task_ids], **more)


def files(world: World, task_id: int, kind: str = "output") -> dict[str, str]:
    with world.engine.begin() as tx:
        return {
            f.lfn: f.status
            for f in tasks_service.files(call(tx), task_id, query=FileQuery(type=[kind]))
        }


def lose(world: World, name: str, *lfns: str) -> None:
    """Files are gone from data management, and nobody said so."""
    world.ddm.remove_files(name, lfns)


def jobs(world: World, task_id: int) -> int:
    return len(jobs_of(world, task_id))


# ------------------------------------------------------------------------------------ one task


def test_what_is_lost_is_made_again_under_another_name(world: World, first: int) -> None:
    with pytest.raises(
        Refused, match="Nothing is lost: data management has all 3 outputs"
    ) as refused:
        recover(world, first)
    assert refused.value.code == "nothing_lost"
    lose(world, "a:p", "p.000002")
    found = recover(world, first)
    assert [(one.jedi_task_id, one.files) for one in found.tasks] == [
        (first, {"a:p": ["p.000002"]})
    ]
    assert found.gone == []
    cycle(world)
    row = row_of(world, first)
    assert (row.status, row.attemptnr) == ("done", 2)
    assert there(world, "a:p") == ["p.000001", "p.000003", "p.000004"]
    assert files(world, first)["p.000002"] == "failed"
    assert jobs(world, first) == 4
    assert world.ddm.dataset("a:p").state == "closed"
    with pytest.raises(Refused, match="Nothing is lost"):
        recover(world, first)


def test_files_that_are_named_are_replaced(world: World, first: int) -> None:
    with pytest.raises(BadInput, match=r"Did you mean p\.000003"):
        recover(world, first, files=["p.00003"])
    recover(world, dataset="a:p", files=["p.000003"])
    cycle(world)
    assert there(world, "a:p") == ["p.000001", "p.000002", "p.000004"]
    assert row_of(world, first).status == "done"


def test_a_damaged_file_is_lost(world: World, first: int) -> None:
    world.ddm.path(ENDPOINT, "a:p", "p.000001").write_bytes(b"longer than it was")
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET fsize = 8 WHERE type = 'output'"))
    assert recover(world, first).tasks[0].files == {"a:p": ["p.000001"]}
    cycle(world)
    assert there(world, "a:p") == ["p.000002", "p.000003", "p.000004"]


def test_a_dataset_that_is_gone_is_made_again(world: World, first: int) -> None:
    world.ddm.delete("a:p")
    recover(world, dataset="a:p")
    cycle(world)
    assert there(world, "a:p") == ["p.000004", "p.000005", "p.000006"]


def test_all_outputs_of_a_job_are_made_again(world: World, first: int) -> None:
    other = {**OUTPUT, "value": "> other.${SN}", "dataset": "a:other"}
    two = task(world, "q", "demo:in", other)
    cycle(world)
    lose(world, "a:q", "q.000001")
    recover(world, two)
    cycle(world)
    assert there(world, "a:q") == ["q.000002", "q.000003", "q.000004"]
    assert there(world, "a:other") == ["other.000002", "other.000003", "other.000004"]


def test_a_seed_is_used_again(world: World) -> None:
    number = {"type": "template", "param_type": "number", "value": "${RNDMSEED}"}
    out = {**OUTPUT, "value": "> s.${SN}", "dataset": "a:s"}
    document = {
        "taskName": "s",
        "site": "SITE_A",
        "noInput": True,
        "nFiles": 2,
        "jobParameters": [number, out],
    }
    with world.engine.begin() as tx:
        storing.submit(
            tx, world.ddm, examined(Document(json.dumps(document), "json", Path()), "anna")
        )
    cycle(world)
    lose(world, "a:s", "s.000001")
    recover(world, dataset="a:s")
    cycle(world)
    with world.engine.begin() as tx:
        query = "SELECT jobparameters FROM jedi_job_params ORDER BY pandaid"
        seeds = [line.split()[0] for line in tx.scalars(text(query))]
    assert seeds == ["1", "2", "1"]


def test_an_input_that_nobody_makes_again_is_told_and_lost(world: World, first: int) -> None:
    lose(world, "a:p", "p.000001")
    lose(world, "demo:in", "a")
    assert recover(world, first).gone == [("demo:in", "a")]
    cycle(world)
    row = row_of(world, first)
    assert (row.status, row.errordialog) == (
        "finished",
        "2 of 3 input files were processed; 1 missing.",
    )
    assert files(world, first, "input") == {"a": "lost", "b": "finished", "c": "finished"}


# --------------------------------------------------------------------------- chains of tasks


def test_lost_inputs_are_made_again_first(world: World, first: int) -> None:
    second = task(world, "q", "a:p")
    cycle(world)
    third = task(world, "r", "a:q")
    cycle(world)
    lose(world, "a:p", "p.000001")
    lose(world, "a:q", "q.000001")
    lose(world, "a:r", "r.000001")
    found = recover(world, third)
    assert [one.jedi_task_id for one in found.tasks] == [first, second, third]
    cycle(world)
    assert [row_of(world, one).status for one in (first, second, third)] == ["done"] * 3
    assert there(world, "a:r") == ["r.000002", "r.000003", "r.000004"]
    assert files(world, third, "input") == dict.fromkeys(
        ["q.000002", "q.000003", "q.000004"], "finished"
    )
    assert [jobs(world, one) for one in (first, second, third)] == [4, 4, 4]


def test_who_has_read_the_old_file_does_not_read_the_new_one(world: World, first: int) -> None:
    child = task(world, "c", "a:p", parentTaskName="p")
    cycle(world)
    lose(world, "a:p", "p.000001")
    recover(world, first)
    cycle(world)  # the child follows and looks at its input again
    row = row_of(world, child)
    assert (row.status, row.attemptnr, jobs(world, child)) == ("done", 2, 3)
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", child, "incexec")
    cycle(world)
    assert (row_of(world, child).status, jobs(world, child)) == ("done", 3)


def test_nothing_is_read_twice_when_what_is_made_again_is_combined(
    world: World, first: int
) -> None:
    lose(world, "a:p", "p.000001")
    some = task(world, "some", "a:p")
    cycle(world)
    none = task(world, "none", "a:p", maxAttempt=1)
    cycle(world, jobs_end_too=False)
    for job in jobs_of(world, none):
        fail_one(world, job)
    cycle(world)
    assert [row_of(world, one).status for one in (some, none)] == ["done", "failed"]
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", first, "incexec", {"parameters": {"nFilesPerJob": 2}})
    cycle(world)
    recover(world, first, files=["p.000001", "p.000002"], sole=True)
    cycle(world)
    assert there(world, "a:p") == ["p.000003", "p.000004"]
    for one in (some, none):
        with world.engine.begin() as tx:
            commanding.command(tx, "anna", one, "incexec")
    cycle(world)
    assert jobs(world, some) == 2
    assert files(world, some, "input") == {"p.000002": "finished", "p.000003": "finished"}
    assert files(world, none, "input") == {"p.000004": "finished", "p.000003": "finished"}
    assert row_of(world, none).status == "done"


def test_a_child_that_missed_the_file_gets_it_then(world: World, first: int) -> None:
    lose(world, "a:p", "p.000001")
    child = task(world, "c", "a:p", parentTaskName="p")
    cycle(world)
    assert len(files(world, child, "input")) == 2
    recover(world, first, sole=True)
    cycle(world)
    assert len(files(world, child, "input")) == 2
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", child, "incexec")
    cycle(world)
    assert files(world, child, "input").keys() == {"p.000002", "p.000003", "p.000004"}


# --------------------------------------------------------------------------------- bad moments


def test_who_may_recover_what_and_when(world: World, first: int) -> None:
    lose(world, "a:p", "p.000001")
    with pytest.raises(Forbidden, match="belongs to anna"):
        recover(world, first, who="bob")
    with pytest.raises(NotFound, match="There is no task 99"):
        recover(world, 99)
    with pytest.raises(NotFound, match="No task has written files of demo:in"):
        recover(world, dataset="demo:in")
    with pytest.raises(NotFound, match="No task has written files of a:typo"):
        recover(world, first, dataset="a:typo")  # the task beside it hides no mistake
    unnamed: list[dict[str, Any]] = [{}, {"dataset": ""}, {"files": ["p.000001"]}]
    for more in unnamed:
        with pytest.raises(BadInput, match=r"nothing is named\. Name tasks, or a dataset"):
            recover(world, **more)
    several = recover(world, first, 99)  # the unknown one stops no other
    assert [one.jedi_task_id for one in several.tasks] == [first]
    assert [(one.jedi_task_id, one.error) for one in several.refused] == [(99, "not_found")]
    rows(world, "DELETE FROM jedi_commands RETURNING 1")
    beside = recover(world, 98, 99, dataset="a:p")  # nor do two stop the makers of a dataset
    assert [one.jedi_task_id for one in beside.tasks] == [first]
    TaskCommando(world).run_once()
    with pytest.raises(Refused, match="is being recovered already"):
        recover(world, first)
    cycle(world)
    assert row_of(world, first).status == "done"


def test_a_lost_worker_leaves_the_rest_to_another(world: World, first: int) -> None:
    recover(world, first, files=["p.000001"])
    agent = TaskCommando(world)
    assert [agent.run_once() for _ in range(2)] == [1, 1]  # taken up, given up
    assert there(world, "a:p") == ["p.000001", "p.000002", "p.000003"]
    with world.engine.begin() as tx:
        [order] = agent.claim(tx, 10)  # and dies
        end_leases(tx)
    cycle(world)
    with world.engine.begin() as tx:
        agent.apply(tx, [(order, agent.work(order))])
    assert there(world, "a:p") == ["p.000002", "p.000003", "p.000004"]
    assert row_of(world, first).attemptnr == 2


# --------------------------------------------------------------------------------- by events


def test_files_processed_in_part_are_processed_anew(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    found = task(
        world, "e", nFilesPerJob=None, nEventsPerJob=5, nEventsPerInputFile=10, maxAttempt=1
    )
    cycle(world, jobs_end_too=False)
    with world.engine.begin() as tx:
        panda_ids = list(tx.scalars(text("SELECT pandaid FROM jedi_jobs ORDER BY pandaid")))
    assert len(panda_ids) == 4
    fail_one(world, panda_ids[-1])
    cycle(world)
    assert row_of(world, found).status == "finished"
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", found, "retry", {"discard": True})
    cycle(world)
    assert row_of(world, found).status == "done"
    assert jobs(world, found) == 6
    assert there(world, "a:e") == ["e.000001", "e.000002", "e.000005", "e.000006"]


# --------------------------------------------------------------------------------- by merging


def test_merged_files_are_made_again_from_the_first_inputs(world: World) -> None:
    found = task_of(world, 4, nFilesPerMergeJob=2)
    assert merged_at_last(world, found) == "done"
    assert sorted(files(world, found)) == ["o.000001", "o.000002"]
    with world.engine.begin() as tx:
        service.recover(call(tx, "anna", ddm=world.ddm), [found], files=["o.000002"])
    assert merged_at_last(world, found) == "done"
    assert files(world, found) == {
        "o.000001": "finished",
        "o.000002": "failed",
        "o.000003": "finished",
    }
    assert Counter(kinds(world, found).elements()) == {
        ("normal", "finished"): 6,
        ("merge", "finished"): 3,
    }
    sound(world)


def test_a_merged_file_that_is_made_again_is_not_read_twice(world: World) -> None:
    found = task_of(world, 4, nFilesPerMergeJob=2)
    assert merged_at_last(world, found) == "done"
    child = task(world, "c", "a:out")
    cycle(world)
    with world.engine.begin() as tx:
        service.recover(call(tx, "anna", ddm=world.ddm), [found], files=["o.000002"])
    assert merged_at_last(world, found) == "done"
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", child, "incexec")
    cycle(world)
    assert files(world, child, "input") == {"o.000001": "finished", "o.000002": "finished"}
    assert jobs(world, child) == 2
