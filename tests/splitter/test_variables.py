"""Variables of manifests. Expected texts: docs/reference/herds.md#variables, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from jedi.core.errors import BadInput
from jedi.model.splitting.units import Unit
from jedi.model.splitting.variable_forms import has_variables
from jedi.splitter.plan import render_units
from jedi.splitter.variables import expand

KNOWN: dict[str, Any] = {
    "SplitID": "02",
    "SplitSourceJob": "41",
    "JobID": "43",
    "Parameter": "3.99",
    "Parameter.A": "x",
    "ParameterNumber": "2",
    "Tricky": "${SplitID}",
    "Files": ["a", "b"],
}


def test_a_value_that_no_program_takes_is_refused() -> None:
    """2 × 70,000 bytes in one word; in two they are two arguments."""
    units = [Unit({"Parameter": "x" * 70_000})]
    with pytest.raises(BadInput, match="an argument has 140000 bytes"):
        render_units(units, [1], {"Arguments": "$Parameter$Parameter"}, 10**6)
    assert render_units(units, [1], {"Arguments": "$Parameter $Parameter"}, 10**6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parametric_${SplitSourceJob}:${SplitID}", "parametric_41:02"),
        ("$Parameter", "3.99"),
        ("StdOut_$SplitID", "StdOut_02"),
        ("$SplitID_x", "$SplitID_x"),
        ("${SplitID}_x", "02_x"),
        ("$SplitID/out", "02/out"),
        ("$$SplitID", "$SplitID"),
        ("$HOME/$SplitID", "$HOME/02"),
        ("cost 5$", "cost 5$"),
        ("$splitid", "$splitid"),
        ("${Parameter.A}", "x"),
        ("$Tricky", "${SplitID}"),
        ("%s %n %(A)s %j", "3.99 2 x 43"),
        ("%(B)s 5% %d", "%(B)s 5% %d"),
        ("$Files", ["a", "b"]),
        ("x$Files", "xa,b"),
        (["$Files", "c_$SplitID"], ["a", "b", "c_02"]),
        ([["$SplitID"]], [["02"]]),
    ],
    ids=str,
)
def test_variables(text: Any, expected: Any) -> None:
    """Known names are replaced once; everything else stays as it is."""
    assert expand(text, KNOWN) == expected


def test_only_forms_of_variables_count() -> None:
    assert has_variables(["a", ["$X"]])
    assert not has_variables(["a$", "100%"])
