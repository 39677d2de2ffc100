"""Declarations of columns: SQL name, Python key, type, meaning, and who writes it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Double, MetaData, Text, text
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "ck": "%(table_name)s_%(constraint_name)s_ck",
        "uq": "%(table_name)s_%(column_0_name)s_uq",
        "ix": "%(table_name)s_%(column_0_N_name)s_ix",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
    }
)

STAMP = DateTime(timezone=True)
NOW = text("jedi_now()")

Kind = TypeEngine[Any] | type[TypeEngine[Any]]


def col(name: str, kind: Kind, meaning: str, by: str = "", **options: Any) -> Column[Any]:
    """One column. `name` is `sqlname` or `sqlname:python_key`; `by` names the writing statements
    (module.function of taskbuffer, blank-separated) for docs/columns.md."""
    sql_name, _, key = name.partition(":")
    return Column(sql_name, kind, key=key or sql_name, comment=meaning, info={"by": by}, **options)


def key(name: str, meaning: str, by: str = "", **options: Any) -> Column[Any]:
    """A mandatory bigint identifier, never drawn from a sequence that nobody asked for."""
    return col(name, BigInteger, meaning, by, nullable=False, autoincrement=False, **options)


def stamp(name: str, meaning: str, by: str = "", *, now: bool = False) -> Column[Any]:
    """A timestamptz; `now=True` makes it mandatory with jedi_now() as its default."""
    if now:
        return col(name, STAMP, meaning, by, nullable=False, server_default=NOW)
    return col(name, STAMP, meaning, by)


_ZERO = text("0")


def count(name: str, meaning: str, by: str = "", kind: Kind = BigInteger) -> Column[Any]:
    """A mandatory number that starts at 0."""
    return col(name, kind, meaning, by, nullable=False, server_default=_ZERO)


def number(name: str, meaning: str, by: str = "") -> Column[float]:
    """A double precision number."""
    return col(name, Double, meaning, by)


def words(name: str, meaning: str, by: str = "", **options: Any) -> Column[Any]:
    """Free text."""
    return col(name, Text, meaning, by, **options)
