"""Plans of statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def handled(plan: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """How many rows each node of an executed plan gave or dropped."""
    dropped = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    yield (plan["Actual Rows"] + dropped) * plan["Actual Loops"], plan["Node Type"]
    for below in plan.get("Plans", ()):
        yield from handled(below)
