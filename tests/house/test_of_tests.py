"""Tests keep to the house as well: builders in support/, raw UPDATEs with a reason."""

from __future__ import annotations

import ast
import re

from support.sources import ROOT, all_tests

RAW = re.compile(r"\bUPDATE (?:\{|jedi_|job_)")
"""An UPDATE of JEDI's tables, as text."""


def sources() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in all_tests()}


def test_raw_updates_say_why() -> None:
    """Builders, agents and the service change rows; other UPDATEs have their reason above."""
    found = [
        name
        for name, source in sources().items()
        if RAW.search(source) and not re.search(r"\bRaw(?: UPDATEs)?:", source)
    ]
    assert found == []


def test_no_test_imports_a_test() -> None:
    found = [
        f"{name}: {line}"
        for name, source in sources().items()
        for line in source.splitlines()
        if re.match(r"\s*(?:from|import) (?:\S+\.)?test_", line)
    ]
    assert found == []


def test_there_is_one_helper_for_statuses() -> None:
    found = [
        name
        for name, source in sources().items()
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "statuses"
    ]
    assert {*found} == {"tests/support/statuses.py"}


def test_the_worked_example_is_a_test() -> None:
    """docs/write-a-test.md shows the test as it stands in the tree."""
    page = (ROOT / "docs" / "write-a-test.md").read_text()
    shown = page.partition("```python\n")[2].partition("```")[0]
    test = (ROOT / "tests" / "whole" / "test_worked_example.py").read_text()
    assert shown == test[test.index("from support") :]


def test_the_short_run_covers_each_room() -> None:
    """`make test` leaves out whole files marked `long`; every room keeps another one."""
    files = [path for path in all_tests() if path.name.startswith("test_")]
    rooms = {path.parent.name for path in files}
    marked = re.compile(r"\npytestmark = \[?pytest\.mark\.long")
    short = {path.parent.name for path in files if not marked.search(path.read_text())}
    assert rooms - short == {"slurm", "wire"}
