"""What belongs together: boundary ids, lumi blocks, fields of names, files of equal memory."""

# Raw UPDATEs: files in all statuses, without the jobs that lead to them.

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generating import SECOND, catalogue, document, generate, ready, rows
from support.split import chunk, cut, files, follow, spans
from support.task_rows import INPUT, OUTPUT, put

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import FileInfo
from jedi.jobgenerator.grouping import in_order, of_one_memory
from jedi.jobgenerator.naming import middle_name
from jedi.model.datasets.chunk import Chunk, Secondary
from jedi.model.splitting.event_ranges import across
from jedi.model.splitting.split_rules import SplitRules
from jedi.taskrefiner.agent import TaskRefiner

IDS = st.lists(st.integers(0, 6), min_size=1, max_size=60).map(sorted)


def grouped(ids: list[int], **others: Any) -> Chunk:
    return chunk(files(len(ids), boundaries=ids, **others))


@given(IDS, st.sampled_from([1, 2]), st.integers(1, 9))
def test_a_job_has_files_of_one_id(ids: list[int], mode: int, each: int) -> None:
    rules = SplitRules(group_boundary_id=mode, n_files_per_job=each)
    jobs = spans(cut([grouped(ids)], rules))
    assert [i for a, b in jobs for i in range(a, b)] == list(range(len(ids)))
    for a, b in jobs:
        assert len({*ids[a:b]}) == 1
        assert b - a == each or b == len(ids) or ids[b] != ids[a]


@given(IDS, st.sampled_from([3, 4]), st.integers(1, 20), st.integers(2, 12))
def test_nothing_divides_an_id(ids: list[int], mode: int, each: int, hard: int) -> None:
    """Modes 3, 4: several whole ids may share a job, none is ever cut
    (docs/reference/splitting.md#boundaries). JEDI document, BOUNDARYID: "respect this identifier
    if not NULL"; 0 stands for NULL here."""
    rules = SplitRules(group_boundary_id=mode, n_files_per_job=each)
    knobs: dict[str, Any] = {"jobgen.hard_max_files_per_job": hard}
    jobs = spans(cut([grouped(ids)], rules, **knobs))
    assert [i for a, b in jobs for i in range(a, b)] == list(range(len(ids)))
    sizes = {one: len(list(some)) for one, some in groupby(ids)}
    for a, b in jobs:
        inside = {*ids[a:b]}
        assert b - a <= min(each, hard) or (len(inside) == 1 and sizes[ids[a]] == b - a)
        assert mode == 3 or len(inside) == 1
        assert b == len(ids) or ids[b] != ids[b - 1] or not ids[b]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40).map(sorted), st.integers(1, 7))
def test_where_ids_end_does_not_depend_on_how_much_is_read(ids: list[int], each: int) -> None:
    rules = SplitRules(group_boundary_id=3, n_files_per_job=each)
    at_once = spans(cut([grouped(ids)], rules))
    done: list[tuple[int, int]] = []
    portion = max(ids.count(one) for one in ids) + each + 1
    while (first := done[-1][1] if done else 0) < len(ids):
        part = grouped(ids[first : first + portion])
        more = first + portion < len(ids)
        found = spans(cut([Chunk("IN", part.master, (), more)], rules))
        done += [(first + a, first + b) for a, b in found]
    assert done == at_once


def test_ids_share_a_job_or_have_one_each() -> None:
    ids = [1, 1, 2, 2, 3, 3, 3, 3, 3, 4]
    assert spans(cut([grouped(ids)], SplitRules(group_boundary_id=3, n_files_per_job=4))) == [
        (0, 4),
        (4, 9),
        (9, 10),
    ]
    assert spans(cut([grouped(ids)], SplitRules(group_boundary_id=4, n_files_per_job=4))) == [
        (0, 2),
        (2, 4),
        (4, 9),
        (9, 10),
    ]
    assert spans(cut([grouped(ids)], SplitRules(group_boundary_id=1, n_files_per_job=4))) == [
        (0, 2),
        (2, 4),
        (4, 8),
        (8, 9),
        (9, 10),
    ]


def test_lumi_blocks_and_fields_of_names_begin_jobs() -> None:
    some = chunk(files(6, lumi_blocks=[1, 1, 2, 2, 2, 3]))
    assert spans(cut([some], SplitRules(respect_lb=True))) == [(0, 2), (2, 5), (5, 6)]
    assert spans(cut([some], SplitRules())) == [(0, 6)]
    named = files(4)
    named.lfns[:] = ["a.1.x", "a.1.y", "a.2.x", "b.2.x"]
    rules = SplitRules(add_nth_field_to_lfn=[1, 2], use_file_as_source_lfn=True)
    assert spans(cut([chunk(named)], rules)) == [(0, 2), (2, 3), (3, 4)]


def test_middle_names() -> None:
    assert middle_name("data10:data10_7TeV.00160387.muon", [2]) == "00160387"
    assert middle_name("data10_7TeV.00160387.muon", [3, 1, 9]) == "muon.data10_7TeV"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4)), min_size=1, max_size=15),
    st.integers(1, 50),
)
def test_ranges_begin_anew_with_each_group(drawn: list[tuple[int, int]], size: int) -> None:
    counts, groups = (np.array(column, np.int64) for column in zip(*drawn, strict=True))
    found = across(counts, size, groups=groups)
    events = [
        (int(f), e)
        for f, a, b in zip(found.files, found.starts, found.ends, strict=True)
        for e in range(a, b + 1)
    ]
    assert events == [(i, e) for i, n in enumerate(counts.tolist()) for e in range(n)]
    assert found.before.tolist() == [
        sum((found.ends - found.starts + 1)[:i].tolist()) for i in range(len(found))
    ]
    runs = [list(some) for _, some in groupby(range(len(groups)), key=lambda i: groups[i])]
    for run in runs:
        alone = across(counts[run], size)
        mine = np.isin(found.files, run)
        assert found.starts[mine].tolist() == alone.starts.tolist()


def test_what_comes_late_stands_with_what_it_belongs_to() -> None:
    late = grouped([1, 2, 3, 1, 2])
    rules = SplitRules(group_boundary_id=4)
    (found,) = in_order([late], rules)
    assert found.master.lfns == ["f0", "f3", "f1", "f4", "f2"]
    assert spans(cut([found], rules)) == [(0, 2), (2, 4), (4, 5)]
    assert in_order([late], SplitRules())[0].master is late.master


def test_files_that_need_more_memory_have_jobs_of_their_own() -> None:
    some = files(5)
    some.ram_counts[[1, 3]] = 4000
    first, ram = of_one_memory([chunk(some), chunk(files(2))])
    assert ([c.master.lfns for c in first], ram) == ([["f0", "f2", "f4"], ["f0", "f1"]], 0)
    then, ram = of_one_memory([chunk(some.take(np.array([1, 3])))])
    assert (then[0].master.lfns, ram) == (["f1", "f3"], 4000)


def test_what_follows_is_used_again_where_the_task_says_so() -> None:
    some = chunk(files(4), Secondary("IN2", files(2)))
    (found,) = in_order([some], SplitRules(reuse_sec_on_demand=True))
    rules = SplitRules(n_files_per_job=2)
    assert follow(cut([some], rules)) == [(0, 2)]
    assert follow(cut([found], rules)) == [(0, 2), (0, 2)]


def test_what_follows_has_the_ids_of_its_master() -> None:
    """Secondary files follow the id, in all modes (docs/reference/splitting.md#boundaries): all
    files of an id go with it; where several jobs share it, as many as each wants, and the rest with
    the last. Id 5 has none, so its job waits, and the others do not."""
    master = files(6, boundaries=[1, 1, 2, 3, 3, 5])
    beside = Secondary("IN2", files(7, boundaries=[1, 2, 2, 2, 3, 3, 4]))
    (told,) = in_order([chunk(master, beside)], SplitRules(group_boundary_id=4))
    for mode in (1, 2, 4):
        found = cut([told], SplitRules(group_boundary_id=mode))
        assert spans(found) == [(0, 2), (2, 3), (3, 5)]
        assert follow(found) == [(0, 1), (1, 4), (4, 6)]
    # with 3, id 5 shares a job with others, which is not without files
    assert follow(cut([told], SplitRules(group_boundary_id=3))) == [(0, 6)]
    ones = SplitRules(group_boundary_id=1, n_files_per_job=1)
    found = cut([told], ones)  # of two jobs of id 1 the second finds no file
    assert spans(found) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert found[0].chunk.master.lfns[:4] == ["f0", "f2", "f3", "f4"]
    assert follow(found) == [(0, 1), (1, 4), (4, 5), (5, 6)]
    # the id goes on in a later cycle: its first job leaves files for that
    assert follow(cut([chunk(files(2, boundaries=[3, 3]), told.secondaries[0])], ones, most=1)) == [
        (4, 5)
    ]
    untracked = replace(told.secondaries[0], repeated=True)
    found = cut([replace(told, secondaries=(untracked,))], ones)
    assert follow(found) == [(0, 1), (0, 1), (1, 4), (4, 6), (4, 6)]


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=30).map(sorted),
    st.lists(st.integers(1, 5), min_size=1, max_size=30).map(sorted),
    st.sampled_from([1, 2, 3, 4]),
    st.integers(1, 6),
)
def test_files_that_follow_have_ids_of_their_job_and_are_used_once(
    ids: list[int], others: list[int], mode: int, each: int
) -> None:
    rules = SplitRules(group_boundary_id=mode, n_files_per_job=each)
    some = chunk(
        files(len(ids), boundaries=ids), Secondary("IN2", files(len(others), boundaries=others))
    )
    used: list[str] = []
    for one in cut(in_order([some], rules), rules):
        beside = one.chunk.secondaries[0].files
        for (a, b), (first, last) in zip(spans([one]), follow([one]), strict=True):
            assert last > first
            follows = {*beside.boundaries[first:last].tolist()}
            assert follows <= {*one.chunk.master.boundaries[a:b].tolist()}
            used += beside.lfns[first:last]
    assert len({*used}) == len(used)
    if mode in (3, 4):  # ids are whole, so nothing of them is left
        left = {one for i, one in enumerate(others) if f"f{i}" not in used}
        assert left.isdisjoint(others[int(lfn[1:])] for lfn in used)


@pytest.mark.parametrize(
    ("mode", "key", "size", "expected"),
    [
        (3, "nEventsPerJob", 8, ["f0 f1", "f2 f3"]),
        (4, "nEventsPerJob", 8, ["f0 f1", "f2 f3"]),
        (3, "nEventsPerJob", 39, ["f0 f1", "f2 f3"]),
        (3, "nEventsPerJob", 40, ["f0 f1 f2 f3"]),
        (4, "nEventsPerJob", 40, ["f0 f1", "f2 f3"]),
        (3, "tgtNumEventsPerJob", 4, ["f0 f1", "f2 f3"]),
        # ids may be divided: the count begins anew with each
        (1, "nEventsPerJob", 8, ["f0", "f0 f1", "f1", "f2", "f2 f3", "f3"]),
    ],
)
def test_ranges_of_events_do_not_divide_an_id(
    world: World, mode: int, key: str, size: int, expected: list[str]
) -> None:
    """Modes 3, 4: several whole ids may share a job, none is ever cut, by event ranges neither
    (docs/reference/splitting.md#boundaries). Four files of ten events, ids 1, 1, 2, 2: an id has 20
    events, more than the 8 of a job, and is a job alone; of 40, two ids fill a job. With 4 a job
    has one id."""
    catalogue(world, in_=told(4, boundary=[1, 1, 2, 2], nevents=[10] * 4))
    constant = {"type": "constant", "value": "${SKIPEVENTS}+${MAXEVENTS} from ${FIRSTEVENT}"}
    ready(world, {**document(constant, groupBoundaryID=mode), key: size})
    generate(world)
    found = [command.split(" > ")[0].removeprefix("cat ") for command in jobs(world)]
    assert [
        " ".join(w for w in one.split() if w[0] == "f" and w != "from") for one in found
    ] == expected
    counts = [len(one.split()) * 10 for one in expected]
    if mode in (3, 4):
        begins = [1, 21] if len(expected) == 2 else [1]
        assert [one.rpartition("f")[0].split()[-1] for one in found] == [f"0+{n}" for n in counts]
        assert [int(one.split()[-1]) for one in found] == begins


# ------------------------------------------------------------------------- with the real agents


def told(n: int, **columns: list[int]) -> list[FileInfo]:
    """Files f0, f1 … of 10 bytes with these boundaries, lumi blocks or events."""
    values = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [FileInfo(f"f{i}", 10, "00000001", **(values[i] if columns else {})) for i in range(n)]


def jobs(world: World) -> list[str]:
    """The command of each job."""
    return [row.jobparameters for row in rows(world, "SELECT * FROM jedi_job_params ORDER BY 1")]


def test_boundaries_make_jobs(world: World) -> None:
    catalogue(world, in_=told(5, boundary=[2, 1, 2, 1, 3]))
    ready(world, document(groupBoundaryID=4))
    assert generate(world) == 1
    assert jobs(world) == ["cat f1 f3 > o.000001", "cat f0 f2 > o.000002", "cat f4 > o.000003"]
    kept = rows(
        world,
        "SELECT lfn, boundaryid FROM jedi_dataset_contents WHERE type <> 'log' ORDER BY fileid",
    )
    assert [tuple(row) for row in kept] == [
        ("f1", 1),
        ("f3", 1),
        ("f0", 2),
        ("f2", 2),
        ("f4", 3),
        ("o.000001", 1),
        ("o.000002", 2),
        ("o.000003", 3),
    ]


def test_lumi_blocks_make_jobs_of_events(world: World) -> None:
    catalogue(world, in_=told(3, lumiblock=[7, 7, 8], nevents=[60, 60, 50]))
    ready(world, document(nEventsPerJob=100, respectLB=True))
    generate(world)
    assert jobs(world) == ["cat f0 f1 > o.000001", "cat f1 > o.000002", "cat f2 > o.000003"]


def lfns(world: World, task_id: int, kind: str = "demo:in") -> list[str]:
    found = rows(
        world,
        "SELECT lfn FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid) "
        "WHERE d.jeditaskid = :task AND datasetname = :name AND reason IS NULL ORDER BY fileid",
        task=task_id,
        name=kind,
    )
    return [row.lfn for row in found]


@pytest.mark.parametrize(
    ("keys", "kept"),
    [
        ({"nFilesPerJob": 2, "skipShortOutput": True}, ["f0", "f1", "f2", "f3"]),
        ({"nEventsPerInputFile": 20, "skipShortInput": True}, ["f0", "f2", "f4"]),
        ({"nEventsPerJob": 20, "orderInputBy": "eventsAlignment"}, ["f0", "f2", "f4", "f1", "f3"]),
        ({"orderByLB": True}, ["f3", "f4", "f0", "f2", "f1"]),
    ],
)
def test_which_files_and_in_which_order(
    world: World, keys: dict[str, Any], kept: list[str]
) -> None:
    catalogue(world, in_=told(5, nevents=[20, 7, 40, 19, 20], lumiblock=[5, 9, 5, 1, 1]))
    (task_id,) = ready(world, document(**keys))
    assert [lfn for lfn, _ in groupby(lfns(world, task_id))] == kept


def test_what_other_tasks_finished_is_skipped(world: World) -> None:
    catalogue(world, in_=3)
    (first,) = ready(world, document())
    rows(world, "UPDATE jedi_dataset_contents SET status = 'running' RETURNING 1")
    rows(
        world,
        "UPDATE jedi_dataset_contents SET status = 'finished' WHERE lfn = 'in000001' RETURNING 1",
    )
    (second,) = ready(world, document(output="a:two", skipFilesUsedBy=[first]))
    assert lfns(world, second) == ["in000000", "in000002"]


def test_places_in_what_follows_are_those_of_the_master(world: World) -> None:
    catalogue(world, in_=4, second=4)
    beside = {**SECOND, "indexConsistent": True}
    master = {**INPUT, "exclude": "*1"}
    items = [master, beside, {**OUTPUT, "dataset": "a:o"}]
    (task_id,) = ready(world, {"taskName": "t", "skipScout": True, "jobParameters": items})
    assert lfns(world, task_id, "demo:second") == ["second000000", "second000002", "second000003"]


def test_only_what_the_parent_recorded(world: World) -> None:
    catalogue(world, in_=3, made=3)
    (parent,) = ready(world, document(output="demo:made", taskName="parent"))
    rows(
        world,
        "INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, lfn, status) "
        "SELECT datasetid, jeditaskid, type, lfn, v.status FROM jedi_datasets d, (VALUES "
        "('made000000', 'finished'), ('made000001', 'failed')) v(lfn, status) "
        "WHERE d.datasetname = 'demo:made' RETURNING 1",
    )
    rows(world, "UPDATE jedi_tasks SET status = 'ready' RETURNING 1")
    reader = {**INPUT, "dataset": "demo:made", "check": True}
    items = [reader, {**OUTPUT, "dataset": "a:o"}]
    (child,) = put(
        world,
        {
            "taskName": "child",
            "noWaitParent": True,
            "parentTaskName": "parent",
            "jobParameters": items,
        },
    )
    rows(
        world,
        "UPDATE jedi_tasks SET parent_tid = :parent WHERE jeditaskid = :child RETURNING 1",
        parent=parent,
        child=child,
    )
    TaskRefiner(world).run_once()
    ContentsFeeder(world).run_once()
    assert lfns(world, child, "demo:made") == ["made000000"]


def test_ids_that_share_jobs_are_all_used_once(world: World) -> None:
    catalogue(world, in_=told(9, boundary=[1, 1, 2, 2, 2, 3, 4, 4, 4], lumiblock=[1] * 9))
    ready(world, document(groupBoundaryID=3, nFilesPerJob=4))
    generate(world)
    found = [command.split(" > ")[0].split()[1:] for command in jobs(world)]
    assert [lfn for job in found for lfn in job] == [f"f{i}" for i in range(9)]
    assert all(a[-1] < b[0] for a, b in pairwise(found))


# ----------------------------------------------------------------------------- placeholders


def test_names_in_a_file_and_numbers_of_a_job(world: World) -> None:
    catalogue(world, in_=3)
    constant = {"type": "constant", "value": "${IN/F} $JEDIFILEID ${SURL}"}
    ready(world, document(constant, nFilesPerJob=2, sourceURL="https://x.org/src"))
    generate(world)
    found = rows(
        world,
        "SELECT j.*, (SELECT min(fileid) FROM jedi_job_files f "
        "WHERE f.pandaid = j.pandaid AND type = 'input') AS first "
        "FROM jedi_job_params j ORDER BY 1",
    )
    assert [row.texts for row in found] == [
        {"input_IN.txt": "in000000\nin000001\n"},
        {"input_IN.txt": "in000002\n"},
    ]
    rest = f"input_IN.txt {found[0].first} https://x.org/src > o.000001"
    assert found[0].jobparameters == f"cat in000000 in000001 {rest}"


def test_an_offset_of_the_seeds(world: World) -> None:
    ready(
        world,
        document({"type": "constant", "value": "${RNDMSEED}"}, randomSeed=100)
        | {
            "noInput": True,
            "jobParameters": [{"type": "constant", "value": "${RNDMSEED}"}, OUTPUT],
        },
    )
    generate(world)
    assert jobs(world) == ["101 > o.000001"]


def test_all_names_in_files(world: World) -> None:
    catalogue(world, in_=1)
    ready(world, document(writeInputToFile=True))
    generate(world)
    assert jobs(world) == ["cat input_IN.txt > o.000001"]


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"addNthFieldToLFN": [2, 1]}, "in"),
        ({"addNthFieldToLFN": [1], "useFileAsSourceLFN": True}, "in000000"),
    ],
)
def test_fields_of_the_input_in_the_names_of_outputs(
    world: World, keys: dict[str, Any], name: str
) -> None:
    catalogue(world, in_=1)
    output = {**OUTPUT, "value": "> ${MIDDLENAME}.o.${SN}"}
    task = {"taskName": "t", "skipScout": True, "jobParameters": [INPUT, output], **keys}
    ready(world, task)
    generate(world)
    assert jobs(world) == [f"cat in000000 > {name}.o.000001"]


def test_an_output_goes_where_it_is_told(world: World) -> None:
    catalogue(world, in_=1)
    task = document()
    task["jobParameters"][-1] |= {"destination": "SITE_B_DATADISK", "token": "T", "transient": True}
    ready(world, task)
    (row,) = rows(world, "SELECT * FROM jedi_datasets WHERE type = 'output'")
    assert (row.destination, row.storagetoken, row.attributes) == ("SITE_B_DATADISK", "T", "tr")
    generate(world)
    (file,) = rows(world, "SELECT * FROM jedi_job_files WHERE type = 'output'")
    assert file.endpoint == "SITE_B_DATADISK"


@pytest.mark.parametrize(("token", "endpoint"), [("T", "SITE_A_SCRATCH"), ("U", "SITE_A_DATADISK")])
def test_an_output_goes_to_the_space_of_its_token(world: World, token: str, endpoint: str) -> None:
    catalogue(world, in_=1)
    (scratch := world.settings.home / "scratch").mkdir()
    rows(
        world,
        "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, site, path, token) "
        f"VALUES ('SITE_A_SCRATCH', 'SITE_A', '{scratch}', 'T') RETURNING 1",
    )
    rows(
        world,
        "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, default_write) "
        "VALUES ('SITE_A', 'SITE_A_SCRATCH', false) RETURNING 1",
    )
    task = document(site="SITE_A")
    task["jobParameters"][-1]["token"] = token
    ready(world, task)
    generate(world)
    (file,) = rows(world, "SELECT * FROM jedi_job_files WHERE type = 'output'")
    assert file.endpoint == endpoint
