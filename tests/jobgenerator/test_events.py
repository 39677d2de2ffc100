"""Splitting by events: ranges of events instead of files, from the feed to the end of the jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.feed import look_again
from support.generate import end
from support.generating import catalogue, document, generate, ready, rows, use
from support.job_rows import watch
from support.split import chunk, cut, demand, files, spans
from support.task_rows import OUTPUT, put, row_of

from jedi.agent.base import World
from jedi.brokerage.requirements import atom
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import states
from jedi.core.errors import BadInput
from jedi.ddm.interface import FileInfo
from jedi.model.splitting.event_ranges import Ranges, across, evenly
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.text import validate
from jedi.service.system.check import check
from jedi.taskbuffer.db import knobs
from jedi.taskrefiner.agent import TaskRefiner

COUNTS = st.lists(st.integers(0, 40), max_size=12)
EVENTS = "${IN/L} ${SKIPEVENTS} ${MAXEVENTS} ${FIRSTEVENT}"


def listed(found: Ranges) -> list[tuple[int, int, int]]:
    return list(zip(found.files.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True))


def with_events(*counts: int | None) -> list[FileInfo]:
    return [FileInfo(f"File{i}", 10, "00000001", None, n) for i, n in enumerate(counts, 1)]


def splits(**keys: Any) -> dict[str, Any]:
    """A task that tells its jobs which events they process."""
    task = document(**keys)
    task["jobParameters"][0] = {**task["jobParameters"][0], "value": EVENTS}
    return task


# ------------------------------------------------------------------------------------ ranges


def test_the_figure_of_the_seed() -> None:
    assert listed(across(np.array([150, 150, 100]), 100)) == [
        (0, 0, 99),
        (0, 100, 149),
        (1, 0, 49),
        (1, 50, 149),
        (2, 0, 99),
    ]


@given(COUNTS, st.integers(1, 50), st.integers(0, 120))
def test_every_event_once_and_as_many_a_job_as_wanted(
    counts: list[int], size: int, begun: int
) -> None:
    found = across(np.array(counts, np.int64), size, begun)
    events = [(i, e) for i, a, b in listed(found) for e in range(a, b + 1)]
    assert events == [(i, e) for i, n in enumerate(counts) for e in range(n)]
    lengths = (found.ends - found.starts + 1).tolist()
    assert found.before.tolist() == [sum(lengths[:i]) for i in range(len(lengths))]
    assert all(n > 0 for n in lengths)
    total, full = begun % size, 0
    for n in lengths:  # a border wherever a job is full, and nowhere else but between files
        total += n
        assert total <= size
        full += total == size
        total %= size
    assert full == (begun % size + sum(counts)) // size


@given(COUNTS, st.integers(1, 50))
def test_even_ranges_are_few_and_alike(counts: list[int], aim: int) -> None:
    found = evenly(np.array(counts, np.int64), aim)
    for i, n in enumerate(counts):
        sizes = [b - a + 1 for j, a, b in listed(found) if j == i]
        assert sum(sizes) == n
        assert len(sizes) == -(-n // aim)
        assert not sizes or (max(sizes) <= aim and len({*sizes[:-1]}) <= 1)
    events = [(i, e) for i, a, b in listed(found) for e in range(a, b + 1)]
    assert events == [(i, e) for i, n in enumerate(counts) for e in range(n)]


# ------------------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("rules", "events", "ranges", "files_per_job", "output"),
    [
        ({"n_events_per_job": 100}, 100, None, None, None),
        ({"n_events_per_job": 100, "n_events_per_input": 150}, 100, None, None, None),
        ({"n_events_per_job": 350, "n_events_per_input": 150}, None, None, 2, None),
        ({"n_events_per_job": 150, "n_events_per_input": 150}, None, None, 1, None),
        ({"n_events_per_job": 100, "n_files_per_job": 3}, 100, None, None, None),
        (
            {"n_files_per_job": 3, "n_gb_per_job": 1, "target_events_per_job": 5},
            None,
            None,
            3,
            None,
        ),
        ({"n_gb_per_job": 1, "target_events_per_job": 5}, None, None, None, None),
        ({"target_events_per_job": 5, "max_output_gb": 2}, None, 5, 1, None),
        ({"max_output_gb": 2}, None, None, None, 2),
        ({"n_gb_per_job": 1, "max_output_gb": 2}, None, None, None, None),
    ],
)
def test_the_first_rule_of_size_counts(
    rules: dict[str, Any],
    events: int | None,
    ranges: int | None,
    files_per_job: int | None,
    output: float | None,
) -> None:
    found = SplitRules(**rules)
    assert (found.events_per_job, found.events_per_range) == (events, ranges)
    assert (found.files_per_job, found.output_gb_per_job) == (files_per_job, output)
    assert found.by_events == bool(events or ranges)


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"nEvents": 100}, "nEvents"),
        ({"nEventsPerJob": 100}, "nEventsPerJob"),
        ({"nEvents": 100, "nEventsPerJob": 10, "nFiles": 3}, "nFiles"),
        ({"nEvents": 100, "nEventsPerJob": 10, "nFilesPerJob": 3}, "nFilesPerJob"),
        ({"nEventsPerInputFile": 3}, "nEventsPerInputFile"),
        ({"tgtNumEventsPerJob": 3}, "tgtNumEventsPerJob"),
    ],
)
def test_what_a_task_without_input_can_not_say(keys: dict[str, Any], path: str) -> None:
    task = {"taskName": "t", "noInput": True, "transPath": "x", "jobParameters": [OUTPUT], **keys}
    with pytest.raises(BadInput) as caught:
        validate(task)
    assert [problem.path for problem in caught.value.problems] == [path]


# ---------------------------------------------------------------------------------- splitting


def ranged(counts: list[int], size: int) -> tuple[Any, list[Any]]:
    """Ranges of files with so many events, as ready rows."""
    found = across(np.array(counts, np.int64), size)
    lengths = found.ends - found.starts + 1
    some = files(len(found), events=lengths.tolist())
    left = np.array(counts, np.int64)[found.files] - found.ends - 1
    return some, [*zip(found.starts.tolist(), left.tolist(), strict=True)]


def pick(some: Any, places: list[Any], keep: list[int]) -> Any:
    """The rows with these positions."""
    starts, left = (np.array([places[i][k] for i in keep], np.int64) for k in (0, 1))
    taken = some.take(np.array(keep, np.int64))
    return replace(taken, start_events=starts, events_left=left)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 60))
def test_jobs_have_exactly_the_events_wanted(counts: list[int], size: int) -> None:
    some, places = ranged(counts, size)
    master = pick(some, places, list(range(len(some))))
    jobs = spans(cut([chunk(master)], SplitRules(n_events_per_job=size)))
    sums = [int(master.events[a:b].sum()) for a, b in jobs]
    assert all(n == size for n in sums[:-1])
    assert sum(sums) == sum(counts)
    assert sums[-1] <= size


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 60),
    st.lists(st.booleans(), min_size=200, max_size=200),
)
def test_what_comes_back_is_one_row_of_events(
    counts: list[int], size: int, back: list[bool]
) -> None:
    """Whatever rows are ready again: a payload skips some events and then reads on."""
    some, places = ranged(counts, size)
    keep = [i for i in range(len(some)) if back[i % len(back)]]
    if not keep:
        return
    master = pick(some, places, keep)
    for a, b in spans(cut([chunk(master)], SplitRules(n_events_per_job=size))):
        assert (master.start_events[a + 1 : b] == 0).all()
        assert (master.events_left[a : b - 1] == 0).all()
        assert master.events[a:b].sum() <= size


def test_a_site_must_hold_all_events_of_a_job() -> None:
    many = chunk(files(30, [7] * 30, [10] * 30))
    load = atom([many], 1, 100)
    assert (load.events, load.bytes) == (100, 70)
    assert atom([many], 1, 1000).events == 300
    assert atom([chunk(files(3, [7] * 3, [100] * 3))], 1, 100).bytes == 7


def test_output_is_limited_where_its_size_is_known() -> None:
    many = chunk(files(20, [2**20] * 20, [1] * 20))
    asked = demand(out_disk_count=512, out_disk_unit="MBPerEvent")
    jobs = spans(cut([many], SplitRules(max_output_gb=2), asked))
    assert [b - a for a, b in jobs] == [4] * 5
    assert len(cut([many], SplitRules(max_output_gb=2))[0]) == 1


# -------------------------------------------------------------------------- through the rooms

_CONTENTS = """
SELECT * FROM jedi_dataset_contents WHERE jeditaskid = :t AND type IN ('input', 'pseudo_input')
ORDER BY fileid
"""
_EVENTS = "SELECT * FROM jedi_events WHERE jeditaskid = :t ORDER BY pandaid, fileid, attemptnr"
_JOBS = """
SELECT pandaid AS panda_id, jobparameters AS command, n_events, status FROM jedi_jobs
JOIN jedi_job_params USING (pandaid) WHERE jeditaskid = :t ORDER BY pandaid
"""
_FILES = "SELECT lfn, status, ranges FROM jedi_files WHERE jeditaskid = :t AND type = 'input'"


def ranges_of_jobs(world: World, task: int) -> dict[int, list[str]]:
    """The status of the ranges of each job."""
    names = {code: name for name, code in states.EVENT_CODES.items()}
    found: dict[int, list[str]] = {}
    for row in rows(world, _EVENTS, t=task):
        found.setdefault(row.pandaid, []).append(names[row.status])
    return found


def clean(world: World) -> None:
    with world.engine.begin() as tx:
        assert not [one for one in check(tx) if one.violations]


def test_ranges_become_jobs_and_end_with_them(world: World) -> None:
    catalogue(world, in_=with_events(150, 150, 100))
    (task,) = ready(world, splits(nEventsPerJob=100, maxAttempt=2))
    fed = rows(world, _CONTENTS, t=task)
    assert [(r.lfn, r.startevent, r.endevent, r.firstevent, r.nevents) for r in fed] == [
        ("File1", 0, 99, 1, 150),
        ("File1", 100, 149, 101, 150),
        ("File2", 0, 49, 151, 150),
        ("File2", 50, 149, 201, 150),
        ("File3", 0, 99, 301, 100),
    ]
    assert generate(world) == 1
    jobs = rows(world, _JOBS, t=task)
    assert [(j.command.split(" >")[0], j.n_events) for j in jobs] == [
        ("File1 0 100 1", 100),
        ("File1,File2 100 100 101", 100),
        ("File2 50 100 201", 100),
        ("File3 0 100 301", 100),
    ]
    first, second, third, fourth = (j.panda_id for j in jobs)
    events = rows(world, _EVENTS, t=task)
    assert [
        (e.pandaid, e.fileid, e.def_min_eventid, e.def_max_eventid, e.event_offset) for e in events
    ] == [
        (first, fed[0].fileid, 0, 99, 0),
        (second, fed[1].fileid, 100, 149, 0),
        (second, fed[2].fileid, 0, 49, 150),
        (third, fed[3].fileid, 50, 149, 150),
        (fourth, fed[4].fileid, 0, 99, 300),
    ]
    assert {(e.status, e.attemptnr, e.job_processid) for e in events} == {(0, 1, 0)}
    used = rows(
        world,
        "SELECT start_event, end_event FROM jedi_job_files WHERE pandaid = :j "
        "AND type = 'input' ORDER BY fileid",
        j=second,
    )
    assert [(r.start_event, r.end_event) for r in used] == [(100, 149), (0, 49)]
    end(world, "finished", first, fourth)
    end(world, "failed", second)
    end(world, "closed", third)
    assert ranges_of_jobs(world, task) == {
        first: ["done"],
        second: ["failed", "failed"],
        third: ["cancelled"],
        fourth: ["done"],
    }
    upto = {e.pandaid: e.processed_upto_eventid for e in rows(world, _EVENTS, t=task)}
    assert upto == {first: 99, second: None, third: None, fourth: 99}
    folded = {r.lfn: (r.status, r.ranges) for r in rows(world, _FILES, t=task)}
    assert folded == {"File1": ("partial", 2), "File2": ("ready", 2), "File3": ("finished", 1)}
    (master,) = rows(
        world, "SELECT * FROM jedi_datasets WHERE jeditaskid = :t AND type = 'input'", t=task
    )
    assert (master.nfiles, master.nevents, master.neventstobeused, master.neventsused) == (
        5,
        400,
        400,
        200,
    )
    clean(world)

    assert generate(world) == 1
    again = [j for j in rows(world, _JOBS, t=task) if j.status == "activated"]
    assert [j.command.split(" >")[0] for j in again] == [
        "File1,File2 100 100 101",
        "File2 50 100 201",
    ]
    end(world, "failed", again[0].panda_id)
    end(world, "finished", again[1].panda_id)
    found = ranges_of_jobs(world, task)
    assert (found[again[0].panda_id], found[again[1].panda_id]) == (["fatal"] * 2, ["done"])
    assert {e.attemptnr for e in rows(world, _EVENTS, t=task)} == {1, 2}
    clean(world)


def test_whole_files_hold_the_events_of_a_job(world: World) -> None:
    catalogue(world, in_=with_events(50, 50, None, 50, 50))
    (task,) = ready(world, splits(nEventsPerJob=120, nEventsPerInputFile=50, skipScout=True))
    assert {(r.startevent, r.nevents) for r in rows(world, _CONTENTS, t=task)} == {(None, 50)}
    generate(world)
    assert [j.command.split(" >")[0] for j in rows(world, _JOBS, t=task)] == [
        "File1,File2 0 100 0",
        "File3,File4 0 100 0",
        "File5 0 50 0",
    ]
    assert not rows(world, _EVENTS, t=task)
    assert row_of(world, task).splitrule == "NE=120,EI=50,US=1"


def test_files_are_cut_evenly(world: World) -> None:
    catalogue(world, in_=with_events(100, 30))
    (task,) = ready(world, splits(tgtNumEventsPerJob=40, firstEvent=1000))
    generate(world)
    assert [j.command.split(" >")[0] for j in rows(world, _JOBS, t=task)] == [
        "File1 0 34 1001",
        "File1 34 34 1035",
        "File1 68 32 1069",
        "File2 0 30 1101",
    ]


def test_events_without_input(world: World) -> None:
    items = [{"type": "constant", "value": "${SKIPEVENTS} ${MAXEVENTS} ${FIRSTEVENT}"}, OUTPUT]
    task_document = {
        "taskName": "t",
        "noInput": True,
        "nEvents": 250,
        "nEventsPerJob": 100,
        "jobParameters": items,
    }
    catalogue(world)
    (task,) = ready(world, task_document)
    generate(world)
    jobs = rows(world, _JOBS, t=task)
    assert [j.command.split(" >")[0] for j in jobs] == ["0 100 1", "100 100 101", "200 50 201"]
    end(world, "finished", *(j.panda_id for j in jobs))
    assert [*ranges_of_jobs(world, task).values()] == [["done"]] * 3
    clean(world)


def test_masters_are_counted_on(world: World) -> None:
    catalogue(world, in_=with_events(30), two=with_events(50))
    both = splits(nEventsPerJob=40)
    both["jobParameters"][0]["dataset"] = "demo:in,demo:two"
    (task,) = ready(world, both)
    assert [(r.startevent, r.endevent, r.firstevent) for r in rows(world, _CONTENTS, t=task)] == [
        (0, 29, 1),
        (0, 39, 31),
        (40, 49, 71),
    ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"nEventsPerJob": 100},
            "The task is split by events, but how many are in File2 of "
            "demo:in is not known. Say it in .dataset.yaml or as nEventsPerInputFile, or set knob "
            "ddm.event_count_command.",
        ),
        ({"tgtNumEventsPerJob": 100}, "The task is split by events"),
        ({"nEvents": 100}, "The task wants 100 events"),
    ],
)
def test_unknown_event_counts_are_refused(world: World, keys: dict[str, Any], said: str) -> None:
    catalogue(world, in_=with_events(150, None))
    (task,) = ready(world, splits(**keys))
    found = row_of(world, task)
    assert (found.status, found.reason_code) == ("tobroken", "events_unknown")
    assert found.errordialog.startswith(said)


def test_too_many_ranges_break_the_task(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "contentsfeeder.max_records", 12, "op")
    catalogue(world, in_=with_events(100, 100))
    task, other = ready(world, splits(nEventsPerJob=10), splits(nEventsPerJob=20, output="a:b"))
    found = row_of(world, task)
    assert (found.status, found.reason_code) == ("tobroken", "too_many_files")
    assert "22 ranges of events in 2 files, more than 12" in found.errordialog
    assert row_of(world, other).status == "ready"


def test_new_files_go_on_where_the_others_ended(world: World) -> None:
    ddm = catalogue(world, in_=with_events(130))
    (task,) = ready(world, splits(nEventsPerJob=100, nFiles=3))
    use(world, ddm)
    ddm.files = {"demo:in": with_events(130, 90, 100, 100)}
    look_again(world, task)
    fed = [row for row in rows(world, _CONTENTS, t=task) if row.status == "ready"]
    assert [(r.lfn, r.startevent, r.endevent, r.firstevent) for r in fed] == [
        ("File1", 0, 99, 1),
        ("File1", 100, 129, 101),
        ("File2", 0, 69, 131),
        ("File2", 70, 89, 201),
        ("File3", 0, 79, 221),
        ("File3", 80, 99, 301),
    ]


def test_statements_do_not_grow_with_ranges(world: World) -> None:
    catalogue(world, in_=with_events(*[1000] * 30))
    seen = watch(world.engine)

    def count(**keys: Any) -> tuple[int, int]:
        put(world, splits(**keys))
        TaskRefiner(world).run_once()
        seen.clear()
        ContentsFeeder(world).run_once()
        fed = len(seen)
        seen.clear()
        generate(world)
        return fed, len(seen)

    few = count(nEventsPerJob=5000, skipScout=True)
    assert count(nEventsPerJob=70, output="a:two", skipScout=True) == few
