"""Files and other entries of a dataset that no job gets: each has a row, a status and a reason.

contracts 17: "files of 0 events, and whatever else a rule leaves out: have a contents row with a
status and a reason; processed + failed + left out = the dataset's files, in show, files, plan,
check"; "regular files and links that end at regular files inside the endpoint are files (the
content is the target's); all other entries are left out, each with a reason; none holds or breaks
the whole task".
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.calls import call
from support.generating import SECOND, catalogue, document, ready, rows
from support.helpers import put_file_dataset
from support.open_datasets import grow
from support.statuses import input_statuses, statuses
from support.task_rows import INPUT, OUTPUT, good, put, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import FileInfo
from jedi.model.queries import FileQuery
from jedi.service.datasets import dataset_details
from jedi.service.planning import text_plans
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.inputs import contents
from jedi.taskbuffer.inputs.datasets import wake_consumers
from jedi.taskbuffer.reports.listings import DatasetSummary
from jedi.taskrefiner.agent import TaskRefiner


def home_of(world: World, name: str = "demo:in") -> Path:
    """The directory of a dataset at SITE_A."""
    return Path(world.ddm.where(ENDPOINT, name, "f")).parent


def reasons(world: World, task: int) -> dict[str, str]:
    """The reasons of a task's files that are left out, by LFN."""
    with world.engine.begin() as tx:
        found = service.files(call(tx), task, query=FileQuery(["input"], ["skipped"]))
    return {file.lfn: file.reason or "" for file in found}


def shown(world: World, task: int) -> DatasetSummary:
    """The master of a task, as `show` lists it."""
    with world.engine.begin() as tx:
        return next(d for d in service.show(call(tx), task).datasets if d.type == "input")


def start(world: World, **keys: Any) -> int:
    (task,) = put(world, good(site="SITE_A", skipScout=True, **keys))
    assert TaskRefiner(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1
    return task


def with_events(world: World, **events: int) -> None:
    """demo:in with files of so many events."""
    put_file_dataset(world, "demo:in", dict.fromkeys(events, b"x"), ENDPOINT)
    said = "".join(f"  {lfn}: {{nevents: {n}}}\n" for lfn, n in events.items())
    (home_of(world) / ".dataset.yaml").write_text(f"files:\n{said}")


def test_files_without_events_are_left_out_and_files_are_counted_not_ranges(world: World) -> None:
    """Files of 120, 0 and 50 events and jobs of 50: four ranges, two files, one left out."""
    with_events(world, a=120, b=0, c=50)
    task = start(world, nEventsPerJob=50)
    assert reasons(world, task) == {"b": "no_events"}
    found = shown(world, task)
    assert (found.n_files, found.n_left_out, found.left_out) == (2, 1, {"no_events": 1})
    assert (found.n_files_to_be_used, found.n_files_finished) == (
        4 + 1,
        0,
    )  # 120+50: 50 50 20|30 20
    cycle(world)
    assert row_of(world, task).status == "done"
    found = shown(world, task)
    assert (found.n_files_finished, found.n_files_failed, found.n_left_out) == (2, 0, 1)


def test_a_dataset_of_files_without_events_says_so(world: World) -> None:
    with_events(world, a=0, b=0)
    task = start(world, nEventsPerJob=50)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("tobroken", "input_empty")
    assert row.errordialog == "No file is in demo:in for a job: 2 (no_events 2) left out."
    assert reasons(world, task) == {"a": "no_events", "b": "no_events"}


def test_entries_that_are_no_files_neither_hold_nor_break_a_task(world: World) -> None:
    put_file_dataset(world, "demo:in", {"good": b"abc"}, ENDPOINT)
    home = home_of(world)
    os.mkfifo(home / "fifo")
    (home / "directory").mkdir()
    (home / "dangling").symlink_to("nowhere")
    (home / "outside").symlink_to("/etc/hostname")
    (home / "odd name").write_text("x")
    (home / "link").symlink_to("good")
    task = start(world)
    assert input_statuses(world, task) == {"good": "ready", "link": "ready"}
    assert len(statuses(world, task, "files", status="skipped")) == 5
    assert reasons(world, task) == {
        "fifo": "not_a_file",
        "directory": "not_a_file",
        "dangling": "link_broken",
        "outside": "link_outside",
        "odd name": "bad_file_name",
    }
    cycle(world)
    assert row_of(world, task).status == "done"
    found = shown(world, task)
    assert (found.n_files, found.n_files_finished, found.n_left_out) == (2, 2, 5)


def test_an_entry_that_becomes_a_file_is_used_and_one_that_goes_is_forgotten(world: World) -> None:
    grow(world, "a")
    home = home_of(world)
    (home / "late").symlink_to("../target/t")
    os.mkfifo(home / "fifo")
    task = start(world)
    assert reasons(world, task) == {"late": "link_broken", "fifo": "not_a_file"}
    (home.parent / "target").mkdir()
    (home.parent / "target/t").write_text("content")
    (home / "fifo").unlink()
    with world.engine.begin() as tx:
        wake_consumers(tx, ["demo:in"])
    cycle(world)
    assert input_statuses(world, task) == {"a": "finished", "late": "finished"}
    assert (shown(world, task).n_left_out, shown(world, task).left_out) == (0, {})


@pytest.mark.parametrize(
    ("item", "keys", "expected"),
    [
        ({}, {"nFiles": 2}, {"in000002": "beyond_limit", "in000003": "beyond_limit"}),
        (
            {"include": "in*", "exclude": "*0,*3"},
            {},
            {"in000000": "not_selected", "in000003": "not_selected"},
        ),
        (
            {"files": ["in000001"]},
            {},
            {"in000000": "not_selected", "in000002": "not_selected", "in000003": "not_selected"},
        ),
        (
            {"offset": 1, "num_records": 2},
            {},
            {"in000000": "not_selected", "in000003": "not_selected"},
        ),
        ({}, {"skipShortOutput": True, "nFilesPerJob": 3}, {"in000003": "beyond_limit"}),
    ],
)
def test_each_rule_names_the_files_that_it_leaves_out(
    world: World, item: dict[str, Any], keys: dict[str, Any], expected: dict[str, str]
) -> None:
    catalogue(world, in_=4)
    given = {"taskName": "t", "jobParameters": [{**INPUT, **item}, OUTPUT], "skipScout": True}
    (task,) = ready(world, {**given, **keys})
    assert reasons(world, task) == expected
    found = shown(world, task)
    assert found.n_files + found.n_left_out == 4


def test_short_input_is_left_out(world: World) -> None:
    catalogue(
        world,
        in_=[
            FileInfo(lfn, 10, "00000001", nevents=n) for lfn, n in (("a", 100), ("b", 99), ("c", 0))
        ],
    )
    (task,) = ready(world, document(skipShortInput=True, nEventsPerInputFile=100))
    assert reasons(world, task) == {"b": "too_few_events", "c": "too_few_events"}


def test_files_that_another_task_processed_are_left_out(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    first = start(world)
    cycle(world)
    (home_of(world) / "b").write_text("b")
    second = start(world, skipFilesUsedBy=[first], taskName="second")
    assert reasons(world, second) == {"a": "used_elsewhere"}
    assert input_statuses(world, second) == {"b": "ready"}


def test_a_secondary_file_without_its_master_is_left_out(world: World) -> None:
    catalogue(world, in_=2, second=3)
    (task,) = ready(world, document({**SECOND, "attributes": "indexConsistent"}))
    assert reasons(world, task) == {"second000002": "without_master"}


def test_a_name_that_no_row_can_hold_is_cut(world: World) -> None:
    """A catalogue may have longer names than the 256 characters of an LFN, and any signs."""
    long = [FileInfo("x" * 300 + end, 1, "00000001") for end in "ab"]
    catalogue(world, in_=[FileInfo("f", 1, "00000001"), FileInfo("a\nb", 1, "00000001"), *long])
    (task,) = ready(world, document())
    found = reasons(world, task)
    assert {*found.values()} == {"bad_file_name"} and "a\\nb" in found
    assert sorted(map(len, found)) == [4, 256, 256]


def test_all_are_counted_though_not_all_have_a_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of two files of a million does not write a million rows; entries that are no files
    come first, and all have one."""
    monkeypatch.setattr(contents, "LEFT_OUT_ROWS", 3)
    catalogue(
        world,
        in_=[*(FileInfo(f"f{i}", 1, "00000001") for i in range(8)), FileInfo("z z", 1, "00000001")],
    )
    (task,) = ready(world, document(nFiles=2))
    assert reasons(world, task) == {
        "z z": "bad_file_name",
        "f2": "beyond_limit",
        "f3": "beyond_limit",
    }
    assert (shown(world, task).n_files, shown(world, task).n_left_out) == (2, 7)
    [(dataset,)] = rows(world, "SELECT datasetid FROM jedi_datasets WHERE type = 'input'")
    with world.engine.begin() as tx:
        contents.leave_out(tx, {dataset: {f"a a{i}": "bad_file_name" for i in range(5)}})
    assert len(reasons(world, task)) == shown(world, task).n_left_out == 5


def test_a_plan_counts_files_and_those_that_are_left_out(world: World) -> None:
    """contracts 17: "in show, files, plan, check"; three ranges are no three files."""
    with_events(world, a=100, b=0, c=50)
    os.mkfifo(home_of(world) / "fifo")
    task = json.dumps(good(nEventsPerJob=50, site="SITE_A", skipScout=True))
    with world.engine.begin() as tx:
        plan = text_plans.plan_now(
            tx,
            world.ddm,
            examined(Document(task, "json", Path()), "me"),
            0,
            text_plans.Alternative((), ()),
        ).plan
    assert (plan.files, plan.jobs, plan.files_left) == (2, 3, 0)
    assert plan.left_out == {"no_events": 1, "not_a_file": 1}
    assert plan.files_per_job and (plan.files_per_job.least, plan.files_per_job.most) == (1, 1)


def test_a_dataset_names_left_out_entries_as_rows_do(world: World) -> None:
    """docs/inputs.md: "the row shows other characters escaped": in `jedi dataset list`, too."""
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    for name in (b"new\nline", b"bad\xff"):
        (home_of(world, "demo:in") / os.fsdecode(name)).touch()
    with world.engine.begin() as tx:
        found = dataset_details.summary(call(tx, ddm=world.ddm), "demo:in").left_out
    assert found == {
        "new\\nline": "bad_file_name",
        "bad\\xff": "bad_file_name",
    }
    task = start(world)
    assert reasons(world, task) == found
