"""Rows of the database as typed answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

_T = TypeVar("_T")


def typed(kind: type[_T], rows: Iterable[Mapping[str, Any] | tuple[Any, ...]]) -> list[_T]:
    """Rows of columns as dataclasses that have some of these columns. Tuples have names."""
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    named = (row._asdict() if isinstance(row, tuple) else row for row in rows)  # type: ignore[attr-defined]
    return [kind(**{name: row[name] for name in names}) for row in named]
