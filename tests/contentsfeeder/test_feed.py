"""Feeding: what is in the input datasets becomes rows, each file once."""

# Raw UPDATEs: files and tasks end without their jobs.

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from support.calls import call
from support.feed import look_again, named
from support.helpers import put_file_dataset
from support.job_rows import watch
from support.situations import lose_task
from support.statuses import input_statuses, statuses
from support.task_rows import INPUT, OUTPUT, good, put, row_of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.contentsfeeder.feed import FeedTask, InputDataset, Listing, new_files
from jedi.contentsfeeder.rows import new_rows, render
from jedi.core.errors import Unreachable
from jedi.ddm.interface import DatasetInfo, FileInfo, Growth, ListedPart, after_file
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.reports.listings import DatasetSummary
from jedi.taskrefiner.agent import TaskRefiner

SECOND = {**INPUT, "value": "${IN2}", "dataset": "demo:second"}


class Listings:
    """Data management that lists what it is told to."""

    def __init__(self, files: dict[str, Sequence[FileInfo]]) -> None:
        self.files = files
        self.before: Callable[[], object] = lambda: None

    def dataset(self, name: str) -> DatasetInfo:
        return DatasetInfo(name, "closed")

    def growth(self, name: str) -> Growth:
        return Growth(self.dataset(name).state)

    def list_files(self, name: str) -> list[FileInfo]:
        self.before()
        return list(self.files[name])

    def left_out(self, name: str) -> dict[str, str]:
        return {}

    def list_part(self, name: str, after: str | None, limit: int) -> ListedPart:
        del limit
        return after_file(self.list_files(name), after)


def lists(world: World, files: dict[str, Sequence[FileInfo]]) -> Listings:
    ddm: Any = Listings(files)
    world.load_ddm = lambda _tx, _knobs: ddm
    world.refresh()
    return ddm  # type: ignore[no-any-return]


def feed(world: World, *documents: dict[str, Any], label: str = "user") -> list[int]:
    """Tasks with these documents, refined and fed."""
    ids = put(world, *documents, label=label)
    assert TaskRefiner(world).run_once() == len(ids)
    assert ContentsFeeder(world).run_once() == len(ids)
    return ids


def dataset(world: World, task_id: int, name: str = "demo:in") -> DatasetSummary:
    with world.engine.begin() as tx:
        return next(d for d in service.show(call(tx), task_id).datasets if d.name == name)


def test_files_become_rows(world: World) -> None:
    put_file_dataset(world, "demo:in", {"b": b"bb", "a": b"a"}, "SITE_A_DATADISK")
    (task_id,) = feed(world, good(maxAttempt=5, maxFailure=2))
    task = row_of(world, task_id)
    assert (task.status, task.reason_code, task.lockedby) == ("ready", "fed", None)
    with world.engine.begin() as tx:
        rows = tx.execute(text("SELECT * FROM jedi_dataset_contents ORDER BY fileid")).all()
    assert [(r.lfn, r.fsize, r.checksum) for r in rows] == [
        ("a", 1, "00620062"),
        ("b", 2, "012800c5"),
    ]
    assert {(r.jeditaskid, r.type, r.scope, r.status, r.proc_status) for r in rows} == {
        (task_id, "input", "demo", "ready", "ready")
    }
    assert {(r.attemptnr, r.maxattempt, r.failedattempt, r.maxfailure) for r in rows} == {
        (0, 5, 0, 2)
    }
    assert all(r.guid for r in rows)
    found = dataset(world, task_id)
    assert (found.status, found.state, found.n_files, found.n_files_to_be_used) == (
        "ready",
        "closed",
        2,
        2,
    )


def test_the_default_number_of_attempts_is_a_knob(world: World) -> None:
    lists(world, {"demo:in": named(1)})
    with world.engine.begin() as tx:
        knobs.put(tx, "attempts.max_attempt", 7, "op")
    (task_id,) = feed(world, good())
    with world.engine.begin() as tx:
        assert service.files(call(tx), task_id)[0].max_attempt == 7


@pytest.mark.parametrize(
    ("label", "keys", "status"),
    [
        ("user", {}, "ready"),
        ("managed", {}, "assigning"),
        ("managed", {"nucleus": "SITE_A"}, "assigning"),
        ("user", {"nucleus": "SITE_A", "site": "SITE_B"}, "assigning"),
        ("managed", {"site": "SITE_A"}, "ready"),
        ("managed", {"cloud": "US"}, "ready"),
        ("managed", {"cloud": "WORLD"}, "assigning"),
        ("user", {"cloud": "WORLD"}, "ready"),
        ("managed", {"cloud": "WORLD", "site": "SITE_A"}, "ready"),
    ],
)
def test_who_needs_a_nucleus(world: World, label: str, keys: dict[str, str], status: str) -> None:
    """Cloud WORLD is no place: it is the same as none. Source: docs/reference/nucleus.md."""
    lists(world, {"demo:in": named(1)})
    (task_id,) = feed(world, good(**keys), label=label)
    assert row_of(world, task_id).status == status


def test_feeding_again_writes_nothing(world: World) -> None:
    lists(world, {"demo:in": named(5000), "demo:second": named(10)})
    items = [INPUT, SECOND, OUTPUT, {"type": "constant", "value": "${RNDMSEED}"}]
    (task_id,) = feed(world, {**good(), "jobParameters": items})
    query = text("SELECT count(*), max(xmin::text::bigint) FROM jedi_dataset_contents")
    with world.engine.begin() as tx:
        before = tx.execute(query).one()
    counted = dataset(world, task_id)
    look_again(world, task_id)
    with world.engine.begin() as tx:
        assert tx.execute(query).one() == before
    assert before[0] == 5010
    assert dataset(world, task_id) == counted


def test_new_files_come_lost_files_go_and_come_back(world: World) -> None:
    files = named(4)
    ddm = lists(world, {"demo:in": files[:3]})
    (task_id,) = feed(world, good())
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET status = 'running' WHERE lfn = 'f00000'"))
    ddm.files = {"demo:in": files[2:]}
    look_again(world, task_id)
    expected = {"f00000": "running", "f00001": "lost", "f00002": "ready", "f00003": "ready"}
    assert input_statuses(world, task_id) == expected
    found = dataset(world, task_id)
    assert (found.n_files, found.n_files_to_be_used, found.n_files_missing) == (4, 4, 1)
    ddm.files = {"demo:in": files}
    look_again(world, task_id)
    assert input_statuses(world, task_id) == {**expected, "f00001": "ready"}
    assert dataset(world, task_id).n_files_missing == 0


def test_the_number_of_files_is_capped_over_all_masters(world: World) -> None:
    lists(world, {"demo:a": named(3), "demo:b": named(3), "demo:second": named(9)})
    items = [{**INPUT, "dataset": "demo:a,demo:b"}, SECOND, OUTPUT]
    (task_id,) = feed(world, {**good(nFiles=4), "jobParameters": items})
    assert dataset(world, task_id, "demo:a").n_files == 3
    assert dataset(world, task_id, "demo:b").n_files == 1
    assert dataset(world, task_id, "demo:second").n_files == 9
    look_again(world, task_id)
    assert dataset(world, task_id, "demo:b").n_files == 1
    look_again(world, task_id, name="demo:b")
    assert dataset(world, task_id, "demo:b").n_files == 1


def test_events_are_capped_by_whole_files(world: World) -> None:
    lists(world, {"demo:in": named(10, events=100)})
    (task_id,) = feed(world, good(nEvents=250))
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
    assert (row.nfiles, row.nevents, row.neventstobeused, row.neventsused) == (3, 300, 300, None)
    look_again(world, task_id)
    assert dataset(world, task_id).n_files == 3


@pytest.mark.parametrize(
    ("files", "keys", "code", "word"),
    [
        ([], {}, "input_empty", "demo:in"),
        (named(3), {"nEvents": 5}, "events_unknown", ".dataset.yaml"),
        ([FileInfo("../x", 1)], {}, "input_empty", "1 (bad_file_name 1) left out"),
    ],
)
def test_unusable_input_breaks_the_task(
    world: World, files: list[FileInfo], keys: dict[str, Any], code: str, word: str
) -> None:
    lists(world, {"demo:in": files})
    (task_id,) = feed(world, good(**keys))
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("tobroken", code)
    assert word in task.errordialog and task.reason_facts == {"datasets": ["demo:in"]}
    assert dataset(world, task_id).status == "broken"
    assert statuses(world, task_id, "files", status="ready") == []


def test_an_unknown_dataset_breaks_the_task(world: World) -> None:
    (task_id,) = feed(world, good())
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("tobroken", "input_unknown")
    assert dataset(world, task_id).status == "broken"


def test_an_empty_follower_breaks_the_task_an_empty_constituent_does_not(world: World) -> None:
    lists(world, {"demo:a": named(1), "demo:b": [], "demo:in": named(1), "demo:second": []})
    masters = [{**INPUT, "dataset": "demo:a,demo:b"}, OUTPUT]
    follower = [INPUT, SECOND, {**OUTPUT, "dataset": "a:2"}]
    first, second = feed(
        world, {**good(), "jobParameters": masters}, {**good(), "jobParameters": follower}
    )
    assert row_of(world, first).status == "ready"
    found = row_of(world, second)
    assert (found.status, found.reason_code) == ("tobroken", "input_empty")


def test_a_dataset_with_too_many_files_breaks_the_task(world: World) -> None:
    lists(world, {"demo:in": named(11)})
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.max_records", 10, "op")
    (task_id,) = feed(world, good())
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("tobroken", "too_many_files")
    assert "contentsfeeder.max_records" in task.errordialog


def reader(name: str) -> dict[str, Any]:
    items = [{**INPUT, "dataset": name}, {**OUTPUT, "dataset": "a:read"}]
    return {**good(), "jobParameters": items}


def test_a_dataset_that_another_task_makes_is_waited_for(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, "SITE_A_DATADISK")
    maker, task_id = feed(world, good("demo:made"), reader("demo:made"))
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("defined", "input_not_made")
    put_file_dataset(world, "demo:made", {"m": b"m"}, "SITE_A_DATADISK")
    look_again(world, task_id)
    assert row_of(world, task_id).reason_code == "input_open"  # its maker may open it again
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text("UPDATE jedi_tasks SET status = 'done' WHERE jeditaskid = :t"), {"t": maker}
        )
        datasets.wake_consumers(tx, ["demo:made"])
    assert ContentsFeeder(world).run_once() == 1
    assert input_statuses(world, task_id) == {"m": "ready"}


def test_a_dataset_that_was_never_made_breaks_the_task(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, "SITE_A_DATADISK")
    maker, task_id = feed(world, good("demo:made"), reader("demo:made"))
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(
            text("UPDATE jedi_tasks SET status = 'failed' WHERE jeditaskid = :t"), {"t": maker}
        )
    look_again(world, task_id)
    assert row_of(world, task_id).reason_code == "input_unknown"


def test_tasks_without_input_get_pseudo_files(world: World) -> None:
    items = [{**OUTPUT, "value": "${RNDMSEED} > o.${SN}"}]
    plain = {"taskName": "t", "noInput": True, "jobParameters": items}
    several, one, by_job = feed(
        world,
        {**plain, "nFiles": 3},
        {**plain, "jobParameters": [{**items[0], "dataset": "a:1"}]},
        {**plain, "nFilesPerJob": 2, "jobParameters": [{**items[0], "dataset": "a:2"}]},
    )
    for task_id, n in ((several, 3), (one, 1), (by_job, 2)):
        assert row_of(world, task_id).status == "ready"
        with world.engine.begin() as tx:
            found = service.files(call(tx), task_id)
        assert [(f.lfn, f.type, f.size) for f in found] == [("pseudo_lfn", "pseudo_input", 0)] * n
        assert dataset(world, task_id, "pseudo_dataset").n_files_to_be_used == n
        seeds = dataset(world, task_id, "pseudo_RNDMSEED")
        assert (seeds.status, seeds.n_files) == ("ready", 0)
    look_again(world, several)
    assert dataset(world, several, "pseudo_dataset").n_files == 3


def test_trouble_holds_the_task(world: World) -> None:
    ddm = lists(world, {"demo:in": named(1)})

    def fail() -> None:
        raise Unreachable("The storage does not answer.")

    ddm.before = fail
    (task_id,) = feed(world, good())
    task = row_of(world, task_id)
    assert (task.status, task.oldstatus, task.reason_code) == (
        "pending",
        "defined",
        "feeding_failed",
    )
    assert "does not answer" in task.errordialog


def test_strange_texts_are_stored_as_they_are(world: World) -> None:
    guid = "tab\there\\back\nslash\rend"
    lists(world, {"demo:in": [FileInfo("f", 2**40, None, guid)]})
    (task_id,) = feed(world, good())
    with world.engine.begin() as tx:
        (file,) = service.files(call(tx), task_id)
    assert (file.guid, file.size, file.adler32, file.n_events) == (guid, 2**40, None, None)


def test_many_tasks_take_as_many_statements_as_one(world: World) -> None:
    lists(world, {"demo:in": named(100), "demo:second": named(5)})
    seen = watch(world.engine)
    counts = []
    for n in (1, 8):
        outputs = [{**OUTPUT, "dataset": f"a:out{n}.{i}"} for i in range(n)]
        put(world, *({**good(), "jobParameters": [INPUT, SECOND, out]} for out in outputs))
        TaskRefiner(world).run_once()
        seen.clear()
        assert ContentsFeeder(world).run_once() == n
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_a_stale_worker_writes_nothing(world: World) -> None:
    lists(world, {"demo:in": named(3)})
    lost, kept = put(world, good(), good("a:two"))
    TaskRefiner(world).run_once()
    feeder = ContentsFeeder(world)
    with world.engine.begin() as tx:
        items = feeder.claim(tx, 10)
    results = [(item, feeder.work(item)) for item in items]
    with world.engine.begin() as tx:
        lose_task(tx, lost)
    with world.engine.begin() as tx:
        feeder.apply(tx, results)
    assert not statuses(world, lost, "files") and len(input_statuses(world, kept)) == 3
    assert (row_of(world, lost).status, row_of(world, kept).status) == ("defined", "ready")


def test_two_feeders_feed_each_task_once(world: World) -> None:
    lists(world, {"demo:in": named(50)})
    ids = put(world, *(good(f"a:out{i}") for i in range(30)))
    TaskRefiner(world).run_once()
    start = threading.Barrier(2)
    fed: list[int] = []

    def run() -> None:
        feeder = ContentsFeeder(world)
        start.wait()
        while n := feeder.run_once():
            fed.append(n)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(fed) == 30
    for task_id in ids:
        assert dataset(world, task_id).n_files == len(input_statuses(world, task_id)) == 50


def test_a_long_look_up_keeps_the_leases_of_the_whole_batch(world: World) -> None:
    ddm = lists(world, {"demo:in": named(1)})
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.lease_s", 1.0, "op")
    ids = put(world, good(), good("a:two"))
    TaskRefiner(world).run_once()
    looking, enough = threading.Event(), threading.Event()

    def wait() -> None:
        looking.set()
        assert enough.wait(30)

    ddm.before = wait
    feeder = threading.Thread(target=ContentsFeeder(world).run_once)
    feeder.start()
    assert looking.wait(30)
    first = [row_of(world, task_id).lease_until for task_id in ids]
    deadline = time.monotonic() + 30
    while not all(row_of(world, i).lease_until > t for i, t in zip(ids, first, strict=True)):
        assert time.monotonic() < deadline
    enough.set()
    feeder.join()
    assert {row_of(world, task_id).status for task_id in ids} == {"ready"}


def listing(dataset_id: int, n: int, known: int, events: int) -> Listing:
    one = InputDataset(dataset_id, "a:b", "input", True, n_files=known)
    return Listing(one, "closed", named(n, events))


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 300),
    st.integers(0, 7),
)
def test_caps_hold_over_any_masters(
    sizes: list[tuple[int, int]], n_files: int | None, n_events: int | None, events: int
) -> None:
    """The first files are taken, none twice, none too many, and none too few."""
    listings = [listing(i, n, min(old, n), events) for i, (n, old) in enumerate(sizes)]
    known = {i: {f.lfn for f in named(min(old, n))} for i, (n, old) in enumerate(sizes)}
    before = sum(map(len, known.values()))
    task = FeedTask(
        1,
        1,
        False,
        (),
        3,
        n_files=n_files,
        files_fed=before,
        n_events=n_events,
        events_fed=before * events,
    )
    found = new_files(task, listings, known)
    for i, files in enumerate(found):
        fresh = [f for f in listings[i].files if f.lfn not in known[i]]
        assert files == fresh[: len(files)]
    taken = sum(map(len, found))
    left = sum(len(one.files) for one in listings) - before
    room = left if n_files is None else max(0, n_files - before)
    if n_events is not None:
        missing = max(0, n_events - before * events)
        room = min(room, -(-missing // events) if events else left * (missing > 0))
    assert taken == min(left, room)


def test_lines_are_rendered_in_blocks() -> None:
    task = FeedTask(7, 1, False, (), 3)
    one = Listing(InputDataset(5, "a:b", "input", True), "closed")
    (rows,) = new_rows(task, [one], [named(4500)])
    blocks = list(render(rows))
    assert [block.count("\n") for block in blocks] == [2000, 2000, 500]
    line = r"5 7 input a ready ready 1 3 \N f00000 \N 10 00000001 \N \N \N \N \N \N"
    line = line.replace(" ", "\t")
    assert blocks[0].splitlines()[0] == line
