"""Rows are typed values: each type fits the columns of its statement, by name and by type."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
from psycopg.pq import ExecStatus
from sqlalchemy import Connection, Engine, TextClause, text

import jedi.taskbuffer
from jedi.taskbuffer.db.engine import plain
from jedi.taskbuffer.db.rows import dict_of, row_of, rows_of

TASKBUFFER = Path(jedi.taskbuffer.__file__).parent
PYTHON = {
    **{"bool": bool, "bytea": bytes, "int2": int, "int4": int, "int8": int, "oid": int},
    **{"float4": float, "float8": float, "text": str, "name": str, "varchar": str, "char": str},
    **{"timestamptz": datetime},
}
BUILT_IN: dict[str, type] = {"int": int, "str": str, "float": float, "dict": dict, "list": list}


class Pair(NamedTuple):
    """Two columns."""

    first: int
    second: str


def test_rows_are_values_of_their_type(engine: Engine) -> None:
    with engine.begin() as tx:
        found = rows_of(Pair, tx.execute(text("SELECT 1 AS first, 'a' AS second")))
        none = row_of(Pair, tx.execute(text("SELECT 1 AS first, 'a' AS second WHERE false")))
    assert (found, none) == ([Pair(1, "a")], None)


@pytest.mark.parametrize("columns", ["1 AS first", "'a' AS second, 1 AS first", "1 AS a, 'b' AS b"])
def test_other_columns_are_refused_though_there_is_no_row(engine: Engine, columns: str) -> None:
    with engine.begin() as tx, pytest.raises(TypeError, match="Pair does not fit the columns"):
        rows_of(Pair, tx.execute(text(f"SELECT {columns} WHERE false")))


def test_two_columns_are_a_dict(engine: Engine) -> None:
    with engine.begin() as tx:
        found = dict_of(int, str, tx.execute(text("SELECT 1 AS id, 'a' AS status")))
        with pytest.raises(TypeError, match="int and str do not fit the columns id, status, site"):
            dict_of(int, str, tx.execute(text("SELECT 1 AS id, 'a' AS status, 'b' AS site")))
    assert found == {1: "a"}


def test_each_type_fits_its_statement(engine: Engine) -> None:
    with engine.begin() as tx:
        sorts: dict[int, str] = dict(tx.execute(text("SELECT oid, typname FROM pg_type")).all())
        wrong = []
        for kind, statement in typed_statements():
            columns = [(name, sorts[oid]) for name, oid in columns_of(tx, statement)]
            hints = get_type_hints(kind)
            if [name for name, _ in columns] != [*hints]:
                wrong.append(f"{kind.__name__}: {columns}")
            wrong += [
                f"{kind.__name__}.{name}: {sort}"
                for name, sort in columns
                if not fits(sort, hints.get(name))
            ]
    assert wrong == []


def test_the_types_of_each_dict_fit_its_statement(engine: Engine) -> None:
    """`dict_of(int, str, tx.execute(…))` names the types of the two columns."""
    with engine.begin() as tx:
        sorts: dict[int, str] = dict(tx.execute(text("SELECT oid, typname FROM pg_type")).all())
        found = [(types, [(name, sorts[oid]) for name, oid in columns_of(tx, statement)])
                 for types, statement in dict_statements()]  # fmt: skip
    assert len(found) > 20
    assert [
        (types, columns)
        for types, columns in found
        if [fits(sort, hint) for (_, sort), hint in zip(columns, types, strict=True)]
        != [True, True]
    ] == []


def dict_statements() -> Iterator[tuple[tuple[type, type], str]]:
    """The types and statements of `dict_of(TYPE, TYPE, tx.execute(STATEMENT, …))`."""
    for module, node in calls():
        match node:
            case ast.Call(
                func=ast.Name(id="dict_of"),
                args=[ast.Name(id=key), ast.Name(id=value), ast.Call(args=[ast.Name(id=name), *_])],
            ):
                yield (BUILT_IN[key], BUILT_IN[value]), getattr(module, name).text


def calls() -> Iterator[tuple[ModuleType, ast.Call]]:
    """The calls in taskbuffer, with their modules."""
    for path in sorted(TASKBUFFER.rglob("*.py")):
        inside = path.relative_to(TASKBUFFER).with_suffix("")
        module = importlib.import_module(".".join(["jedi.taskbuffer", *inside.parts]))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield module, node


def typed_statements() -> Iterator[tuple[type, str]]:
    """The pairs of `rows_of(TYPE, tx.execute(STATEMENT, …))` in taskbuffer."""
    found = 0
    for module, node in calls():
        match node:
            case ast.Call(
                func=ast.Name(id="rows_of" | "row_of"),
                args=[ast.Name(id=kind), ast.Call(args=[ast.Name(id=name), *_])],
            ) if isinstance(statement := getattr(module, name, None), TextClause):
                found += 1
                yield getattr(module, kind), statement.text
    assert found > 60


def columns_of(tx: Connection, statement: str) -> list[tuple[str, int]]:
    """Names and types of the columns of a statement, which is not run."""
    pgconn: Any = tx.connection.driver_connection.pgconn  # type: ignore[union-attr]
    sql = plain(statement) % {
        name: f"${n}" for n, name in enumerate(text(statement).compile().params, 1)
    }
    made = pgconn.prepare(b"", sql.encode())
    assert made.status == ExecStatus.COMMAND_OK, f"{made.error_message.decode()}: {sql}"
    found = pgconn.describe_prepared(b"")
    return [(found.fname(i).decode(), found.ftype(i)) for i in range(found.nfields)]


def fits(sort: str, hint: Any) -> bool:
    """Whether values of a type of PostgreSQL are of a type of Python; None is."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(sort, one) for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is Literal:
        return sort == "text"
    if sort.startswith("_"):
        return get_origin(hint) is list and fits(sort[1:], get_args(hint)[0])
    return sort in ("json", "jsonb") or hint is PYTHON.get(sort)
