"""JDL: attributes, comments, brackets, and mistakes with their places."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jedi.core.errors import BadInput
from jedi.model.jdl.parse import Quoted, parse

RFC = """Executable = "/bin/echo";
JobName = "parametric_${SplitSourceJob}:${SplitID}";
Arguments = "$Parameter";
Parameters = 10;
ParameterStep = 1;
ParameterFactor = 1.3;
StdOutput = "StdOut_$SplitID";
StdError = "StdErr_$SplitID";
OutputSandbox = { "StdOut_$SplitID","StdErr_$SplitID" };
Splitter = Parametric;
"""


def test_the_example_of_the_rfc() -> None:
    assert parse(RFC) == {
        "Executable": "/bin/echo",
        "JobName": "parametric_${SplitSourceJob}:${SplitID}",
        "Arguments": "$Parameter",
        "Parameters": "10",
        "ParameterStep": "1",
        "ParameterFactor": "1.3",
        "StdOutput": "StdOut_$SplitID",
        "StdError": "StdErr_$SplitID",
        "OutputSandbox": ["StdOut_$SplitID", "StdErr_$SplitID"],
        "Splitter": "Parametric",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = 1", {"A": "1"}),
        ("[ A = 1; B = 2 ]", {"A": "1", "B": "2"}),
        ("[A=1;];", {"A": "1"}),
        ("A=1;;; B=2;", {"A": "1", "B": "2"}),
        ("[A=1];[B=2]", None),
        ('A="a;b=[c]{d},#//x\ny"', {"A": "a;b=[c]{d},#//x\ny"}),
        (r'A="say \"hi\" \\ \n"', {"A": 'say "hi" \\ \\n'}),
        ("N = 007; M=1e5; F = -1.3", {"N": "007", "M": "1e5", "F": "-1.3"}),
        (
            "S = Parametric; E=/bin/ls; x=-l; O = std.err",
            {"S": "Parametric", "E": "/bin/ls", "x": "-l", "O": "std.err"},
        ),
        (
            'P = {1,"b",3,}; Q = {}; R={{a,"b"},{c}}',
            {"P": ["1", "b", "3"], "Q": [], "R": [["a", "b"], ["c"]]},
        ),
        ('A = "x","y"', {"A": ["x", "y"]}),
        ('J = [ CPUTime = 300; T = {"a"}; ];', {"J": {"CPUTime": "300", "T": ["a"]}}),
        ("# comment ; =\nA = 1; // x = {\n/* B = [2; */ C = 3", {"A": "1", "C": "3"}),
        ("A = srm://x/y; B=http://z", {"A": "srm://x/y", "B": "http://z"}),
        ("A = ${SplitID}_x; D = %(A)s", {"A": "${SplitID}_x", "D": "%(A)s"}),
        ("P.B = {1}; ParameterStart.B=2", {"P.B": ["1"], "ParameterStart.B": "2"}),
        ('Arguments = "a[1]";', {"Arguments": "a[1]"}),
        ('A="é"', {"A": "é"}),
    ],
    ids=str,
)
def test_texts(text: str, expected: dict[str, Any] | None) -> None:
    """Numbers and words keep their text; only a backslash before a quote or backslash protects."""
    if expected is None:
        with pytest.raises(BadInput):
            parse(text)
    else:
        assert parse(text) == expected


def test_quoted_strings_are_known_as_such() -> None:
    """`Parameters = "5"` is no count."""
    found = parse('A = "5"; B = 5')
    assert isinstance(found["A"], Quoted) and not isinstance(found["B"], Quoted)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('A = "abc', ["line 1, column 5"]),
        ("A = 1;\nB = {1", ["line 2, column 5"]),
        ("A = 1]", ["line 1, column 6"]),
        ("A = {1)", ["line 1, column 5"]),
        (
            'A = "say "hi" there";\nB == 2;\n C = ;\nD = 3',
            ["line 1, column 11", "line 2, column 4", "line 3, column 5"],
        ),
        ("Requirements = other.Memory > 10 && x;", ["line 1, column 29"]),
        ("A=1;a=2;A=3", ["line 1, column 5", "line 1, column 9"]),
        ("A = [B=1;b=2]", ["line 1, column 10"]),
        ("", ["line 1, column 1"]),
        ("A", ["line 1, column 2"]),
        ("A = 1 + 2", ["line 1, column 7"]),
        ('A="x\0"', ["line 1, column 5"]),
        ("/* x", ["line 1, column 1"]),
        ("A = {1,,2}", ["line 1, column 8"]),
    ],
    ids=repr,
)
def test_mistakes_have_places(text: str, places: list[str]) -> None:
    """All mistakes at once, each with its line and column, the rule and the remedy."""
    with pytest.raises(BadInput) as refused:
        parse(text)
    assert [problem.path for problem in refused.value.problems] == places
    assert all(problem.rule and problem.remedy for problem in refused.value.problems)


_PIECES = st.sampled_from([*'"{}[];=,A1 #$é\\\n\0', "//", "/*", "*/", "${", "%(", ")s", "A = 1;"])


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse(text)
    except BadInput as error:
        assert error.problems


@pytest.mark.parametrize(
    "text",
    [
        "{" * 10**6,
        "A=" + "[" * 10**6,
        "A={" * 10**5,
        '"' * 99999,
        "/*" * 10**5,
        "\\" * 10**5 + '"',
        "A" * 10**6,
        "A = {" + "1," * 50000,
    ],
    ids=lambda text: text[:6],
)
def test_bombs_are_refused_at_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(BadInput):
        parse(text)
    assert time.process_time() - begun < 2
