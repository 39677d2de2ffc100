"""Functions stay small enough to be read at once. A file has one noun, however long it is."""

from __future__ import annotations

import ast
from pathlib import Path

from support.sources import programs

ROOT = Path(__file__).parents[2]
FUNCTION_LINES = 60


def sources() -> dict[str, str]:
    return {str(file.relative_to(ROOT)): file.read_text() for file in programs()}


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{path}:{node.name}"
        for path, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []
