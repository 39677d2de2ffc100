"""Forms of placeholders, and sums, which are computed without running anything as code."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generate import jobs_of
from support.generating import catalogue, generate, ready, rows
from support.task_rows import INPUT, OUTPUT, row_of

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.model.tasks import arithmetic
from jedi.model.tasks.placeholders import Form
from jedi.model.tasks.text import validate

Drawn = tuple[str, int]
APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul}
UNKNOWN = 5


def both(left: Drawn, sign: str, right: Drawn) -> Drawn:
    return f"({left[0]} {sign} {right[0]})", APPLY[sign](left[1], right[1])


def negative(inner: Drawn) -> Drawn:
    return f"-{inner[0]}", -inner[1]


SUMS: st.SearchStrategy[Drawn] = st.recursive(
    st.just(("#", UNKNOWN)) | st.integers(0, 99).map(lambda n: (str(n), n)),
    lambda inner: st.builds(both, inner, st.sampled_from("+-*"), inner) | inner.map(negative),
    max_leaves=8,
)


@given(SUMS.filter(lambda drawn: len(drawn[0]) <= 100))
def test_sums_of_any_depth(drawn: Drawn) -> None:
    text, value = drawn
    assert arithmetic.parse(text)(UNKNOWN) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("7/2", 3), ("-7/2", -4), ("7//2*2", 6), ("7%4+#", 8), ("10-3-2", 5), ("2*(#+1)", 12)],
)
def test_sums(text: str, value: int) -> None:
    assert arithmetic.parse(text)(5) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1+",
        "(1",
        "1)",
        "2**3",
        "#.real",
        "__import__('os')",
        "1e9",
        "a",
        "1 2",
        "9" * 200,
        "(" * 90,
    ],
)
def test_no_sums(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        arithmetic.parse(text)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("${IN/L[0]}", "has brackets without a slice such as [0:2]"),
        ("${IN/LL}", "is not a form of a placeholder"),
        ("${IN/M[#]}", "has no such form"),
        ("${IN/F[1:]}", "has brackets without a slice such as [0:2]"),
        ("${MIDDLENAME}", "addNthFieldToLFN is missing"),
        ("${SURL}", "the task has no source URL"),
        ("${IN} ${SN/M[#+]}", "a value is missing"),
        ("${IN} ${SN/M}", "a value is missing"),
        ("${IN} ${SN/S}", "has no such form"),
    ],
)
def test_bad_forms_are_refused(value: str, rule: str) -> None:
    with pytest.raises(BadInput) as caught:
        validate({"taskName": "t", "jobParameters": [{**INPUT, "value": value}, OUTPUT]})
    assert [problem.rule for problem in caught.value.problems] == [rule]


def test_a_file_name_has_its_serial_number_as_it_is() -> None:
    named = {**OUTPUT, "value": "> o.${SN}.${SN/M[#*0]}"}
    with pytest.raises(BadInput):
        validate({"taskName": "t", "jobParameters": [INPUT, named]})


def test_a_part_of_the_names() -> None:
    assert [*"abcd"][Form.parse("L[1:-1]").part] == ["b", "c"]
    assert Form.parse("").part == slice(None)


def task(world: World, value: str, **keys: Any) -> int:
    catalogue(world, in_=3)
    items = [{**INPUT, "value": value}, OUTPUT]
    (found,) = ready(world, {"taskName": "t", "jobParameters": items, **keys})
    generate(world)
    return found


def test_forms_reach_the_jobs(world: World) -> None:
    value = "${IN/A} ${IN/[1:]} ${SN/M[(#-1)*10]} ${ATTEMPTNR/M[#*2]}"
    found = jobs_of(world, task(world, value, nFilesPerJob=2))
    assert [job.command.split(" >")[0] for job in found] == [
        '"in000000","in000001" in000001 0 2',
        '"in000002"  10 2',
    ]


def test_a_sum_without_a_value_is_told(world: World) -> None:
    found = task(world, "${IN} ${SN/M[1/(#-1)]}", nFilesPerJob=2)
    assert not rows(world, "SELECT pandaid FROM jedi_jobs")
    one = row_of(world, found)
    assert (one.status, one.reason_code) == ("pending", "unresolved_placeholder")
    assert "${SN/M[1/(#-1)]} divides by zero." in one.errordialog
