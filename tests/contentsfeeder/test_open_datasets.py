"""Open datasets: files are worked on as they come, and the end is the dataset's end."""

# Raw UPDATEs: time passes.

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text
from support.adding import add_files
from support.calls import call
from support.helpers import put_file_dataset
from support.open_datasets import grow, master
from support.situations import make_due
from support.statuses import input_statuses
from support.task_rows import INPUT, OUTPUT, good, put, row_of
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import Unreachable
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import FileInfo
from jedi.jobgenerator.agent import JobGenerator
from jedi.service.datasets import dataset_details
from jedi.service.tasks import commanding, why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs.datasets import wake_consumers
from jedi.taskrefiner.agent import TaskRefiner


def close(world: World, name: str = "demo:in") -> None:
    with world.engine.begin() as tx:
        dataset_details.close_dataset(tx, world.ddm, name)


def start(world: World, **keys: Any) -> int:
    (task_id,) = put(world, good(site="SITE_A", **{"skipScout": True, **keys}))
    assert TaskRefiner(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1
    return task_id


def test_files_are_worked_on_as_they_come(world: World) -> None:
    grow(world, "a", "b")
    task_id = start(world)
    assert (master(world).status, master(world).state) == ("running", "open")
    cycle(world)
    assert input_statuses(world, task_id) == {"a": "finished", "b": "finished"}
    assert (row_of(world, task_id).status, row_of(world, task_id).reason_code) == (
        "defined",
        "input_open",
    )
    grow(world, "c")
    cycle(world)
    assert input_statuses(world, task_id)["c"] == "finished"
    assert row_of(world, task_id).status == "defined"
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"
    assert (master(world).status, master(world).state) == ("done", "closed")


def test_an_empty_open_dataset_is_waited_for(world: World) -> None:
    with world.engine.begin() as tx:
        made = dataset_details.create_dataset(tx, world.ddm, "demo:in", ENDPOINT, is_open=True)
    assert str(made) == "Dataset demo:in (open)"
    task_id = start(world)
    assert (row_of(world, task_id).status, row_of(world, task_id).reason_code) == (
        "defined",
        "input_open",
    )
    assert ContentsFeeder(world).run_once() == 0
    grow(world, "a")
    cycle(world)
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_a_dataset_that_closes_empty_breaks_the_task(world: World) -> None:
    world.ddm.create("demo:in", ENDPOINT)
    task_id = start(world)
    close(world)
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("broken", "input_empty")


def test_files_of_an_open_dataset_come_in_full_jobs(world: World) -> None:
    grow(world, "a", "b", "c")
    task_id = start(world, nFilesPerJob=2)
    assert input_statuses(world, task_id) == {"a": "ready", "b": "ready", "c": "pending"}
    assert (master(world).nfiles, master(world).nfilestobeused) == (3, 2)
    cycle(world)
    grow(world, "d", "e")
    cycle(world)
    expected = dict.fromkeys("abcd", "finished") | {"e": "pending"}
    assert input_statuses(world, task_id) == expected
    close(world)
    cycle(world)
    assert input_statuses(world, task_id) == expected | {"e": "finished"}
    with world.engine.begin() as tx:
        sizes = tx.scalars(text("SELECT n_inputs FROM jedi_jobs ORDER BY pandaid")).all()
    assert list(sizes) == [2, 2, 1]
    assert row_of(world, task_id).status == "done"


def test_a_task_may_wait_for_several_jobs_worth_of_files(world: World) -> None:
    grow(world, *"abc")
    task_id = start(world, nFilesPerJob=2, nChunksToWait=2)
    assert set(input_statuses(world, task_id).values()) == {"pending"}
    grow(world, "d", "e")
    cycle(world, jobs_end_too=False)
    assert input_statuses(world, task_id) == {**dict.fromkeys("abcd", "running"), "e": "pending"}


@pytest.mark.parametrize(("pooled", "expected"), [(True, "pending"), (False, "ready")])
def test_a_preset_may_wait_for_more_jobs(world: World, pooled: bool, expected: str) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.chunks", 3, "test")
    world.refresh()
    grow(world, *"ab")
    task_id = start(world, noInputPooling=not pooled)
    assert set(input_statuses(world, task_id).values()) == {expected}


def test_events_of_an_open_dataset_come_in_full_jobs(world: World) -> None:
    grow(world, "a", "b")
    task_id = start(world, nEventsPerJob=3, nEventsPerInputFile=4)
    query = text(
        "SELECT endevent - startevent + 1 AS n, status FROM jedi_dataset_contents "
        "WHERE type = 'input' ORDER BY fileid"
    )
    with world.engine.begin() as tx:
        found = [(row.n, row.status) for row in tx.execute(query)]
    assert found == [(3, "ready"), (1, "ready"), (2, "ready"), (2, "pending")]
    cycle(world)
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"
    with world.engine.begin() as tx:
        events = tx.scalars(text("SELECT n_events FROM jedi_jobs ORDER BY pandaid")).all()
    assert sorted(events) == [2, 3, 3]


def test_lumi_blocks_of_an_open_dataset_come_when_the_next_has_begun(world: World) -> None:
    blocks = {"a": 1, "b": 1, "c": 2}
    grow(world, *blocks)
    said = {"files": {lfn: {"lumiblock": block} for lfn, block in blocks.items()}}
    home = world.ddm.path(ENDPOINT, "demo:in", "a").parent
    (home / ".dataset.yaml").write_text(json.dumps(said))
    task_id = start(world, releasePerLB=True)
    assert input_statuses(world, task_id) == {"a": "ready", "b": "ready", "c": "pending"}
    cycle(world)
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


@pytest.mark.parametrize("keys", [{"respectLB": True}, {"groupBoundaryID": 1}])
@pytest.mark.parametrize("looks", [["abcd"], ["ab", "c", "d"], ["a", "bc", "d"], ["abc", "d"]])
def test_ranges_go_on_in_a_block_that_grows(
    world: World, looks: list[str], keys: dict[str, Any]
) -> None:
    """Ranges continue the remainder of the previous file; a new lumi block or boundary id begins
    anew. However often the dataset is looked at, the cuts are the same."""
    files = {"a": (150, 1), "b": (120, 2), "c": (130, 2), "d": (150, 3)}
    said = {
        "files": {
            lfn: {"nevents": n, "lumiblock": block, "boundary": block}
            for lfn, (n, block) in files.items()
        }
    }
    for at, lfns in enumerate(looks):
        grow(world, *lfns)
        home = world.ddm.path(ENDPOINT, "demo:in", "a").parent
        (home / ".dataset.yaml").write_text(json.dumps(said))
        if at:
            make_due(world)
            assert ContentsFeeder(world).run_once() == 1
        else:
            start(world, nEventsPerJob=100, **keys)
    query = text(
        "SELECT lfn, startevent, endevent FROM jedi_dataset_contents "
        "WHERE type = 'input' ORDER BY fileid"
    )
    with world.engine.begin() as tx:
        found = [tuple(row) for row in tx.execute(query)]
    assert found == [
        ("a", 0, 99),
        ("a", 100, 149),
        ("b", 0, 99),
        ("b", 100, 119),
        ("c", 0, 79),
        ("c", 80, 129),
        ("d", 0, 99),
        ("d", 100, 149),
    ]


def test_input_that_nobody_knows_yet_may_be_waited_for(world: World) -> None:
    task_id = start(world, waitInput=True)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("defined", "input_awaited")
    grow(world, "a")
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_a_workflow_says_when_nothing_more_comes(world: World) -> None:
    put_file_dataset(world, "demo:in", dict.fromkeys("abc", b"x"), ENDPOINT)
    task_id = start(world, nFilesPerJob=2, workflowHoldup=True)
    assert (master(world).status, master(world).state) == ("running", "closed")
    cycle(world)
    assert input_statuses(world, task_id) == {"a": "finished", "b": "finished", "c": "pending"}
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("defined", "workflow_hold")
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "release")
    cycle(world)
    assert set(input_statuses(world, task_id).values()) == {"finished"}
    assert row_of(world, task_id).status == "done"


def test_enough_files_end_the_wait(world: World) -> None:
    grow(world, "a", "b", "c")
    task_id = start(world, nFiles=3, nFilesPerJob=2)
    assert (master(world).status, master(world).state) == ("ready", "open")
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_followers_of_an_open_master_grow_at_once(world: World) -> None:
    second = {**INPUT, "value": "${IN2}", "dataset": "demo:second"}
    grow(world, "a", "b")
    grow(world, "x", name="demo:second")
    task_id = start(world, nFilesPerJob=2, jobParameters=[INPUT, second, OUTPUT])
    assert input_statuses(world, task_id) == dict.fromkeys("abx", "ready")
    cycle(world)
    assert set(input_statuses(world, task_id).values()) == {"ready"}
    assert row_of(world, task_id).reason_code == "secondary_files_short"
    grow(world, "y", name="demo:second")
    cycle(world)
    assert set(input_statuses(world, task_id).values()) == {"finished"}
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_a_task_at_work_looks_again_in_time(world: World) -> None:
    grow(world, "a")
    task_id = start(world)
    assert JobGenerator(world).run_once() == 1
    put_file_dataset(world, "demo:in", {"b": b"b"}, ENDPOINT, closed=False)
    assert ContentsFeeder(world).run_once() == 0
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_datasets SET statechecktime = statechecktime - interval '301 s'")
        )
    assert ContentsFeeder(world).run_once() == 1
    assert input_statuses(world, task_id) == {"a": "running", "b": "ready"}
    assert row_of(world, task_id).status == "running"
    assert ContentsFeeder(world).run_once() == 0


def test_files_that_vanish_are_lost_until_they_are_back(world: World) -> None:
    grow(world, "a", "b", "c")
    task_id = start(world, nFilesPerJob=2)
    for lfn in "bc":
        world.ddm.path(ENDPOINT, "demo:in", lfn).unlink()
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET statechecktime = NULL"))
    assert ContentsFeeder(world).run_once() == 1
    assert input_statuses(world, task_id) == {"a": "ready", "b": "lost", "c": "lost"}
    assert (master(world).nfilestobeused, master(world).nfilesmissing) == (3, 2)
    cycle(world)
    grow(world, "b")
    cycle(world)
    assert input_statuses(world, task_id) == {"a": "finished", "b": "finished", "c": "lost"}
    close(world)
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.errordialog) == (
        "finished",
        "2 of 3 input files were processed; 1 missing.",
    )


def test_a_dataset_that_vanishes_ends_the_task_with_what_it_has(world: World) -> None:
    grow(world, "a")
    task_id = start(world)
    cycle(world)
    world.ddm.delete("demo:in")
    with world.engine.begin() as tx:
        make_due(tx)
    cycle(world)
    assert master(world).status == "broken"
    assert row_of(world, task_id).status == "finished"


def test_trouble_with_storage_does_not_stop_a_task_at_work(world: World) -> None:
    grow(world, "a")
    task_id = start(world)
    assert JobGenerator(world).run_once() == 1

    class Away:
        def growth(self, name: str) -> None:
            raise Unreachable("Storage is away.")

    there, away = world.load_ddm, Away()
    world.load_ddm = lambda _tx, _knobs: away  # type: ignore[assignment, return-value]
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_datasets SET statechecktime = NULL"))
    assert ContentsFeeder(world).run_once() == 1
    task = row_of(world, task_id)
    assert (task.status, task.reason_code, task.lockedby) == ("running", "feeding_failed", None)
    assert ContentsFeeder(world).run_once() == 0
    world.load_ddm = there
    world.refresh()
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


@pytest.mark.parametrize("closed", [True, False])
def test_adding_files_leaves_an_open_dataset_open(
    world: World, closed: bool, tmp_path: Any
) -> None:
    if not closed:
        world.ddm.create("demo:in", ENDPOINT)
    (tmp_path / "a.txt").write_text("a")
    with world.engine.begin() as tx:
        add_files(tx, world.ddm, "demo:in", [tmp_path / "a.txt"], ENDPOINT)
    assert world.ddm.dataset("demo:in").state == ("closed" if closed else "open")


# -------------------------------------------------------------------------------------- scouts


def released(world: World) -> tuple[int, int, int]:
    """How many files of the master there are, may be used, and jobs took."""
    row = master(world)
    return row.nfiles, row.nfilestobeused, row.nfilesused


def test_scouts_are_made_of_what_is_there_until_there_are_ten(world: World) -> None:
    grow(world, *"abc")
    task_id = start(world, skipScout=False)
    assert (released(world), row_of(world, task_id).splitrule) == ((3, 3, 0), "US=2")
    cycle(world)
    assert row_of(world, task_id).status == "scouting"  # more scouts are waited for
    grow(world, *"defghijklmno")
    cycle(world, jobs_end_too=False)
    assert released(world) == (15, 10, 10)  # the others wait
    grow(world, *"pq")
    cycle(world, jobs_end_too=False)
    assert released(world) == (17, 10, 10)
    with world.engine.begin() as tx:
        kinds = tx.scalars(text("SELECT DISTINCT kind FROM jedi_jobs")).all()
    assert list(kinds) == ["scout"]
    cycle(world)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code, task.splitrule) == ("defined", "input_open", "US=3")
    assert released(world) == (17, 17, 17)
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_ten_scouts_are_waited_for_as_long_as_told(world: World) -> None:
    grow(world, "a")
    task_id = start(world, skipScout=False)
    cycle(world)
    assert row_of(world, task_id).status == "scouting"
    with world.engine.begin() as tx:
        assert (
            why.why(call(tx), task_id).detail
            == "While the input is open, more scouts are waited for."
        )
        knobs.put(tx, "scout.open_wait_s", 0.0, "test")
    world.refresh()
    cycle(world)
    assert (row_of(world, task_id).status, row_of(world, task_id).splitrule) == ("defined", "US=3")
    grow(world, "b")
    cycle(world, jobs_end_too=False)
    with world.engine.begin() as tx:
        kinds = tx.scalars(text("SELECT kind FROM jedi_jobs ORDER BY pandaid")).all()
    assert list(kinds) == ["scout", "normal"]


def test_nobody_waits_for_scouts_once_the_input_is_closed(world: World) -> None:
    grow(world, *"ab")
    task_id = start(world, skipScout=False)
    cycle(world)
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"


def test_an_open_task_all_of_whose_scouts_fail_is_broken(world: World) -> None:
    grow(world, "a")
    task_id = start(world, skipScout=False, maxAttempt=1)
    cycle(world, jobs_end_too=False)
    assert end_jobs(world, "failed") == 1
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "broken"


def test_scouts_take_whole_jobs_of_an_open_dataset(world: World) -> None:
    grow(world, *"abc")
    task_id = start(world, skipScout=False, nFilesPerJob=5)
    assert (released(world), row_of(world, task_id).splitrule) == ((3, 0, 0), "NF=5")
    grow(world, *"defgh")
    cycle(world, jobs_end_too=False)
    assert (released(world), row_of(world, task_id).splitrule) == ((8, 5, 5), "NF=5,US=2")


class Growing(FileSystemDDM):
    """Storage of a dataset to which somebody adds b and c while it is listed for the first time:
    b lies there when the listing is made, and c comes after it."""

    def __init__(self, world: World) -> None:
        root = world.settings.home / "storage" / "SITE_A"
        super().__init__({ENDPOINT: root})
        self._world = world
        self._steps = [True, False]

    def list_files(self, name: str) -> list[FileInfo]:
        self._step("b", first=True)
        found = super().list_files(name)
        self._step("c", first=False)
        return found

    def _step(self, lfn: str, *, first: bool) -> None:
        if self._steps and self._steps[0] == first:
            self._steps.pop(0)
            put_file_dataset(self._world, "demo:part", {lfn: b"x"}, ENDPOINT, closed=not first)


@pytest.mark.parametrize("container", [False, True])
def test_files_that_come_while_a_closed_dataset_is_listed(world: World, container: bool) -> None:
    """A request adds b and c to the closed dataset with a: it opens the dataset, moves the files
    and closes it again. The task may see {a, b} at first, but not as all there is: it gets c."""
    put_file_dataset(world, "demo:part", {"a": b"a"}, ENDPOINT)
    if container:
        world.ddm.create("demo:all", ENDPOINT, "closed", container=True)
        world.ddm.add_members("demo:all", ["demo:part"])
    name = "demo:all" if container else "demo:part"
    ddm = Growing(world)
    world.load_ddm = lambda _tx, _knobs: ddm
    world.refresh()
    task = good(site="SITE_A", skipScout=True)
    task["jobParameters"] = [{**INPUT, "dataset": name}, OUTPUT]
    (task_id,) = put(world, task)
    assert TaskRefiner(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1
    assert (master(world).status, master(world).state, master(world).nfiles) == (
        "running",
        "open",
        2,
    )
    with world.engine.begin() as tx:
        wake_consumers(tx, ["demo:all", "demo:part"])
    assert ContentsFeeder(world).run_once() == 1
    assert (master(world).status, master(world).state) == ("ready", "closed")
    assert set(input_statuses(world, task_id)) == {"a", "b", "c"}


def test_a_retry_goes_on_with_files_that_do_not_fill_a_job(world: World) -> None:
    """`finished`: some inputs were not processed since the task was terminated."""
    grow(world, "a", "b", "c")
    task_id = start(world, nFilesPerJob=2)
    for command in ("finish", "retry"):
        cycle(world)
        with world.engine.begin() as tx:
            commanding.command(tx, "anna", task_id, command, {})
    cycle(world)
    assert row_of(world, task_id).status == "defined"
    assert input_statuses(world, task_id) == {"a": "finished", "b": "finished", "c": "pending"}
    close(world)
    cycle(world)
    assert row_of(world, task_id).status == "done"
    assert input_statuses(world, task_id)["c"] == "finished"
