"""Statements that a session prepares once, and then sends with little ado.

psycopg takes 100 us of Python's time for a statement of one row: generators that wait, a cache of
prepared statements, and types of binds and columns. libpq itself does the same in 30 us.
"""

from __future__ import annotations

import re
import select
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.errors import DataError, InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from pydantic_core import from_json

_BIND = re.compile(r"%\((\w+)\)s|%%")


class Prepared(str):
    """A statement with binds, as psycopg takes it. Its answer is one JSON value. Each bind is a
    text, a number, or a list of either, in a CAST."""

    numbered: bytes
    """The statement as PostgreSQL takes it, with numbered binds."""
    binds: tuple[str, ...]
    name: bytes

    def __new__(cls, sql: str) -> Prepared:
        made = super().__new__(cls, sql)
        made.binds = tuple(dict.fromkeys(found[1] for found in _BIND.finditer(sql) if found[1]))
        numbers = {bind: f"${number}" for number, bind in enumerate(made.binds, 1)}
        made.numbered = _BIND.sub(lambda b: numbers[b[1]] if b[1] else "%", sql).encode()
        made.name = b"jedi_%x" % (hash(sql) & 0xFFFFFFFFFFFF)
        return made


class Session(psycopg.Connection[Any]):
    """A connection that lets libpq itself commit. All else is psycopg's."""

    def commit(self) -> None:
        """The same as psycopg's, which takes 25 us more."""
        if self.pgconn.transaction_status == TransactionStatus.INTRANS:
            _good(self, self.pgconn.exec_(b"COMMIT"))
        else:
            super().commit()

    def rollback(self) -> None:
        """The same as psycopg's, which may make the session forget all prepared statements."""
        _known.pop(self, None)
        super().rollback()


class Quick(psycopg.Cursor[Any]):
    """A cursor that lets libpq itself execute a `Prepared` statement. All else is psycopg's."""

    _answer: PGresult | None = None

    def execute(self, query: Any, params: Any = None, **words: Any) -> Any:
        """The same as psycopg's."""
        self._answer = None
        if isinstance(query, Prepared):
            self._answer = _executed(self.connection, query, params)
            return self
        super().execute(query, params, **words)
        if (self.statusmessage or "").startswith(_FORGETS):
            _known.pop(self.connection, None)
        return self

    def value(self) -> Any:
        """The first value of the answer."""
        if self._answer is None:
            return self.fetchall()[0][0]
        found = self._answer.get_value(0, 0)
        return None if found is None else from_json(found)


_FORGETS = ("ROLLBACK", "DROP", "ALTER", "DISCARD ALL", "DEALLOCATE ALL")
"""After these psycopg may make the session forget all prepared statements, also within a
transaction: ROLLBACK TO SAVEPOINT."""
_known: WeakKeyDictionary[psycopg.Connection[Any], set[bytes]] = WeakKeyDictionary()
"""Statements that the session of each connection has prepared."""


def _executed(
    connection: psycopg.Connection[Any], statement: Prepared, values: Mapping[str, Any]
) -> PGresult:
    """The answer to a statement, which the session prepares if it does not know it."""
    binds: Any = [_dump(values[bind]) for bind in statement.binds]
    known, server = _known.setdefault(connection, set()), connection.pgconn
    if statement.name not in known:
        _prepare(connection, statement)
        known.add(statement.name)
    begins = not connection.autocommit and server.transaction_status == TransactionStatus.IDLE
    send = _begun if begins else _sent
    answer = send(server, statement.name, binds)
    if answer.error_field(DiagnosticField.SQLSTATE) == _UNKNOWN:  # it rolled back unseen
        known.clear()
        if begins or connection.autocommit:
            connection.rollback()
            _prepare(connection, statement)
            answer = send(server, statement.name, binds)
    return _good(connection, answer)


def _sent(server: PGconn, name: bytes, binds: Any) -> PGresult:
    return server.exec_prepared(name, binds)


def _begun(server: PGconn, name: bytes, binds: Any) -> PGresult:
    """The answer to the first statement of a transaction: it and BEGIN are sent together, which
    saves a way there and back."""
    server.enter_pipeline_mode()
    server.send_query_params(b"BEGIN", None)
    server.send_query_prepared(name, binds)
    server.pipeline_sync()
    answers: list[PGresult] = []
    while len(answers) < 3:
        _wait(server)
        if answer := server.get_result():
            answers.append(answer)
        elif server.status != ConnStatus.OK:
            raise psycopg.OperationalError(server.get_error_message())
    server.exit_pipeline_mode()
    return answers[1]


def _wait(server: PGconn) -> None:
    """Send the rest of what is to be sent and let other threads run until there is an answer."""
    poll = select.poll()
    while (unsent := server.flush()) or server.is_busy():
        poll.register(server.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        poll.poll()
        server.consume_input()


def _prepare(connection: psycopg.Connection[Any], statement: Prepared) -> None:
    """Prepare a statement, unless the session knows it."""
    found = _good(connection, connection.pgconn.exec_params(_FIND, [statement.name]))
    if not found.ntuples:
        _good(connection, connection.pgconn.prepare(statement.name, statement.numbered))


_FIND = b"SELECT FROM pg_prepared_statements WHERE name = $1"
_UNKNOWN = str(InvalidSqlStatementName.sqlstate).encode()
_GOOD = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def _good(connection: psycopg.Connection[Any], answer: PGresult) -> PGresult:
    if answer.status in _GOOD:
        return answer
    encoding = connection.info.encoding
    if connection.closed:  # its server has ended: libpq has no SQLSTATE for that
        raise psycopg.OperationalError(answer.get_error_message(encoding))
    raise error_from_result(answer, encoding=encoding)


def _dump(found: Any) -> bytes | None:
    """A bind in PostgreSQL's text format. DataError: it holds a character that a text can't."""
    if found is None:
        return None
    text = _array(found) if isinstance(found, list) else str(found)
    if "\0" in text:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text.encode()


def _array(found: list[Any]) -> str:
    return "{" + ",".join([_element(one) for one in found]) + "}"


def _element(one: Any) -> str:
    if isinstance(one, str):
        return '"' + one.replace("\\", r"\\").replace('"', r"\"") + '"'
    return "NULL" if one is None else str(one)
