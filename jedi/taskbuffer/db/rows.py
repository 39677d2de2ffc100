"""Rows of statements as typed values: the one way from a result to its readers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap
from typing import Any, TypeVar

from sqlalchemy import Result

RowType = TypeVar("RowType")
Key = TypeVar("Key")
Value = TypeVar("Value")


def rows_of(kind: type[RowType], result: Result[Any]) -> list[RowType]:
    """The rows of a result as values of `kind`: a NamedTuple or frozen dataclass with a field for
    each column, in the same order. TypeError: the names differ."""
    _check(kind, result)
    return [*starmap(kind, result)]


def row_of(kind: type[RowType], result: Result[Any]) -> RowType | None:
    """The row of a result that has one row or none, as a value of `kind`. See `rows_of`."""
    _check(kind, result)
    row = result.one_or_none()
    return row and next(starmap(kind, [row]))


def dict_of(key: type[Key], value: type[Value], result: Result[Any]) -> dict[Key, Value]:
    """The rows of a result with two columns of these types as a dict: the first one is the key.
    TypeError: there are more columns, or fewer."""
    if len(result.keys()) != 2:
        columns = ", ".join(result.keys())
        raise TypeError(f"{key.__name__} and {value.__name__} do not fit the columns {columns}.")
    rows: Iterable[Any] = result.all()
    return dict(rows)


def _check(kind: type[Any], result: Result[Any]) -> None:
    columns = (*result.keys(),)
    if columns != kind.__match_args__:
        raise TypeError(f"{kind.__name__} does not fit the columns {', '.join(columns)}.")
