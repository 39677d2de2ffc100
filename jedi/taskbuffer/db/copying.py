"""COPY: the quick way for many rows into a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

Block = Mapping[str, Any]
"""Rows by column: a list has one value a row, anything else is the same for all of them."""

_ESCAPES = {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}
_SPECIAL = re.compile(r"[\\\t\n\r]")


def copy_rows(tx: Connection, table: str, blocks: Iterable[Block]) -> None:
    """Insert blocks of rows, which all name the same columns; no statement if there are none."""
    blocks = list(blocks)
    if data := "".join(map(render, blocks)):
        _copy(tx, f"COPY {table} ({', '.join(blocks[0])}) FROM STDIN", data)


def copy_binary(tx: Connection, table: str, rows: bytes) -> None:
    """Insert rows that are in PostgreSQL's binary format already, each with its field count."""
    header, trailer = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
    _copy(tx, f"COPY {table} FROM STDIN (FORMAT binary)", header + rows + trailer)


def _copy(tx: Connection, statement: str, data: str | bytes) -> None:
    cursor: Any = tx.connection.cursor()  # psycopg's own: its errors are wrapped as others are
    try:
        with cursor, cursor.copy(statement) as stream:
            stream.write(data)
    except psycopg.Error as error:
        lost = isinstance(error, psycopg.OperationalError)
        raise DBAPIError(statement, None, error, connection_invalidated=lost) from error


def render(block: Block) -> str:
    """Lines in PostgreSQL's text format."""
    columns = [column for column in block.values() if isinstance(column, list)]
    line = "\t".join(
        "%s" if isinstance(column, list) else _word(column).replace("%", "%%")
        for column in block.values()
    )
    return "".join(map(f"{line}\n".__mod__, zip(*map(_words, columns), strict=True)))


def _words(column: Sequence[Any]) -> Sequence[Any]:
    """A column ready for %s: numbers are left to it."""
    if None in column:
        return [_word(value) for value in column]
    if column and isinstance(column[0], str):
        return [_word(v) for v in column] if _SPECIAL.search("".join(column)) else column
    return column


def _word(value: Any) -> str:
    if value is None:
        return r"\N"
    if isinstance(value, str):
        return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], value)
    return str(value)
