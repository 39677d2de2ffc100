"""Depth of values: lists and mappings within each other. Functions that walk through a value call
themselves for each level, and Python has only so many."""

from __future__ import annotations

from typing import Any


def is_deeper(value: Any, most: int) -> bool:
    """Return True if more than `most` lists and mappings lie within each other."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
