"""The two ids have one Python spelling: `jedi_task_id` and `panda_id`. SQL keeps the names of the
columns, and messages of pilots those of the wire (docs/reference/identifiers-and-names.md)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHER = {"jeditaskid", "pandaid", "jeditask_id", "jedi_taskid"}
WIRE = {
    "jedi/service/pilots/pilot_requests.py": 3,
    "jedi/model/jobs/wire.py": 1,
    "jedi/taskbuffer/jobs/dispatch.py": 7,
}
"""The field `pandaid` of pilots' messages, and its readers. Pilots of other releases send this
name, and one field with two names would let a message carry both."""
IN_TESTS = 70
"""Identifiers of tests with another spelling: messages of pilots, and old ones. The number may only
fall."""


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


def counts(root: str) -> dict[str, int]:
    """The number of other spellings in each file that has some."""
    files = sorted(ROOT.joinpath(root).rglob("*.py"))
    found = {str(path.relative_to(ROOT)): spellings(path.read_text()) for path in files}
    return {path: n for path, n in found.items() if n}


def test_ids_have_one_spelling_in_python() -> None:
    """Only the field of pilots' messages is called `pandaid`."""
    assert counts("jedi") == WIRE
    assert counts("panda/src") == {"panda/src/jedi_panda/service/panda_pilots.py": 5}
    assert (counts("client/src"), counts("benchmarks")) == ({}, {})


def test_old_spellings_in_tests_become_fewer() -> None:
    assert sum([*counts("tests").values(), *counts("panda/tests").values()]) <= IN_TESTS, (
        "use jedi_task_id and panda_id"
    )


def test_the_count_finds_identifiers_and_no_sql() -> None:
    source = 'def f(pandaid): return row.jeditaskid, g(pandaid=1), "SELECT pandaid", {"pandaid": 1}'
    assert spellings(source) == 3
