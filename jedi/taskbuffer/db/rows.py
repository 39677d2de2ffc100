"""Rows of statements as typed values: the one way from a result to its readers."""

from __future__ import annotations

from itertools import starmap
from typing import Any, TypeVar

from sqlalchemy import Result

RowType = TypeVar("RowType")


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


def _check(kind: type[Any], result: Result[Any]) -> None:
    columns = (*result.keys(),)
    if columns != kind.__match_args__:
        raise TypeError(f"{kind.__name__} does not fit the columns {', '.join(columns)}.")
