"""Lists that come in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

PAGE = 10_000
"""Rows of a page."""

Row = TypeVar("Row")


def pages(ask: Callable[[Row | None], Sequence[Row]]) -> list[Row]:
    """All rows of a list that comes in pages, each after the last row of the one before."""
    page = ask(None)
    found = [*page]
    while len(page) == PAGE:
        page = ask(found[-1])
        found += page
    return found
