"""A name has one meaning: whoever searches for a class finds one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import jedi

PACKAGE = Path(jedi.__file__).parent


def sources() -> dict[str, str]:
    return {str(p.relative_to(PACKAGE)): p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}


def classes(source: str) -> Iterable[str]:
    """The classes that a file defines, in whatever scope."""
    return (n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef))


def in_several_files(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of classes that are defined more than once, and where."""
    found = defaultdict(list)
    for path, source in files.items():
        for name in classes(source):
            found[name].append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_names_of_classes_are_unique() -> None:
    """Issue: "36 class names occur twice or more (`Queue` x4; `Plan`, `Known`, `Load`, `Held`,
    `Verdict` x3)"."""
    assert in_several_files(sources()) == {}


def test_the_check_itself_finds_duplicates() -> None:
    files = {"a.py": "class Plan: ...", "b.py": "def f():\n    class Plan: ...", "c.py": "Plan = 1"}
    assert in_several_files(files) == {"Plan": ["a.py", "b.py"]}
