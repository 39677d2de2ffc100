"""A statement: SQL with its binds, the type of its rows, its purpose, and how it is sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import starmap
from types import GenericAlias
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from jedi.taskbuffer.db.engine import plain, value

Row = TypeVar("Row")

_PURPOSE = re.compile(r"\s*((?:--.*\n\s*)+)")


class _Columns(dict[str, Any]):
    pass


Columns: type[dict[str, Any]] = _Columns
"""A row by the names of its columns, of a statement that reads all columns of a table."""


class Statement(Generic[Row]):
    """A named statement, which can be pasted into psql: `sql` has its binds as `:name`, and may
    have its purpose in a comment at its beginning. See `returns`, `answers` and `changes`.

    Binds are values of psycopg; tuples, sets and views of dicts are arrays, as lists are.
    """

    __slots__ = ("row_type", "sent", "sql")

    def __init__(self, row_type: Any, sql: str, how: Callable[[str], str] = plain) -> None:
        self.row_type, self.sql, self.sent = row_type, sql, how(sql)

    @property
    def purpose(self) -> str:
        """The comment at its beginning; empty: the function that runs it has it."""
        found = _PURPOSE.match(self.sql)
        return " ".join(found[1].replace("--", " ").split()) if found else ""

    def rows(self, tx: Connection, /, **binds: Any) -> list[Row]:
        """Its rows. TypeError: their columns are not the fields of their type."""
        kind, result = self.row_type, tx.exec_driver_sql(self.sent, _arrays(binds))
        if kind is Columns:
            found: list[Any] = [dict(one) for one in result.mappings()]
            return found
        check(kind, (*result.keys(),))
        if hasattr(kind, "__match_args__"):
            return [*starmap(kind, result)]
        return [*(map(tuple, result) if _is_tuple(kind) else result.scalars())]

    def columns(self, tx: Connection, /, **binds: Any) -> dict[str, list[Any]]:
        """The values of each column, also without rows."""
        result = tx.exec_driver_sql(self.sent, _arrays(binds))
        names, rows = [*result.keys()], result.all()
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def row(self, tx: Connection, /, **binds: Any) -> Row | None:
        """Its row, if it has one."""
        found = self.rows(tx, **binds)
        return found[0] if found else None

    def value(self, tx: Connection, /, **binds: Any) -> Row:
        """The row of a statement that always has one."""
        if self.row_type is Any:
            found: Row = value(tx, self.sent, binds)
            return found
        return self.rows(tx, **binds)[0]

    def run(self, tx: Connection, /, **binds: Any) -> int:
        """The number of rows that it wrote or locked."""
        return tx.exec_driver_sql(self.sent, _arrays(binds)).rowcount


def returns(row: type[Row]) -> Callable[[str], Statement[Row]]:
    """Make a statement whose rows are of this type: a NamedTuple or frozen dataclass with a field
    for each column, in the same order; a tuple of types; the type of the only column; or `Columns`.

    A field is named as its column, but for underscores: `jedi_task_id` reads the column jeditaskid.
    """
    return lambda sql: Statement(row, sql)


def answers(how: Callable[[str], str] = plain) -> Callable[[str], Statement[Any]]:
    """Make a statement whose answer is one JSON value, for `Statement.value`: psycopg itself reads
    it, since what SQLAlchemy adds would be a tenth of the time that handing out a job takes.
    `how` makes of the SQL the text that is sent: `plain`, or `prepared(…)`."""
    return lambda sql: Statement(Any, sql, how)


def changes(sql: str) -> Statement[None]:
    """Make a statement whose rows nobody reads."""
    return Statement(None, sql)


@cache
def check(kind: Any, columns: tuple[str, ...]) -> None:
    """TypeError: rows of these columns are no values of `kind`."""
    fields = getattr(kind, "__match_args__", None)
    if fields is None:
        fits = len(columns) == (len(kind.__args__) if _is_tuple(kind) else 1)
    else:
        fits = [*map(squeezed, columns)] == [*map(squeezed, fields)]
    if not fits:
        raise TypeError(f"{kind.__name__} does not fit the columns {', '.join(columns)}.")


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, GenericAlias) and kind.__origin__ is tuple


def squeezed(name: str) -> str:
    """Return the name of a column or field without underscores: both are the same then."""
    return name.replace("_", "")


_LISTED = {tuple, set, frozenset, range, type({}.keys()), type({}.values())}


def _arrays(binds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: [*one] if type(one) in _LISTED else one for name, one in binds.items()}
