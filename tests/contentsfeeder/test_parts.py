"""A large closed dataset is fed part by part; tasks, jobs and files end as if it were fed at once.

The seed is silent. docs/knobs.md: `contentsfeeder.part_files` files of a closed dataset are listed
and fed at once, in whole jobs; the next ones follow at once.
"""

# Raw UPDATEs: an open dataset is looked up again without waiting.

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import ask
from support.commanding import cycle as commanded
from support.generating import catalogue as listed
from support.generating import document, ready, rows, use
from support.helpers import put_file_dataset
from support.open_datasets import grow, master
from support.pages import nodes, plan_of, rows_of_node
from support.statuses import input_statuses
from support.task_rows import good, put, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm import interface
from jedi.ddm.interface import FileInfo
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs import catalogue, datasets
from jedi.taskrefiner.agent import TaskRefiner

LFNS = [f"f{number:02d}" for number in range(10)]


@pytest.fixture
def world(world: World) -> World:
    """A world whose catalogue lists parts, and feeds four files at once."""
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.part_files", 4, "test")
    use(
        world, SqlCatalogueDDM(world.engine, {ENDPOINT: world.settings.home / "storage" / "SITE_A"})
    )
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in LFNS}, ENDPOINT)
    return world


def start(world: World, **keys: Any) -> int:
    (task_id,) = put(world, good(site="SITE_A", **{"skipScout": True, "nFilesPerJob": 2, **keys}))
    assert TaskRefiner(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1
    return task_id


def fed(world: World) -> tuple[int, int, str, str | None]:
    """Files, those released, the status of the dataset and the last file listed."""
    found = master(world)
    return found.nfiles, found.nfilestobeused, found.status, found.fed_upto


def units(world: World) -> list[int]:
    """The numbers of inputs of the jobs."""
    return [row.n_inputs for row in rows(world, "SELECT n_inputs FROM jedi_jobs ORDER BY pandaid")]


def test_parts_follow_each_other_at_once(world: World) -> None:
    task_id = start(world)
    assert fed(world) == (4, 4, "running", "f03")
    assert row_of(world, task_id).status == "ready"
    feeder = ContentsFeeder(world)
    assert feeder.look() == 1 and fed(world) == (8, 8, "running", "f07")
    assert row_of(world, task_id).errordialog == "The next part of the input was fed."
    assert feeder.look() == 1 and fed(world) == (10, 10, "ready", None)
    assert feeder.look() == 0
    lfns = "SELECT lfn FROM jedi_dataset_contents WHERE type = 'input' ORDER BY fileid"
    assert [row.lfn for row in rows(world, lfns)] == LFNS
    cycle(world)
    assert units(world) == [2] * 5
    assert row_of(world, task_id).status == "done"


def test_the_last_part_may_be_empty(world: World) -> None:
    grow(world, "f10", "f11")
    world.ddm.close("demo:in")
    start(world)
    feeder = ContentsFeeder(world)
    assert [feeder.look() for _ in range(4)] == [1, 1, 1, 0]
    assert fed(world) == (12, 12, "ready", None)


def test_parts_are_whole_jobs(world: World) -> None:
    """3 files a job: 3 of 4 make one, and 10 make three and a smaller one."""
    start(world, nFilesPerJob=3)
    assert fed(world) == (3, 3, "running", "f02")
    cycle(world)
    assert units(world) == [3, 3, 3, 1]


def test_a_job_may_have_more_files_than_a_part(world: World) -> None:
    start(world, nFilesPerJob=7)
    assert fed(world) == (7, 7, "running", "f06")
    cycle(world)
    assert units(world) == [7, 3]


def test_scouts_of_the_first_part(world: World) -> None:
    task_id = start(world, skipScout=False, nFilesPerJob=1)
    cycle(world)
    assert row_of(world, task_id).status == "done"
    assert set(input_statuses(world, task_id).values()) == {"finished"} and len(units(world)) == 10


def test_files_that_come_between_two_parts_are_fed_too(world: World) -> None:
    """The dataset is opened between two parts, and a file comes before the place of the look."""
    task_id = start(world)
    grow(world, "e99", "f10")
    assert ContentsFeeder(world).look() == 1
    assert fed(world)[2:] == ("running", None)  # from now on as any open dataset
    world.ddm.close("demo:in")
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET statechecktime = NULL"))
    cycle(world)
    assert input_statuses(world, task_id) == dict.fromkeys([*LFNS, "e99", "f10"], "finished")


def test_files_added_between_two_looks_are_fed_too(world: World) -> None:
    """The dataset is opened, filled and closed again before the next look: that part is the last
    one, and there are more files than rows."""
    task_id = start(world)
    grow(world, "e99", "f10")
    world.ddm.close("demo:in")
    feeder = ContentsFeeder(world)
    assert [feeder.look(), feeder.look(), feeder.look()] == [1, 1, 0]
    assert fed(world) == (12, 12, "ready", None)
    cycle(world)
    assert input_statuses(world, task_id) == dict.fromkeys([*LFNS, "e99", "f10"], "finished")
    assert row_of(world, task_id).status == "done"


def test_too_many_files_are_noticed_with_the_first_part(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.max_records", 9, "test")
    task_id = start(world)
    found = row_of(world, task_id)
    assert (found.status, found.reason_code) == ("tobroken", "too_many_files")
    assert "10 files, more than 9" in found.errordialog and master(world).nfiles == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"nFiles": 9},
        {"nEventsPerJob": 1, "nEventsPerInputFile": 2},
        {"orderByLB": True},
        {"nFilesPerJob": 2, "skipFilesUsedBy": [999]},
    ],
    ids=json.dumps,
)
def test_choices_and_orders_need_the_whole_dataset(world: World, keys: dict[str, Any]) -> None:
    start(world, **keys)
    assert master(world).nfiles >= 9 and fed(world)[2:] == ("ready", None)


def test_only_the_first_and_the_last_part_count_all_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count with each part would grow with the square of the files."""
    parts = [world.ddm.list_part("demo:in", after, 4) for after in (None, "f03", "f07")]
    assert [(len(one.files), one.more, one.total) for one in parts] == [
        (4, True, 10),
        (4, True, None),
        (2, False, 10),
    ]
    monkeypatch.setattr(interface, "_AT_ONCE", 5)
    assert [sorted(some) for some in interface.names_in_parts(world.ddm, "demo:in")] == [
        LFNS[:5],
        LFNS[5:],
        [],
    ]


def test_a_part_of_a_large_dataset_is_found_by_an_index(world: World) -> None:
    """No sort: else each part would cost as much as the whole dataset."""
    values = {"name": "demo:in", "after": "f03", "limit": 4}
    with world.engine.begin() as tx:
        assert [row.lfn for row in catalogue.list_part(tx, "demo:in", "f03", 4)] == LFNS[4:8]
        for way in ("seqscan", "bitmapscan", "sort"):  # few files are sorted
            tx.execute(text(f"SET LOCAL enable_{way} = off"))
        plan = str(tx.scalars(text(f"EXPLAIN {catalogue._PART.sql}"), values).all())
    assert "Sort" not in plan


def looked_up(world: World, **keys: Any) -> tuple[list[dict[str, Any]], Any]:
    """The parts of the plan that find the input of a task, as they ran, and the input: an open
    dataset of 500 files of 10 events in the lumi blocks 0 and 1."""
    listed(
        world,
        in_=[
            FileInfo(f"f{n:03}", 10, "00000001", None, 10, lumiblock=n // 250) for n in range(500)
        ],
    ).state = "open"
    (task_id,) = ready(world, document(**keys))
    values = {"ids": [task_id], "types": ["input"], "ranges": ["n_events_per_job"]}
    with world.engine.begin() as tx:
        (row,) = datasets.inputs(tx, [task_id])
    return list(nodes(plan_of(world.engine, datasets._READ_INPUTS, **values))), row


def test_a_look_reads_no_known_file_that_is_no_range(world: World) -> None:
    """Else each part costs as much as all that were fed before."""
    plan, row = looked_up(world, nFilesPerJob=10)
    of_files = [one for one in plan if one.get("Relation Name") == "jedi_dataset_contents"]
    assert of_files and not any(one["Actual Loops"] for one in of_files)
    assert (row.files, row.last_lumiblock, row.last_events) == (500, None, None)


def test_a_look_reads_ranges_a_few_times(world: World) -> None:
    """All 500 are counted; the 250 of the last lumi block are sought and added up. Each step meets
    each row once: not each with each."""
    plan, row = looked_up(world, nEventsPerJob=10, respectLB=True)
    assert (row.files, row.last_lumiblock, row.last_events) == (500, 1, 2500)
    assert max(map(rows_of_node, plan)) <= 500
    dropped = [one.get("Rows Removed by Filter", 0) * one["Actual Loops"] for one in plan]
    assert max(dropped) <= 250


def test_a_retry_goes_on_with_the_next_part(world: World) -> None:
    """`finished`: some inputs were not processed since the task was terminated."""
    task_id = start(world)
    assert fed(world) == (4, 4, "running", "f03")
    ask(world, task_id, "finish")
    commanded(world)
    assert row_of(world, task_id).status == "failed"
    ask(world, task_id, "retry")
    cycle(world)
    assert row_of(world, task_id).status == "done"
    assert input_statuses(world, task_id) == dict.fromkeys(LFNS, "finished")
