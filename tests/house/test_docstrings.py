"""Docstrings name their subject: few begin with a clause such as "What ..." or "Whether ..."."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADLESS = re.compile(r"(What|Who|Whom|Whose|Whoever|Whether|Why|Where|Which|How|That|Of)\b")
MOST = 89
"""Headless docstrings that are left. Lower the number whenever you rewrite some; never raise it."""


def test_headless_docstrings_only_become_fewer() -> None:
    """CONTRIBUTING, "Plain English": begin with a verb, or with the thing returned."""
    found = []
    for path in sorted(ROOT.glob("jedi/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if HEADLESS.match(text):
                    found.append(f"{path.relative_to(ROOT)}: {text[:60]}")
    assert 0 < len(found) <= MOST, "\n".join(found)
