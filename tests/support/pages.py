"""The price of a statement in pages and rows: figures that no busy machine changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine

from jedi.taskbuffer.db.engine import plain
from jedi.taskbuffer.db.statement import Statement


def sql_of(statement: Any) -> str:
    """A statement as psycopg takes it."""
    match statement:
        case Statement():
            return statement.sent
        case str():
            return statement
    return plain(statement.text)


def plan_of(engine: Engine, statement: Any, **values: Any) -> dict[str, Any]:
    """The plan of a statement as it was carried out, the second time."""
    sql = sql_of(statement)
    with engine.begin() as tx:
        for _ in range(2):
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"
            found: Any = tx.exec_driver_sql(explain, values).scalar()
    plan: dict[str, Any] = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All nodes of a plan."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def rows_of_node(node: dict[str, Any]) -> float:
    """The rows that a node of a plan gives, in all loops."""
    return float(node["Actual Rows"] * node["Actual Loops"])


def buffers(engine: Engine, statement: Any, **values: Any) -> int:
    """Pages that a statement touches; the second time, when the catalogue is known."""
    plan = plan_of(engine, statement, **values)
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def vacuum(engine: Engine) -> None:
    """Let plans know the present rows."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.exec_driver_sql("VACUUM ANALYZE")
