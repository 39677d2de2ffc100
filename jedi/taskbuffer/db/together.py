"""Several lists by one statement: a way to the database and back for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from jedi.taskbuffer.db.statement import squeezed

RowType = TypeVar("RowType")


class PartRow(NamedTuple):
    """A row of one of the lists: the list's name, and the row as an object of JSON."""

    part: str
    row: dict[str, Any]


def together(parts: Mapping[str, str], shared: str = "") -> str:
    """A statement that reads all lists, each of them in its own order. Values that they share have
    the same names in all; `shared`: a WITH clause for all lists."""
    return f"{shared} " + " UNION ALL ".join(
        f"(SELECT '{name}' AS part, to_jsonb(r) AS row FROM ({statement}) r)"
        for name, statement in parts.items()
    )


class Parts:
    """The lists that a statement of `together`, `returns(PartRow)`, has read."""

    def __init__(self, rows: Iterable[PartRow]) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in rows:
            self._rows[one.part].append(one.row)

    def raw(self, part: str) -> list[dict[str, Any]]:
        """The rows of a list as objects of JSON."""
        return self._rows[part]

    def row(self, part: str, kind: type[RowType]) -> RowType | None:
        """The row of a list that has one row or none."""
        return next(iter(self.rows(part, kind)), None)

    def rows(self, part: str, kind: type[RowType]) -> list[RowType]:
        """The rows of a list as values of `kind`, whose fields are named as by `returns`."""
        fields = {squeezed(name): name for name in getattr(kind, "__match_args__", ())}
        rows = [
            {fields.get(squeezed(name), name): value for name, value in row.items()}
            for row in self._rows[part]
        ]
        return TypeAdapter(list[kind]).validate_python(rows)  # type: ignore[valid-type]
