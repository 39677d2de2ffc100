"""Parents and children: who waits for whom, who is taken along, who follows."""

# Raw UPDATEs: a parent of a parent that has ended.

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from support.helpers import put_file_dataset
from support.situations import make_due
from support.statuses import input_statuses, statuses
from support.task_rows import INPUT, OUTPUT, row_of
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput
from jedi.postprocessor.agent import PostProcessor
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.storing import submit
from jedi.service.tasks.commanding import command
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import datasets
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner


def task(world: World, name: str, reads: str, parent: str | None = None, **keys: Any) -> int:
    """A submitted task that writes a:<name>."""
    if parent:
        keys["parentTaskName"] = parent
    document = {
        "taskName": name,
        "site": "SITE_A",
        "nFilesPerJob": 1,
        "jobParameters": [
            {**INPUT, "dataset": reads},
            {**OUTPUT, "value": f"> {name}.${{SN}}", "dataset": f"a:{name}"},
        ],
        **keys,
    }
    with world.engine.begin() as tx:
        return submit(
            tx, world.ddm, examined(Document(json.dumps(document), "json", Path()), "anna")
        ).jedi_task_id


@pytest.fixture
def parent(world: World) -> int:
    """A task `p` over two files."""
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    return task(world, "p", "demo:in", maxAttempt=1)


def ask(world: World, task_id: int, name: str, **arguments: Any) -> None:
    with world.engine.begin() as tx:
        command(tx, "anna", task_id, name, arguments)


def status(world: World, task_id: int) -> tuple[str, str]:
    row = row_of(world, task_id)
    return row.status, row.reason_code


def work(world: World) -> None:
    cycle(world, jobs_end_too=False)


def test_a_child_waits_for_its_parent(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    work(world)
    assert status(world, child) == ("registered", "parent_not_ready")
    assert row_of(world, child).parent_tid == parent
    assert TaskRefiner(world).run_once() == 0
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]
    assert len(input_statuses(world, child)) == 2


def test_a_child_with_an_open_container_is_looked_at_once_a_period(
    world: World, parent: int
) -> None:
    """Open input is read every 5 min (contentsfeeder.recheck_s), also once the parent has ended."""
    world.ddm.create("demo:all", ENDPOINT, container=True)
    child = task(world, "c", "demo:all", parent="p")
    work(world)
    end_jobs(world, of=[parent])
    work(world)
    assert row_of(world, parent).status == "done"
    row = row_of(world, child)
    assert (row.status, row.reason_code) == ("registered", "input_open")
    assert row.next_run_at - row.modificationtime == timedelta(minutes=5)
    assert TaskRefiner(world).run_once() == 0


def test_a_child_that_does_not_wait_works_on_what_its_parent_makes(
    world: World, parent: int
) -> None:
    child = task(world, "c", "a:p", parent="p", noWaitParent=True)
    work(world)
    assert row_of(world, child).status == "defined"
    end_jobs(world, of=[parent])
    ContentsFeeder(world).run_once()
    assert row_of(world, child).status == "ready"
    assert set(input_statuses(world, child).values()) == {"ready"}
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]


def test_a_child_does_not_end_before_its_parent(world: World, parent: int) -> None:
    child = task(world, "c", "demo:in", parent="p", noWaitParent=True)
    work(world)
    end_jobs(world, of=[child])
    work(world)
    assert row_of(world, child).status == "running"
    end_jobs(world, of=[parent])
    work(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]


@pytest.mark.parametrize("eager", [False, True])
def test_the_end_of_a_parent_is_that_of_its_children(
    world: World, parent: int, eager: bool
) -> None:
    child = task(world, "c", "demo:in", parent="p", noWaitParent=eager)
    grandchild = task(world, "g", "a:c", parent="c")
    work(world)
    ask(world, parent, "kill")
    work(world)
    assert row_of(world, parent).status == "aborted"
    for one, whose in ((child, parent), (grandchild, child)):
        assert status(world, one) == ("aborted", "parent_failed")
        assert f"task {whose}, is aborted" in row_of(world, one).errordialog


def test_a_failed_parent_takes_its_children_along(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    work(world)
    end_jobs(world, "failed")
    work(world)
    assert row_of(world, parent).status == "failed"
    assert status(world, child) == ("aborted", "parent_failed")


@pytest.mark.parametrize("ended", [False, True])
def test_a_child_whose_parent_made_nothing_ends_with_it(
    world: World, parent: int, ended: bool
) -> None:
    """It is not broken for lack of input, whoever looks first."""
    child = task(world, "c", "a:p", parent="p", noWaitParent=True)
    work(world)
    end_jobs(world, "failed")
    PostProcessor(world).run_once()
    if ended:
        PostProcessor(world).run_once()
    world.ddm.close("a:p")
    assert row_of(world, parent).status == ("failed" if ended else "prepared")
    with world.engine.begin() as tx:
        make_due(tx)
    assert ContentsFeeder(world).run_once() == 1
    assert row_of(world, child).status == "defined"
    work(world)
    assert status(world, child) == ("aborted", "parent_failed")


def test_a_child_of_a_parent_that_is_not_done_is_not_done(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    work(world)
    with world.engine.begin() as tx:
        last = tx.scalar(text("SELECT max(pandaid) FROM jedi_jobs"))
    fail_one(world, last)
    cycle(world)
    assert row_of(world, parent).status == "finished"
    row = row_of(world, child)
    assert (row.status, row.errordialog) == (
        "finished",
        "1 of 1 input files were processed; its parent is finished.",
    )


def fail_one(world: World, panda_id: int) -> None:
    with world.engine.begin() as tx:
        assert job_ends.end_jobs(tx, [JobEnd(panda_id, "failed", "c", "r")], "test")


def half_way(world: World, parent: int) -> None:
    """Let the parent end with one of its two files failed, and its children go on to work."""
    work(world)
    with world.engine.begin() as tx:
        last = tx.scalar(
            text("SELECT max(pandaid) FROM jedi_jobs WHERE jeditaskid = :t"), {"t": parent}
        )
    fail_one(world, last)
    end_jobs(world, of=[parent])
    work(world)
    assert row_of(world, parent).status == "finished"


def half_done(world: World, parent: int) -> None:
    """Let its children end, too."""
    half_way(world, parent)
    cycle(world)


def test_children_follow_a_retry(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    grandchild = task(world, "g", "a:c", parent="c")
    half_done(world, parent)
    assert [row_of(world, i).status for i in (child, grandchild)] == ["finished", "finished"]
    ask(world, parent, "retry")
    work(world)
    assert row_of(world, parent).status == "running"
    assert status(world, child)[0] == status(world, grandchild)[0] == "registered"
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child, grandchild)] == ["done"] * 3
    assert [len(input_statuses(world, i)) for i in (child, grandchild)] == [2, 2]
    assert row_of(world, child).attemptnr == 2


def test_children_of_a_sole_retry_stay(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    half_done(world, parent)
    ask(world, parent, "retry", sole=True)
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "finished"]


def test_a_child_at_work_sees_what_a_retry_makes(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    work(world)
    with world.engine.begin() as tx:
        last = tx.scalar(text("SELECT max(pandaid) FROM jedi_jobs"))
    fail_one(world, last)
    end_jobs(world, of=[parent])
    work(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["finished", "running"]
    ask(world, parent, "retry")
    work(world)
    end_jobs(world, of=[child])
    work(world)
    assert row_of(world, child).status == "defined"
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]
    assert len(input_statuses(world, child)) == 2


def test_a_child_that_waits_for_other_input_sees_what_a_retry_makes(
    world: World, parent: int
) -> None:
    put_file_dataset(world, "demo:open", {"o": b"o"}, ENDPOINT, closed=False)
    child = task(world, "c", "a:p,demo:open", parent="p", skipScout=True)
    half_way(world, parent)
    end_jobs(world, of=[child])
    work(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["finished", "defined"]
    ask(world, parent, "retry")
    cycle(world)
    world.ddm.close("demo:open")
    with world.engine.begin() as tx:
        datasets.wake_consumers(tx, ["demo:open"])
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]
    assert set(input_statuses(world, child)) == {"p.000001", "p.000003", "o"}


@pytest.mark.parametrize("paused", [False, True])
def test_a_child_about_to_end_begins_anew(world: World, parent: int, paused: bool) -> None:
    child = task(world, "c", "a:p", parent="p")
    half_way(world, parent)
    end_jobs(world, of=[child])
    assert PostProcessor(world).run_once() == 1
    assert row_of(world, child).status == "prepared"
    if paused:
        ask(world, child, "pause")
        TaskCommando(world).run_once()
    ask(world, parent, "retry")
    work(world)
    if paused:
        assert status(world, child) == ("paused", "parent_retried")
        ask(world, child, "resume")
        work(world)
    assert row_of(world, child).status == "registered"
    cycle(world)
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]
    assert set(input_statuses(world, child)) == {"p.000001", "p.000003"}


def test_a_child_at_work_reads_a_dataset_that_a_container_got(world: World) -> None:
    """The second attempt of the parent runs at another site: its output is another dataset. With
    secondary files, each master has its own."""
    for endpoint in (ENDPOINT, "SITE_B_DATADISK"):
        put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, endpoint)
    put_file_dataset(world, "demo:second", {"s": b"s"}, ENDPOINT)
    parent = task(world, "p", "demo:in", maxAttempt=1, instantiateTmplSite=True)
    second = {**INPUT, "value": "${IN2}", "dataset": "demo:second", "attributes": "repeat"}
    child = task(
        world,
        "c",
        "a:p",
        parent="p",
        jobParameters=[{**INPUT, "dataset": "a:p"}, second, {**OUTPUT, "dataset": "a:c"}],
    )
    half_way(world, parent)
    assert row_of(world, child).status == "running"
    ask(world, parent, "incexec", parameters={"site": "SITE_B"})
    cycle(world)
    assert len(world.ddm.constituents("a:p")) == 2
    assert [row_of(world, i).status for i in (parent, child)] == ["done", "done"]
    found = input_statuses(world, child)
    assert {"p.000001": "finished", "p.000003": "finished"}.items() <= found.items()
    assert statuses(world, child, "datasets", type="input") == ["done"] * 4


def test_aborted_children_do_not_follow(world: World, parent: int) -> None:
    child = task(world, "c", "a:p", parent="p")
    grandchild = task(world, "g", "a:c", parent="c")
    work(world)
    ask(world, child, "kill")
    half_done(world, parent)
    ask(world, parent, "retry")
    cycle(world)
    found = [row_of(world, i).status for i in (parent, child, grandchild)]
    assert found == ["done", "aborted", "aborted"]


def problems(world: World, **keys: Any) -> str:
    with pytest.raises(BadInput) as refused:
        task(world, "c", "demo:in", **keys)
    return str(refused.value)


def test_a_parent_has_to_be_there_and_alive(world: World, parent: int) -> None:
    told = problems(world, parent="q")
    assert "parentTaskName" in told and "anna has no task of this name" in told
    assert "the task has no parent" in problems(world, noWaitParent=True)
    ask(world, parent, "kill")
    work(world)
    assert f"task {parent}, the last one of this name, is aborted" in problems(world, parent="p")


def test_a_task_is_not_its_own_parent(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    told = problems(world, parent="c")
    assert "a task can't be its own parent" in told and "has no task of this name" not in told


def test_an_eager_child_looks_as_its_parent_publishes(world: World, parent: int) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.quiet_s", 0.1, "op")
    child = task(world, "c", "a:p", parent="p", noWaitParent=True)
    work(world)
    end_jobs(world, of=[parent])
    assert ContentsFeeder(world).run_once() == 1
    assert len(input_statuses(world, child)) == 2


def test_a_child_that_checks_leaves_files_out_that_its_parent_did_not_finish(
    world: World, parent: int
) -> None:
    """`a` and `b` of demo:in are no outputs of `p`: the child gets neither, and each has its
    reason (docs/inputs.md)."""
    cycle(world)
    item = {**INPUT, "dataset": "demo:in", "attributes": "check"}
    output = {**OUTPUT, "value": "> k.${SN}", "dataset": "a:k"}
    child = task(world, "k", "demo:in", parent="p", jobParameters=[item, output])
    work(world)
    with world.engine.begin() as tx:
        found = tx.execute(
            text(
                "SELECT lfn, status, reason FROM jedi_dataset_contents "
                "WHERE jeditaskid = :t AND type = 'input' ORDER BY lfn"
            ),
            {"t": child},
        ).all()
    assert [tuple(row) for row in found] == [
        ("a", "skipped", "not_from_parent"),
        ("b", "skipped", "not_from_parent"),
    ]


def test_parents_form_no_circle(world: World, parent: int) -> None:
    """A parent is there before its children: neither people nor programs can change that."""
    second = task(world, "c", "demo:in", parent="p")
    third = task(world, "d", "demo:in", parent="c")
    cycle(world)
    assert {row_of(world, i).status for i in (parent, second, third)} == {"done"}
    with pytest.raises(BadInput, match="can't be changed"):
        ask(world, parent, "incexec", parameters={"parentTaskName": "d"})
    with pytest.raises(IntegrityError, match="jedi_tasks_parent_ck"), world.engine.begin() as tx:
        tx.exec_driver_sql(
            "UPDATE jedi_tasks SET parent_tid = %s WHERE jeditaskid = %s", (third, parent)
        )
    # JEDI document: other parameters "are not changed even if they show up in the cliParams field"
    assert task(world, "p", "demo:in", parent="d", maxAttempt=1) == parent
    assert row_of(world, parent).parent_tid == parent
