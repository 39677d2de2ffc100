"""Lists in pages: all rows, each page after the last row of the one before."""

from __future__ import annotations

import pytest
from jedi_client.paging import PAGE, pages


@pytest.mark.parametrize("rows", [0, 3, PAGE, PAGE + 3, 2 * PAGE])
def test_pages_are_followed_to_the_end(rows: int) -> None:
    asked: list[int | None] = []

    def ask(last: int | None) -> list[int]:
        asked.append(last)
        first = 0 if last is None else last + 1
        return [*range(first, min(first + PAGE, rows))]

    assert pages(ask) == [*range(rows)]
    assert asked == [None, *range(PAGE - 1, rows, PAGE)]
