"""Sheets: the tables of pages. One declaration of columns gives the table on the page, CSV and
JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

ColumnKind = Literal[
    "text",
    "id",
    "number",
    "bytes",
    "seconds",
    "percent",
    "time",
    "status",
    "reason",
    "code",
    "bar",
    "whole",
]
"""Forms of a cell; filters.py has a function for each."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a text would be a formula in a program for spreadsheets."""


@dataclass(frozen=True)
class Column:
    """A column: the values of `key` in rows. `link`: the address to which a row's cell leads;
    `field`: its name in conditions on the list; `wide`: left out on narrow screens."""

    key: str
    title: str
    kind: ColumnKind = "text"
    link: Callable[[Any], str | None] | None = None
    field: str | None = None
    wide: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table: `key` names the column that tells rows apart; `more`: the address of the rows that
    follow; `empty`: the sentence in place of no rows."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Any]
    key: str
    more: str | None = None
    empty: str = "Nothing here."

    def chosen(self, keys: Sequence[str] | None) -> Sheet:
        """The sheet with these columns alone, in its own order; None: with all."""
        if not keys:
            return self
        columns = tuple(one for one in self.columns if one.key in keys or one.key == self.key)
        return Sheet(self.name, self.caption, columns, self.rows, self.key, self.more, self.empty)

    def plain(self) -> list[dict[str, Any]]:
        """The rows in the types of JSON."""
        return [{one.key: plain(value(row, one.key)) for one in self.columns} for row in self.rows]

    def as_csv(self) -> str:
        """The rows as CSV (RFC 4180), with the keys of columns as header. No text becomes a formula
        in a spreadsheet."""
        written = io.StringIO()
        writer = csv.writer(written)
        writer.writerow(one.key for one in self.columns)
        for row in self.plain():
            writer.writerow(_cell(row[one.key]) for one in self.columns)
        return written.getvalue()


def value(row: Any, key: str) -> Any:
    """The value of a row, which is a mapping or an object; dots lead to values within it."""
    for part in key.split("."):
        if row is None:
            return None
        row = row.get(part) if isinstance(row, Mapping) else getattr(row, part)
    return row


def plain(found: Any) -> Any:
    """A value in the types of JSON; times as ISO 8601."""
    match found:
        case None | bool() | int() | float() | str():
            return found
        case datetime():
            return found.isoformat()
        case Mapping():
            return {str(key): plain(one) for key, one in found.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(one) for one in found]
        case _:
            return str(found)


def _cell(found: Any) -> Any:
    if isinstance(found, (list, dict)):
        found = " ".join(map(str, found))
    if isinstance(found, str) and found.startswith(_FORMULA):
        return f"'{found}"
    return found
