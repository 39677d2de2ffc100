"""Docstrings name their subject: none begins with a clause such as "What ..." or "Whether ..."."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.sources import programs

ROOT = Path(__file__).parents[2]
HEADLESS = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whether|Why|Where|Which|How|That|Of|Such|Those)\b"
)


def headless(source: str) -> Iterator[str]:
    """The beginnings of docstrings, also of those below constants and fields, that are clauses."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if HEADLESS.match(text.strip()):
                    yield text.strip()[:60]


def test_docstrings_put_the_term_first() -> None:
    """CONTRIBUTING, "Plain English": begin with a verb, or with the thing returned."""
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in programs()
        for text in headless(file.read_text())
    ]
    assert found == []


def test_the_search_finds_clauses_and_no_verbs() -> None:
    clause = 'def f():\n    """What a site says."""\n'
    assert [*headless(clause + clause.replace("What a site says", "Return the report"))] == [
        "What a site says."
    ]
