"""The two ids have one Python spelling: `jedi_task_id` and `panda_id`. SQL keeps the names of the
columns, and messages of pilots those of the wire (docs/reference/identifiers-and-names.md)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHER = {"jeditaskid", "pandaid", "jeditask_id", "jedi_taskid"}
LEFT = {"jedi": 34, "tests": 103, "benchmarks": 0}
"""Identifiers with another spelling that are left. These numbers may only fall."""


def spellings(source: str) -> int:
    """How many identifiers of a source spell an id in another way."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found += name.lower() in OTHER
            case ast.keyword(arg=str(name)):
                found += name.lower() in OTHER
    return found


def counts(roots: Iterable[str]) -> dict[str, int]:
    found = Counter(dict.fromkeys(roots, 0))
    for root in found:
        for path in ROOT.joinpath(root).rglob("*.py"):
            found[root] += spellings(path.read_text())
    return dict(found)


def test_ids_have_one_spelling_in_python() -> None:
    """No new identifier is called `jeditaskid` or `pandaid`."""
    more = {root: n for root, n in counts(LEFT).items() if n > LEFT[root]}
    assert more == {}, "use jedi_task_id and panda_id"


def test_the_count_finds_identifiers_and_no_sql() -> None:
    source = 'def f(pandaid): return row.jeditaskid, g(pandaid=1), "SELECT pandaid", {"pandaid": 1}'
    assert spellings(source) == 3
