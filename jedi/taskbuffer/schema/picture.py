"""A database's schema as a DBA reads it, taken from PostgreSQL's catalogues.

The text is the same on every supported version of PostgreSQL, so two pictures can be compared.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.schema.release import VERSION_TABLE

WIDTH = 100
MEANING_AT = 54

_SEQUENCES = returns(tuple[str, int])("""
SELECT c.relname AS name, s.seqcache AS cache
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
WHERE c.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'a')
ORDER BY name
""")


_TRIGGERS = returns(str)("""
SELECT pg_get_triggerdef(t.oid, true) AS definition
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc f ON f.oid = t.tgfoid
WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace
  AND f.pronamespace = current_schema()::regnamespace  -- not somebody else's
ORDER BY c.relname, t.tgname
""")

_FUNCTIONS = returns(str)("""
SELECT replace(pg_get_functiondef(oid), quote_ident(current_schema()) || '.', '') AS definition
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY proname
""")


class ColumnRow(NamedTuple):
    """A column as PostgreSQL's catalogue has it."""

    table: str
    name: str
    type: str
    mandatory: bool
    generated: bool
    value: str | None
    serial: bool
    meaning: str | None


_COLUMNS = returns(ColumnRow)("""
SELECT c.relname AS "table", a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
       a.attnotnull AS mandatory, a.attgenerated = 's' AS generated,
       pg_get_expr(d.adbin, d.adrelid) AS value,
       pg_get_serial_sequence(quote_ident(c.relname), a.attname) IS NOT NULL AS serial,
       col_description(c.oid, a.attnum) AS meaning
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum
""")


class ConstraintRow(NamedTuple):
    """A constraint of a table."""

    table: str
    name: str
    definition: str


# contype n: PostgreSQL 18 lists what NOT NULL already says.
_CONSTRAINTS = returns(ConstraintRow)("""
SELECT c.relname AS "table", k.conname AS name, pg_get_constraintdef(k.oid, true) AS definition
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE k.connamespace = current_schema()::regnamespace AND k.contype IN ('p', 'u', 'c', 'f', 'x')
ORDER BY c.relname, position(k.contype IN 'pufxc'), k.conname
""")


class IndexRow(NamedTuple):
    """An index of a table that no constraint made."""

    table: str
    definition: str


_INDEXES = returns(IndexRow)("""
SELECT t.relname AS "table", pg_get_indexdef(i.indexrelid, 0, true) AS definition
FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_class c ON c.oid = i.indexrelid
WHERE t.relnamespace = current_schema()::regnamespace
  AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
ORDER BY t.relname, c.relname
""")


class ViewRow(NamedTuple):
    """A view and its query."""

    name: str
    definition: str


_VIEWS = returns(ViewRow)("""
SELECT relname AS name, pg_get_viewdef(oid, true) AS definition
FROM pg_class WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace ORDER BY name
""")


def draw(tx: Connection) -> dict[str, str]:
    """File name -> SQL text of the current schema, the migrations' own table left out."""
    functions = [f"{definition.rstrip()};" for definition in _FUNCTIONS.rows(tx)]
    return {
        "functions.sql": _file(functions),
        "tables.sql": _file([_sequences(tx), *_tables(tx)]),
        "guards.sql": _file(_wrap(f"{definition};") for definition in _TRIGGERS.rows(tx)),
        "views.sql": _file(map(_view, _VIEWS.rows(tx))),
    }


_OfTable = TypeVar("_OfTable", ColumnRow, ConstraintRow, IndexRow)


def _file(parts: Iterable[str]) -> str:
    head = "-- Generated from a migrated database: change jedi/taskbuffer and migrations instead."
    return "\n\n".join([head, *parts]) + "\n"


def _sequences(tx: Connection) -> str:
    caches = dict(_SEQUENCES.rows(tx))
    return "\n".join(f"CREATE SEQUENCE {name} CACHE {cache};" for name, cache in caches.items())


class TableRow(NamedTuple):
    """A table with its storage options and its meaning."""

    name: str
    options: str | None
    meaning: str | None


_TABLES = returns(TableRow)("""
SELECT relname AS name,
       (SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(reloptions) o) AS options,
       obj_description(oid, 'pg_class') AS meaning
FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND relname <> :hidden
ORDER BY name
""")


def _tables(tx: Connection) -> Iterable[str]:
    columns = _by_table(_COLUMNS.rows(tx))
    constraints = _by_table(_CONSTRAINTS.rows(tx))
    indexes = _by_table(_INDEXES.rows(tx))
    for row in _TABLES.rows(tx, hidden=VERSION_TABLE):
        body = [*map(_column, columns[row.name]), *map(_constraint, constraints[row.name])]
        options = f" WITH ({row.options})" if row.options else ""
        made = f"CREATE TABLE {row.name} (\n{_lined_up(body)}\n){options};"
        created = [_wrap(f"{index.definition};") for index in indexes[row.name]]
        yield "\n".join([f"-- {row.meaning}", made, *created])


def _by_table(rows: Iterable[_OfTable]) -> dict[str, list[_OfTable]]:
    found = defaultdict(list)
    for row in rows:
        found[row.table].append(row)
    return found


def _column(row: ColumnRow) -> tuple[str, str]:
    if row.serial:
        return f"{row.name} bigserial", row.meaning or ""
    made = "GENERATED ALWAYS AS {} STORED" if row.generated else "DEFAULT {}"
    value = f" {made.format(row.value)}" if row.value else ""
    return f"{row.name} {row.type}{' NOT NULL' if row.mandatory else ''}{value}", row.meaning or ""


def _constraint(row: ConstraintRow) -> tuple[str, str]:
    return f"CONSTRAINT {row.name} {row.definition}", ""


def _lined_up(body: list[tuple[str, str]]) -> str:
    """Definitions with their commas, and what they mean beside them."""
    plain = [
        (_plain(what) + ("," if n < len(body) else ""), say)
        for n, (what, say) in enumerate(body, 1)
    ]
    width = min(MEANING_AT, max((len(what) for what, say in plain if say), default=0))
    return "\n".join(
        (_wrap(what, "    ") if not say or len(what) > WIDTH else f"    {what:{width}}")
        + (f"  -- {say}" if say else "")
        for what, say in plain
    )


def _view(row: ViewRow) -> str:
    """Versions before 16 put the table's name before each column of a one-table view."""
    tables = set(re.findall(r"FROM (\w+)", row.definition))
    body = row.definition
    for table in tables:
        body = body.replace(f"{table}.", "")
    return f"CREATE VIEW {row.name} AS\n{_plain(body)}"


def _plain(statement: str) -> str:
    """Without what PostgreSQL adds to what was written: casts of literals, the usual method."""
    for written, meant in (("timestamp with time zone", "timestamptz"), (" USING btree", "")):
        statement = statement.replace(written, meant)
    return re.sub(r"('[^']*')::(text(\[\])?|jsonb|regclass)(?!\w)", r"\1", statement)


def _wrap(statement: str, indent: str = "") -> str:
    """Lines of at most WIDTH, never broken inside a literal."""
    whole = re.sub(r"'[^']*'", lambda found: found[0].replace(" ", "\0"), _plain(statement))
    filled = textwrap.fill(
        whole,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\0", " ")
