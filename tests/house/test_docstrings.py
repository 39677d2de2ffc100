"""Docstrings name their subject: none begins with a clause such as "What ..." or "Whether ..."."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADLESS = re.compile(r"(What|Who|Whom|Whose|Whoever|Whether|Why|Where|Which|How|That|Of)\b")


def headless(source: str) -> Iterator[str]:
    """The beginnings of docstrings that are clauses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if HEADLESS.match(text):
                yield text[:60]


def test_docstrings_put_the_term_first() -> None:
    """CONTRIBUTING, "Plain English": begin with a verb, or with the thing returned."""
    files = sorted([*ROOT.glob("jedi/**/*.py"), *ROOT.glob("client/src/**/*.py")])
    found = [f"{file.relative_to(ROOT)}: {text}" for file in files
             for text in headless(file.read_text())]  # fmt: skip
    assert found == []


def test_the_search_finds_clauses_and_no_verbs() -> None:
    clause = 'def f():\n    """What a site says."""\n'
    assert [*headless(clause + clause.replace("What a site says", "Return the report"))] == [
        "What a site says."
    ]
