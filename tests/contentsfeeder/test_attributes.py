"""What an input item says of its datasets: which files, in which order, how many for a job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.feed import look_again, named
from support.generate import inputs_of, jobs_of
from support.generating import SECOND, catalogue, document, generate, ready, rows
from support.split import chunk, cut, files, follow, spans
from support.task_rows import INPUT, OUTPUT, row_of

from jedi.agent.base import World
from jedi.brokerage.requirements import atom
from jedi.contentsfeeder.select import Selection
from jedi.core.errors import BadInput
from jedi.ddm.interface import FileInfo
from jedi.model.datasets.chunk import Secondary
from jedi.model.datasets.dataset import Attributes
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.text import validate

FOUR = SplitRules(n_files_per_job=4)


def picked(n: int = 10, words: str = "", **item: Any) -> list[str]:
    selection = Selection.of(item, Attributes.parse(words), 5, ("d:own", "d:container"))
    return [file.lfn for file in selection.pick(named(n))]


def first(*numbers: int) -> list[str]:
    return [f"f{i:05d}" for i in numbers]


# -------------------------------------------------------------------------------- which files


@pytest.mark.parametrize(
    ("item", "words", "found"),
    [
        ({}, "", range(10)),
        ({"include": "*1,*3"}, "", [1, 3]),
        ({"include": "f0000?", "exclude": "*[2-9]"}, "", [0, 1]),
        ({"exclude": "*"}, "", []),
        ({"include": "f"}, "", []),  # a pattern is for the whole name
        ({"files": first(7, 2)}, "", [2, 7]),
        ({"files": ["d:own/f00007", "d:other/f00002", "d:container/f00003"]}, "", [3, 7]),
        ({"files": ["d:other/f00002"]}, "", range(10)),  # of another one it names them
        ({}, "of=3", range(3, 10)),
        ({}, "nr=2", [0, 1]),
        ({"exclude": "*3"}, "of=2,nr=3", [2, 4, 5]),
        ({}, "of=20", []),
    ],
)
def test_some_files_of_a_dataset(item: dict[str, Any], words: str, found: Any) -> None:
    assert picked(words=words, **item) == first(*found)


@given(st.integers(0, 50), st.integers(0, 60), st.none() | st.integers(1, 60))
def test_random_order_changes_nothing_but_the_order(n: int, skip: int, most: int | None) -> None:
    plain = Attributes(offset=skip, records=most).render()
    shuffled = Attributes(offset=skip, records=most, random=True).render()
    assert sorted(picked(n, shuffled)) == picked(n, plain)
    assert picked(n, shuffled) == picked(n, shuffled)


def test_a_random_order_is_one() -> None:
    assert picked(50, "rd") != picked(50)


def test_a_part_of_a_dataset_is_fed(world: World) -> None:
    ddm = catalogue(world, in_=10)
    part = {**INPUT, "include": "in*", "exclude": "*5", "offset": 1, "num_records": 3}
    (task,) = ready(world, {"taskName": "t", "jobParameters": [part, OUTPUT]})
    query = "SELECT lfn FROM jedi_dataset_contents WHERE jeditaskid = :t AND ready ORDER BY fileid"
    assert [r.lfn for r in rows(world, query, t=task)] == ["in000001", "in000002", "in000003"]
    grown = [FileInfo("in0000000", 10, "00000001"), *ddm.files["demo:in"]]
    ddm.files = {"demo:in": sorted(grown, key=lambda file: file.lfn)}
    look_again(world, task)
    select = "SELECT lfn, status FROM jedi_dataset_contents WHERE reason IS NULL ORDER BY fileid"
    again = rows(world, select)
    assert [(r.lfn, r.status) for r in again] == [
        ("in000001", "ready"),
        ("in000002", "ready"),
        ("in000003", "ready"),
    ]


def test_a_file_that_is_named_must_be_there(world: World) -> None:
    catalogue(world, in_=3)
    part = {**INPUT, "files": ["in000001", "nowhere"]}
    (task,) = ready(world, {"taskName": "t", "jobParameters": [part, OUTPUT]})
    found = row_of(world, task)
    assert (found.status, found.reason_code) == ("tobroken", "files_unknown")
    assert found.errordialog == "Dataset demo:in does not hold nowhere, which the task names."


# ------------------------------------------------------------------- what follows the master


@pytest.mark.parametrize(
    ("secondary", "expected"),
    [
        (Secondary("IN2", files(9), per_job=3), [(0, 3), (3, 6), (6, 9)]),
        (Secondary("IN2", files(8), per_job=3), [(0, 3), (3, 6)]),
        (Secondary("IN2", files(4), per_job=3, repeated=True), [(0, 3), (3, 6), (6, 9)]),
        (Secondary("IN2", files(7), per_job=3, reusable=True), [(0, 3), (3, 6), (0, 3)]),
        (Secondary("IN2", files(6), reusable=True), [(0, 4), (0, 4), (4, 6)]),
        (Secondary("IN2", files(3), reusable=True), []),
        # 4, 4 and 2 master events
        (Secondary("IN2", files(9, events=[2] * 9), event_ratio=1), [(0, 2), (2, 4), (4, 5)]),
        (Secondary("IN2", files(9, events=[3] * 9), event_ratio=1), [(0, 2), (2, 4), (4, 5)]),
        (Secondary("IN2", files(9, events=[9] * 9), event_ratio=0.5), [(0, 1), (1, 2), (2, 3)]),
        (Secondary("IN2", files(3, events=[2] * 3), event_ratio=1), [(0, 2)]),
        (
            Secondary("IN2", files(3, events=[2] * 3), event_ratio=1, reusable=True),
            [(0, 2), (0, 2), (2, 3)],
        ),
        (Secondary("IN2", files(1, events=[2]), event_ratio=1, reusable=True), []),
        (Secondary("IN2", files(0), event_ratio=1), []),
    ],
)
def test_how_many_follow(secondary: Secondary, expected: list[tuple[int, int]]) -> None:
    master = files(10, events=[1] * 10)
    assert follow(cut([chunk(master, secondary)], FOUR)) == expected


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.lists(st.integers(1, 9), max_size=30),
    st.integers(1, 5),
    st.sampled_from([0.3, 1.0, 2.5]),
)
def test_events_that_follow_suffice_and_are_used_once(
    counts: list[int], there: list[int], each: int, ratio: float
) -> None:
    beside = Secondary("IN2", files(len(there), events=there), event_ratio=ratio)
    found = cut(
        [chunk(files(len(counts), events=counts), beside)], SplitRules(n_files_per_job=each)
    )
    at = 0
    for (a, b), (start, end) in zip(spans(found), follow(found), strict=True):
        wanted = sum(counts[a:b]) * ratio
        assert start == at
        assert sum(there[start:end]) >= wanted - 1e-6
        assert sum(there[start : end - 1]) < wanted
        at = end
    assert at <= len(there)


def test_a_fixed_number_of_files_counts_as_files_of_the_job() -> None:
    beside = Secondary("IN2", files(99_000), per_job=990)
    found = cut([chunk(files(50), beside)], SplitRules(n_files_per_job=40))
    assert {b - a for a, b in spans(found)} == {10}
    many = Secondary("IN2", files(90, [7] * 90, [10] * 90), event_ratio=3)
    assert atom([chunk(files(4, [1] * 4, [100] * 4), many)], 2).bytes == 2 + 60 * 7


@pytest.mark.parametrize(("there", "firsts"), [(4, [0, 0, 0]), (7, [0, 3, 0])])
def test_attributes_reach_the_jobs(world: World, there: int, firsts: list[int]) -> None:
    three = {**SECOND, "nFilesPerJob": 3, "reusable": True}
    catalogue(world, in_=6, second=there)
    (task,) = ready(world, document(three, nFilesPerJob=2))
    generate(world)
    jobs = jobs_of(world, task)
    assert [names[2:] for names in inputs_of(world, task).values()] == [
        [f"second00000{first + k}" for k in range(3)] for first in firsts
    ]
    assert jobs[0].command.startswith("cat in000000 in000001 second000000 second000001 sec")
    beside = rows(world, "SELECT DISTINCT status FROM jedi_dataset_contents WHERE lfn LIKE 'sec%'")
    assert [r.status for r in beside] == ["ready"]


def test_events_of_another_dataset_reach_the_jobs(world: World) -> None:
    pile = {**SECOND, "eventRatio": 2}
    events = [FileInfo(f"p{i}", 10, "00000001", None, 100) for i in range(9)]
    catalogue(
        world, in_=[FileInfo(f"m{i}", 10, "00000001", None, 150) for i in range(2)], second=events
    )
    (task,) = ready(world, document(pile, nEventsPerJob=100))
    generate(world)
    assert [*inputs_of(world, task).values()] == [
        ["m0", "p0", "p1"],
        ["m0", "m1", "p2", "p3"],
        ["m1", "p4", "p5"],
    ]


# ------------------------------------------------------------------------------------- rules


@given(
    st.builds(
        Attributes,
        ratio=st.sampled_from([0.25, 1.0, 3.0]),
        nosplit=st.booleans(),
        repeat=st.booleans(),
        offset=st.integers(0, 9),
        event_ratio=st.none() | st.sampled_from([0.5, 2.0]),
        per_job=st.none() | st.integers(1, 9),
        reusable=st.booleans(),
        records=st.none() | st.integers(1, 9),
        random=st.booleans(),
    )
)
def test_attributes_survive_their_text(attributes: Attributes) -> None:
    assert Attributes.parse(attributes.render()) == attributes


@pytest.mark.parametrize("text", ["ratio=0", "er=-1", "np=0", "nr=x", "ru=1", "of", "xx", "np"])
def test_bad_attributes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Attributes.parse(text)


@pytest.mark.parametrize(
    ("master", "second", "path", "rule"),
    [
        ({"eventRatio": 2}, {}, "[0].eventRatio", "the first input is the master"),
        ({"attributes": "np=3,of=2"}, {}, "[0].attributes", "the first input is the master"),
        ({"reusable": True}, {}, "[0].reusable", "the first input is the master"),
        ({}, {"nFilesPerJob": 3, "ratio": 2}, "[1].attributes", "ratio and np each set"),
        (
            {},
            {"eventRatio": 3, "attributes": "er=2"},
            "[1].eventRatio",
            "the item's attributes set it",
        ),
        ({"files": ["a"], "include": "b"}, {}, "[0].include", "the item already names its files"),
        ({"files": ["a", "d:e/b"]}, {}, "[0].files[1]", "the item does not read dataset d:e"),
    ],
)
def test_contradictions(
    master: dict[str, Any], second: dict[str, Any], path: str, rule: str
) -> None:
    items = [{**INPUT, **master}, {**SECOND, **second}, OUTPUT]
    with pytest.raises(BadInput) as caught:
        validate({"taskName": "t", "jobParameters": items})
    (problem,) = caught.value.problems
    assert problem.path == f"jobParameters{path}"
    assert problem.rule.startswith(rule)


def test_what_a_master_may_say() -> None:
    item = {**INPUT, "attributes": "of=2,nr=5", "random": True, "reusable": False}
    params = validate({"taskName": "t", "jobParameters": [item, OUTPUT]})
    assert params.job_parameters[0].split.render() == "of=2,nr=5,rd"  # type: ignore[union-attr]


def test_files_beside_are_counted_where_events_decide() -> None:
    beside = Secondary("IN2", files(100, events=[10] * 100), event_ratio=1)
    assert beside.usual(np.ones(2), np.array([10.0, 20.0])).tolist() == [1.0, 2.0]
