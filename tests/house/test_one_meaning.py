"""A name has one meaning: a search for a class or a type finds one."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import jedi
from jedi.core import states
from jedi.taskbuffer.db import sql_lists

PACKAGE = Path(jedi.__file__).parent
ROOT = Path(__file__).parents[2]


def sources() -> dict[str, str]:
    """The server's files and those of the wires beside it."""
    places = (PACKAGE, ROOT / "panda/src")
    return {
        str(p.relative_to(top)): p.read_text() for top in places for p in sorted(top.rglob("*.py"))
    }


def names(source: str) -> Iterator[str]:
    """The classes of a file in any scope, and its public aliases (`Pair = tuple[…]`)."""
    tree = ast.parse(source)
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        if isinstance(node, ast.Assign) and not _is_variable(node.value):
            found = (t.id for t in node.targets if isinstance(t, ast.Name))
            yield from (name for name in found if name[0].isupper() and not name.isupper())


def _is_variable(value: ast.expr) -> bool:
    """TypeVar("T") names no type of its own."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"


def in_several_files(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Names that are defined more than once, and where."""
    found = defaultdict(list)
    for path, source in files.items():
        for name in names(source):
            found[name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_names_of_types_are_unique() -> None:
    """No class name occurs twice: `Queue`, `Plan` or `Load` would mean several things."""
    assert in_several_files(sources()) == {}


def test_the_check_itself_finds_duplicates() -> None:
    files = {
        "a.py": "class Plan: ...\nPair = tuple[int, str]",
        "b.py": "def f():\n    class Plan: ...",
        "c.py": "PLAN = 1\n_Plan = int\nPair = list[int]\nplan = 3",
        "d.py": 'Item = TypeVar("Item")',
        "e.py": 'Item = TypeVar("Item")',
    }
    assert in_several_files(files) == {"Plan": ["a.py", "b.py"], "Pair": ["a.py", "c.py"]}


def test_sets_are_rendered_for_sql_in_one_place() -> None:
    """One place renders sets of statuses and types; `_OUTPUTS`, `_INPUTS` and `_MASTERS` were
    different sets under one name."""
    rendered = re.compile(r"""\.join\(\s*f"'\{|\b_(INPUTS|OUTPUTS|MASTERS)\b""")
    found = [path for path, source in sources().items() if rendered.search(source)]
    assert found == ["taskbuffer/db/sql_lists.py"]


def test_sets_in_sql_bear_the_names_of_the_sets() -> None:
    """`JOB_FINAL` in SQL is `JOB_FINAL` of core/states.py."""
    lists = {name: text for name, text in vars(sql_lists).items() if name.isupper()}
    same = {name: getattr(states, name) for name in lists if hasattr(states, name)}
    for name, words in same.items():
        assert set(lists[name].split(", ")) == {f"'{word}'" for word in words}
    assert lists.keys() - same.keys() == {"INPUT_FILE_TYPES", "FED_FILE_TYPES", "TASK_FINAL"}


RIDDLES = re.compile(
    r"shepherd|\btending\b|\bcalling\b|\bplacing\b|courier|_furnish|told_columns|def told\b"
)
"""Names that newcomers did not understand. docs/glossary.md has the present ones."""
SEED = re.compile(r"seed")


def test_names_are_words_of_the_field() -> None:
    """The glossary's term, not a metaphor: `payload monitor`, not `shepherd`."""
    assert [path for path, source in sources().items() if RIDDLES.search(source)] == []


def test_a_seed_is_one_of_random_numbers() -> None:
    """Webhook secrets are made of a salt; `seed` belongs to random numbers."""
    secret = ("webhook", "taskbuffer/users", "service/users", "notifier", "delivery")
    found = [
        path
        for path, source in sources().items()
        if any(part in path for part in secret) and SEED.search(source)
    ]
    assert found == []
