"""Statements: readers get values of the declared type, and each type fits its statement."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
from psycopg.pq import ExecStatus
from sqlalchemy import Connection, Engine, text

import jedi.taskbuffer
from jedi.taskbuffer.db.engine import plain, trivial
from jedi.taskbuffer.db.statement import Columns, Statement, answers, changes, returns
from jedi.taskbuffer.schema.tables import metadata

TASKBUFFER = Path(jedi.taskbuffer.__file__).parent
PYTHON = {
    **{"bool": bool, "bytea": bytes, "int2": int, "int4": int, "int8": int, "oid": int},
    **{"float4": float, "float8": float, "text": str, "name": str, "varchar": str, "char": str},
    **{"timestamptz": datetime},
}


class Owner(NamedTuple):
    """Two columns."""

    user_name: str
    req_id: int


OWNERS = returns(Owner)("""
-- The owners of requests,
-- by name.
SELECT t.username, t.reqid FROM (VALUES ('ana', 7), ('bo', 8)) t(username, reqid)
WHERE username LIKE :begins || '%' ORDER BY 1
""")
IDS = returns(int)("SELECT unnest(CAST(:ids AS bigint[]))")
PAIRS = returns(tuple[int, str])("SELECT 1, 'a' UNION ALL SELECT 2, 'b' ORDER BY 1")


def test_rows_are_values_of_the_declared_type(engine: Engine) -> None:
    """The columns USERNAME and REQID are user_name and req_id in Python."""
    with engine.begin() as tx:
        assert OWNERS.rows(tx, begins="a") == [Owner(user_name="ana", req_id=7)]
        assert OWNERS.rows(tx, begins="") == [Owner("ana", 7), Owner("bo", 8)]
        assert OWNERS.row(tx, begins="b") == Owner("bo", 8)
        assert OWNERS.row(tx, begins="c") is None
        assert OWNERS.value(tx, begins="a").user_name == "ana"


def test_one_column_is_its_value_and_a_tuple_stays_one(engine: Engine) -> None:
    with engine.begin() as tx:
        assert IDS.rows(tx, ids=[3, 5]) == [3, 5]
        assert IDS.value(tx, ids=[3]) == 3
        assert IDS.row(tx, ids=[]) is None
        assert dict(PAIRS.rows(tx)) == {1: "a", 2: "b"}


def test_all_columns_of_a_table_are_a_dict(engine: Engine) -> None:
    both = returns(Columns)("SELECT * FROM (VALUES (1, 'a')) t(number, letter)")
    with engine.begin() as tx:
        assert both.rows(tx) == [{"number": 1, "letter": "a"}]


@pytest.mark.parametrize(
    "ids", [(3, 5), {3, 5}, frozenset({3, 5}), range(3, 6, 2), {3: 0, 5: 0}.keys()]
)
def test_any_collection_is_an_array(engine: Engine, ids: Any) -> None:
    with engine.begin() as tx:
        assert IDS.rows(tx, ids=ids) == [3, 5]


def test_a_prepared_statement_answers_one_value_of_json(engine: Engine) -> None:
    answer = answers(trivial)("SELECT json_build_array(1, CAST(:word AS text))")
    with engine.begin() as tx:
        assert answer.value(tx, word="a") == [1, "a"]


def test_the_number_of_rows_that_were_written(engine: Engine) -> None:
    write = changes("""
    INSERT INTO jedi_users (username, role) SELECT 'u' || n, 'user' FROM generate_series(1, :n) n
    """)
    with engine.begin() as tx:
        assert write.run(tx, n=3) == 3


def test_its_first_comment_is_its_purpose() -> None:
    assert OWNERS.purpose == "The owners of requests, by name."
    assert IDS.purpose == ""


def test_a_bind_that_is_missing_is_an_error(engine: Engine) -> None:
    with engine.begin() as tx, pytest.raises(Exception, match="ids"):
        IDS.rows(tx)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (Owner, "'a' AS username"),
        (Owner, "1 AS reqid, 'a' AS username"),
        (int, "1, 2"),
        (tuple[int, str], "1"),
    ],
)
def test_other_columns_are_refused_though_there_is_no_row(
    engine: Engine, kind: Any, columns: str
) -> None:
    wrong: Statement[Any] = returns(kind)(f"SELECT {columns} WHERE false")
    with engine.begin() as tx, pytest.raises(TypeError, match="does not fit the columns"):
        wrong.rows(tx)


def test_names_in_python_are_those_of_the_columns_but_for_underscores() -> None:
    """So a statement needs no alias for a column, but for these."""
    assert {
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if column.name.replace("_", "") != column.key.replace("_", "")
    } == {
        *("jedi_jobs.taskid", "jedi_jobs_archived.taskid"),
        *("jedi_site_endpoints.ddm_endpoint", "jedi_ddm_endpoints.ddm_endpoint"),
    }


def test_each_type_fits_its_statement(engine: Engine) -> None:
    """By names and types of columns, as PostgreSQL has them; no statement is run."""
    wrong, number = [], 0
    with engine.begin() as tx:
        sorts: dict[int, str] = dict(tx.execute(text("SELECT oid, typname FROM pg_type")).all())
        for name, made in named():
            number += 1
            columns = [(column, sorts[oid]) for column, oid in columns_of(tx, made)]
            for (column, sort), (field, hint) in zip(columns, fields(made), strict=True):
                same = field in ("", column) or field.replace("_", "") == column.replace("_", "")
                if not (same and fits(sort, hint)):
                    wrong.append(f"{name}: {column} {sort} is {field} {hint}")
    assert wrong == []
    assert number > 250


def named() -> Iterator[tuple[str, Statement[Any]]]:
    """The statements of taskbuffer whose rows have a type."""
    for path in sorted(TASKBUFFER.rglob("*.py")):
        module = ".".join(path.relative_to(TASKBUFFER).with_suffix("").parts)
        for name, made in vars(importlib.import_module(f"jedi.taskbuffer.{module}")).items():
            if isinstance(made, Statement) and made.row_type not in (None, Columns):
                yield f"{module}.{name}", made


def fields(made: Statement[Any]) -> list[tuple[str, Any]]:
    """The fields of a statement's rows, by name and type; a name may be empty."""
    kind = made.row_type
    if hasattr(kind, "__match_args__"):
        return [*get_type_hints(kind).items()]
    if isinstance(kind, GenericAlias) and kind.__origin__ is tuple:
        return [("", one) for one in get_args(kind)]
    return [("", kind)]


def columns_of(tx: Connection, made: Statement[Any]) -> list[tuple[str, int]]:
    """Names and types of the columns of a statement, which is not run."""
    pgconn: Any = tx.connection.driver_connection.pgconn  # type: ignore[union-attr]
    binds = {name: f"${n}" for n, name in enumerate(text(made.sql)._bindparams, 1)}
    sql = plain(made.sql) % binds
    prepared = pgconn.prepare(b"", sql.encode())
    assert prepared.status == ExecStatus.COMMAND_OK, f"{prepared.error_message.decode()}: {sql}"
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
