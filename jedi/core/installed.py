"""Entry points of plug-ins that are installed beside JEDI."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path


def plug_ins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name. To read all distributions takes 10 ms and more, so it is
    done once, and again when an installation has changed a directory of Python's path."""
    return _read(group, tuple(map(_changed, sys.path)))


def _changed(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _read(group: str, _state: tuple[int, ...]) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
