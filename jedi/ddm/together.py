"""Many small files wait for the disk together: one after the other each takes 2 to 6 ms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_AT_ONCE = 8
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def together(work: Callable[[_Item], _Done], items: Iterable[_Item]) -> list[_Done]:
    """The results of work on each item, in their order; some at a time. An error of one is raised
    when the ones at work are through; no others begin."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))
