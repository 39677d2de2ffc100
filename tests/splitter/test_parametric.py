"""Strategy Parametric. Values by hand: RFC #15's example, x(0) = 1, x(n+1) = x(n) * 1.3 + 1."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jedi.core.errors import BadInput
from jedi.splitter.parametric import Parametric

RFC = [
    "1",
    "2.3",
    "3.99",
    "6.187",
    "9.0431",
    "12.75603",
    "17.582839",
    "23.8576907",
    "32.01499791",
    "42.619497283",
]


def options(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(unit.options) for unit in Parametric().plan(manifest)]


def values(manifest: dict[str, Any], name: str = "Parameter") -> list[Any]:
    return [unit[name] for unit in options(manifest)]


def test_the_example_of_the_rfc() -> None:
    """RFC #15: "Arguments = 3.99" in the third child; multiply first, then add, start 1."""
    manifest = {"Parameters": "10", "ParameterStep": "1", "ParameterFactor": "1.3"}
    assert values(manifest) == RFC
    assert values(manifest, "ParameterNumber") == list("0123456789")


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"Parameters": "3"}, ["1", "1", "1"]),
        ({"Parameters": 3, "ParameterStart": 5, "ParameterStep": -2}, ["5", "3", "1"]),
        ({"Parameters": "2", "ParameterStart": "0.1", "ParameterFactor": "3"}, ["0.1", "0.3"]),
        (
            {"Parameters": "4", "ParameterStep": "0.5", "ParameterFactor": "1.0"},
            ["1", "1.5", "2.0", "2.5"],
        ),
        ({"Parameters": "3", "ParameterStep": "1", "ParameterFactor": "1.0"}, ["1", "2", "3"]),
        (
            {"Parameters": "3", "ParameterStart": "1.0", "ParameterStep": "0.5"},
            ["1.0", "1.5", "2.0"],
        ),
        ({"Parameters": "3", "ParameterStart": "2", "ParameterFactor": "2.5"}, ["2", "5", "12.5"]),
        ({"Parameters": "3", "ParameterStart": "0", "ParameterFactor": "1.0"}, ["0", "0", "0"]),
        ({"Parameters": "2", "ParameterStart": "100", "ParameterFactor": "1e1"}, ["100", "1000"]),
        ({"Parameters": ["only"]}, ["only"]),
        ({"Parameters": ["5"]}, ["5"]),
        ({"Parameters": ["a b", "c"]}, ["a b", "c"]),
        ({"Parameters": [["a", "b"], ["c"]]}, [["a", "b"], ["c"]]),
    ],
    ids=str,
)
def test_forms(manifest: dict[str, Any], expected: list[Any]) -> None:
    """Braces decide whether a value is a list or a count. A value ends with no more zeros than
    Start and Step have as written: a Factor of 1.0 adds none."""
    assert values(manifest) == expected


def test_named_parameters_go_side_by_side() -> None:
    """Named parameters need no unnamed one."""
    manifest = {"Parameters.A": ["x", "y"], "Parameters.B": "2", "ParameterStep.B": "0.5"}
    assert options(manifest) == [
        {"Parameter.A": "x", "Parameter.B": "1", "ParameterNumber": "0"},
        {"Parameter.A": "y", "Parameter.B": "1.5", "ParameterNumber": "1"},
    ]


@pytest.mark.parametrize(
    ("manifest", "paths"),
    [
        ({"Parameters": "0"}, ["Parameters"]),
        ({"Parameters": "-1"}, ["Parameters"]),
        ({"Parameters": "2.5"}, ["Parameters"]),
        ({"Parameters": []}, ["Parameters"]),
        ({}, ["Parameters"]),
        ({"Parameters.A": ["x"], "Parameters.B": "2"}, ["Parameters"]),
        ({"Parameters": ["x"], "ParameterStep": "1"}, ["ParameterStep"]),
        (
            {"Parameters": "2", "ParameterStep": "x", "ParameterFactor": "NaN"},
            ["ParameterStep", "ParameterFactor"],
        ),
        ({"Parameters": "x", "ParameterStart": "1e99"}, ["Parameters", "ParameterStart"]),
        ({"Parameters": "2", "ParameterStep": "1_0"}, ["ParameterStep"]),
    ],
    ids=str,
)
def test_mistakes_come_all_at_once(manifest: dict[str, Any], paths: list[str]) -> None:
    found = Parametric().check(manifest)
    assert [problem.path for problem in found] == paths
    assert all(problem.rule and problem.remedy for problem in found)
    with pytest.raises(BadInput):
        options(manifest)


def test_values_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(BadInput, match=r"ParameterFactor: .* its value 2 has more than 30 digits"):
        options({"Parameters": "99", "ParameterFactor": "1e30"})


@settings(max_examples=1000)
@given(
    st.decimals(-1000, 1000, places=2),
    st.decimals(-10, 10, places=2),
    st.decimals(Decimal("0.9"), Decimal("1.1"), places=1),
    st.integers(1, 10),
)
def test_ramps_are_exact(start: Decimal, step: Decimal, factor: Decimal, count: int) -> None:
    """No value has the noise of binary fractions: each has the digits of a sum by hand."""
    found = values(
        {
            "Parameters": count,
            "ParameterStart": str(start),
            "ParameterStep": str(step),
            "ParameterFactor": str(factor),
        }
    )
    value = start
    for text in found:
        assert Decimal(text) == value
        value = value * factor + step
    assert len(found) == count
