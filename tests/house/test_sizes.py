"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE_LINES, FUNCTION_LINES = 500, 60
DECLARATIONS = {
    "client/src/jedi_client/models.py",
    "client/src/jedi_client/operations.py",
    "jedi/core/states.py",
}
"""Generated files, and lists of declarations that people search."""


def sources() -> dict[str, str]:
    files = sorted([*ROOT.glob("jedi/**/*.py"), *ROOT.glob("client/src/**/*.py")])
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def test_files_have_few_lines() -> None:
    """CONTRIBUTING, "Rules of the house". Divide a long file by subject."""
    long = {path for path, text in sources().items() if text.count("\n") > FILE_LINES}
    assert long - DECLARATIONS == set()


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{path}:{node.name}"
        for path, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []
