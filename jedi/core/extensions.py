"""Other distributions that add to JEDI, found by their entry points.

`jedi.wires`: routes (jedi/api/wires.py). `jedi.operations`: a module with operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@dataclass(frozen=True, slots=True)
class Extension:
    """The part behind an entry point. `trouble`: why it can't be used; then `part` is None."""

    name: str
    distribution: str
    part: Any
    trouble: str = ""


def installed(group: str) -> dict[str, str]:
    """The distributions behind the entry points of a group, by name; none is imported."""
    return {name: _distribution(point) for name, point in _points(group).items()}


@cache
def extensions(group: str) -> tuple[Extension, ...]:
    """All of a group, by name. One that can't be imported stops nobody."""
    return tuple(map(_loaded, _points(group).values()))


def _points(group: str) -> dict[str, EntryPoint]:
    points = {point.name: point for point in entry_points(group=group)}
    return dict(sorted(points.items()))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _loaded(point: EntryPoint) -> Extension:
    of = _distribution(point)
    try:
        return Extension(point.name, of, point.load())
    except Exception as error:  # noqa: BLE001 - other people's code
        return Extension(point.name, of, None, f"{type(error).__name__}: {error}")
