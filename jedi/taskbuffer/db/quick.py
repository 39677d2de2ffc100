"""Statements that a session prepares once, and then sends with little ado.

psycopg takes 100 us of Python's time for a statement of one row: generators that wait, a cache of
prepared statements, and types of binds and columns. libpq itself does the same in 30 us.
"""

from __future__ import annotations

import re
import select
from collections.abc import Mapping
from typing import Any, cast

import psycopg
from psycopg.errors import DataError, error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from pydantic_core import from_json

from jedi.taskbuffer.db.planning import EACH_TIME, EITHER_WAY, Planning

_BIND = re.compile(r"%\((\w+)\)s|%%")


class Prepared(str):
    """A statement with binds, as psycopg takes it, that a session prepares once. Its answer is one
    JSON value. Each bind is a text, a number, or a list of either, in a CAST."""

    planning: Planning
    why: str
    """The reason for this planning, and the bound of its worst case."""
    numbered: bytes
    """The statement as PostgreSQL takes it, with numbered binds."""
    binds: tuple[str, ...]
    name: bytes

    def __new__(cls, sql: str, planning: Planning, why: str) -> Prepared:
        made = super().__new__(cls, sql)
        made.planning, made.why = planning, why
        made.binds = tuple(dict.fromkeys(found[1] for found in _BIND.finditer(sql) if found[1]))
        numbers = {bind: f"${number}" for number, bind in enumerate(made.binds, 1)}
        made.numbered = _BIND.sub(lambda b: numbers[b[1]] if b[1] else "%", sql).encode()
        made.name = b"jedi_%x" % (hash(sql) & 0xFFFFFFFFFFFF)
        return made


class Session(psycopg.Connection[Any]):
    """A connection that lets libpq itself commit, and plans each statement in its way. All else is
    psycopg's."""

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self.known: set[bytes] = set()
        """The statements that it has prepared."""
        self._planning: Planning | None = EACH_TIME
        self._unsure = False
        """Its way was changed in this transaction, which may be rolled back."""

    def plan(self, planning: Planning) -> None:
        """Plan the next statements in this way. A session keeps it, since those that are sent next
        are mostly of the same kind: each change is a way there and back, 40 us."""
        status = self.pgconn.transaction_status
        settled = planning in (self._planning, EITHER_WAY)
        if not settled and status != TransactionStatus.INERROR:
            _good(self, self.pgconn.exec_(planning.sql))
            self._planning = planning
            self._unsure |= status != TransactionStatus.IDLE

    def rolled_back(self) -> None:
        """The transaction, or a part of it, was rolled back."""
        if self._unsure:
            self._planning, self._unsure = None, False

    def _deallocate(self, name: bytes | None) -> Any:
        """The same as psycopg's, which deallocates all after a rollback: also ours."""
        if name is None:
            self.known.clear()
        return super()._deallocate(name)

    def commit(self) -> None:
        """The same as psycopg's, which takes 25 us more."""
        if self.pgconn.transaction_status == TransactionStatus.INTRANS:
            _good(self, self.pgconn.exec_(b"COMMIT"))
            self._unsure = False
        else:
            super().commit()
            self.rolled_back()

    def rollback(self) -> None:
        """The same as psycopg's."""
        self.rolled_back()
        super().rollback()


class Quick(psycopg.Cursor[Any]):
    """A cursor that lets libpq itself execute a `Prepared` statement. All else is psycopg's."""

    _answer: PGresult | None = None

    def execute(self, query: Any, params: Any = None, **words: Any) -> Any:
        """The same as psycopg's."""
        self._answer, session = None, cast(Session, self.connection)
        if isinstance(query, Prepared):
            self._answer = _executed(session, query, params)
            return self
        session.plan(EACH_TIME)
        if not params:  # PostgreSQL would keep its plan, which may be of empty tables
            words["prepare"] = False
        super().execute(query, params, **words)
        if self.statusmessage == "ROLLBACK":
            session.rolled_back()
        return self

    def executemany(self, query: Any, *args: Any, **words: Any) -> None:
        """The same as psycopg's."""
        cast(Session, self.connection).plan(EACH_TIME)
        super().executemany(query, *args, **words)

    def value(self) -> Any:
        """The first value of the answer."""
        if self._answer is None:
            return self.fetchall()[0][0]
        found = self._answer.get_value(0, 0)
        return None if found is None else from_json(found)


def _executed(session: Session, statement: Prepared, values: Mapping[str, Any]) -> PGresult:
    """The answer to a statement, which the session prepares if it does not know it."""
    binds: Any = [_dump(values[bind]) for bind in statement.binds]
    server = session.pgconn
    session.plan(statement.planning)
    if statement.name not in session.known:
        _good(session, server.prepare(statement.name, statement.numbered))
        session.known.add(statement.name)
    begins = not session.autocommit and server.transaction_status == TransactionStatus.IDLE
    send = _begun if begins else _sent
    return _good(session, send(server, statement.name, binds))


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
