"""The layout of tables: the columns that fit a terminal, their widths and colours."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

GAP = 2
"""Blanks between columns."""
NARROW = 12
"""So narrow a column may become whose cells can be shortened or folded."""

_GOOD, _BAD, _WAITS, _WORKS = "green", "red", "yellow", "cyan"
WORK: Mapping[str, str] = {
    **dict.fromkeys(("finished", "done", "online", "active", "merged"), _GOOD),
    **dict.fromkeys(("failed", "cancelled", "broken", "offline", "lost", "missing"), _BAD),
    **dict.fromkeys(("closed", "throttled", "brokeroff", "paused", "test", "pending"), _WAITS),
    **dict.fromkeys(("running", "starting", "holding", "transferring", "merging"), _WORKS),
}
"""Colours of the statuses of jobs, files, datasets and sites."""
TASKS: Mapping[str, str] = {
    "done": _GOOD,
    **dict.fromkeys(("failed", "broken", "aborted", "aborting", "toabort", "tobroken"), _BAD),
    **dict.fromkeys(("finished", "pending", "throttled", "paused", "exhausted"), _WAITS),
    **dict.fromkeys(("running", "scouting", "prepared", "finishing"), _WORKS),
}
"""Colours of the statuses of tasks: `finished` ones have made a part of it."""


def fitting(least: Sequence[int], spare: Sequence[int], room: int) -> list[int]:
    """The columns that are shown: all if their least widths fit, else without `spare` ones, the
    least important first, as many as have to go."""
    shown = list(range(len(least)))
    for column in spare:
        if sum(least[one] + GAP for one in shown) - GAP <= room:
            break
        shown.remove(column)
    return shown


def widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widths of columns. Columns that need more share the rest of the room equally."""
    found = list(least)
    left = room - sum(found) - GAP * (len(found) - 1)
    while left > 0 and (hungry := [i for i, wide in enumerate(found) if wide < natural[i]]):
        part = max(1, left // len(hungry))
        for column in hungry:
            more = min(part, natural[column] - found[column], left)
            found[column] += more
            left -= more
    return found


def lines(
    headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int]
) -> Iterator[str]:
    """One line for the headers, one for each row, whatever their length: for pipes."""
    table = [headers, *([" ".join(cell.split()) for cell in row] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (
            cell.rjust(w) if i in right else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, wide, strict=True))
        )
        yield (" " * GAP).join(cells).rstrip()
