"""Statements that libpq itself executes: they do the same as psycopg's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from psycopg.errors import DivisionByZero
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from jedi.taskbuffer.db.engine import at_once, is_away, prepared, time_statements, value

ECHO = prepared("""
SELECT json_build_array(CAST(:word AS text), CAST(:number AS bigint), CAST(:words AS text[]),
  CAST(:numbers AS bigint[]), CAST(:word AS text), '100 %%')
""")
ADD = prepared("""
WITH a AS (INSERT INTO quick_numbers VALUES (CAST(:number AS bigint)) RETURNING n)
SELECT count(*) FROM a
""")
NOTHING = prepared("SELECT CAST(:word AS json)")
ODD = ["a,\"b'{}\\ NULL", "NULL", "", " ", "\\", '"', "ü\n\t", None]


def echo(tx: Connection, word: str | None, numbers: list[int | None]) -> Any:
    given = {"word": word, "number": 2**62, "words": ODD, "numbers": numbers}
    return value(tx, ECHO, given)


@pytest.mark.parametrize("word", ODD)
def test_binds_arrive_as_they_were_sent(engine: Engine, word: str | None) -> None:
    with at_once(engine) as tx:
        quick = echo(tx, word, [1, None, -3])
    with engine.begin() as tx:
        assert quick == echo(tx, word, [1, None, -3])
    assert quick[:5] == [word, 2**62, ODD, [1, None, -3], word]


def test_a_transaction_begins_with_its_first_statement(engine: Engine) -> None:
    """It is taken back as a whole, and what a session knows is executed again in the next one."""
    with engine.begin() as tx:
        tx.execute(text("CREATE TABLE quick_numbers (n bigint PRIMARY KEY)"))
    for number in (1, 2):
        with engine.begin() as tx:
            assert value(tx, ADD, {"number": number}) == 1
            assert tx.execute(text("SELECT count(*) FROM quick_numbers")).scalar_one() == number
    for numbers in ([3, 3], [2]):
        with pytest.raises(IntegrityError), engine.begin() as tx:
            for number in numbers:
                value(tx, ADD, {"number": number})
    with engine.begin() as tx:
        assert value(tx, ADD, {"number": 3}) == 1
        assert list(tx.scalars(text("SELECT n FROM quick_numbers ORDER BY n"))) == [1, 2, 3]


def test_a_savepoint_that_is_rolled_back_does_not_make_statements_unknown(engine: Engine) -> None:
    """psycopg then makes the session forget those that it has prepared, with all others."""
    with engine.begin() as tx:
        for _ in range(10):
            tx.execute(text("SELECT CAST(:n AS bigint)"), {"n": 1})  # psycopg prepares it
        assert echo(tx, "before", [1])
        with tx.begin_nested() as savepoint:
            savepoint.rollback()
        assert echo(tx, "after", [1])[0] == "after"


def test_a_first_statement_may_be_longer_than_what_a_socket_takes(engine: Engine) -> None:
    """Ends of 500 jobs are 300 kB; 20 MB and their echo fill the buffers of both sides."""
    word = "x" * 20_000_000
    with engine.begin() as tx:
        assert echo(tx, word, [])[0] == word


def test_no_value_and_no_elements(engine: Engine) -> None:
    with at_once(engine) as tx:
        assert value(tx, NOTHING, {"word": None}) is None
        assert echo(tx, None, [])[3] == []


def test_a_text_with_a_null_byte_is_refused(engine: Engine) -> None:
    for word in ("a\0b", ["\0"]):
        with pytest.raises(DataError), at_once(engine) as tx:
            value(tx, NOTHING, {"word": word})


def test_errors_are_those_of_psycopg(engine: Engine) -> None:
    wrong = prepared("SELECT json_build_array(1 / CAST(:number AS bigint))")
    with at_once(engine) as tx:
        with pytest.raises(DBAPIError) as found:
            value(tx, wrong, {"number": 0})
        assert isinstance(found.value.orig, DivisionByZero)
        assert value(tx, wrong, {"number": 1}) == [1]


WAYS = pytest.mark.parametrize("begin", [at_once, Engine.begin])
Begin = Callable[[Engine], AbstractContextManager[Connection]]


@WAYS
@pytest.mark.parametrize("by_driver", [False, True])
def test_a_session_that_forgot_a_statement_prepares_it_again(
    engine: Engine, by_driver: bool, begin: Begin
) -> None:
    """psycopg makes it forget all when it rolls back."""
    for _ in range(3):
        with begin(engine) as tx:
            assert echo(tx, "a", [1])[0] == "a"
        with engine.connect() as tx:
            for _ in range(7):  # from the sixth on psycopg has prepared it
                tx.execute(text("SELECT 1"))
            if by_driver:
                tx.connection.driver_connection.rollback()  # type: ignore[union-attr]


def test_quick_statements_are_timed_like_others(engine: Engine) -> None:
    seen: list[float] = []
    time_statements(engine, seen.append)
    with at_once(engine) as tx:
        echo(tx, "a", [])
    assert len(seen) == 1


OPENED = prepared("SELECT json_build_array(txid_current_if_assigned(), CAST(:lock AS bigint))")
OPENS = prepared("SELECT json_build_array(txid_current(), CAST(:lock AS bigint))")


def test_a_transaction_left_open_ends_with_its_connection(engine: Engine) -> None:
    with engine.connect() as tx:
        assert value(tx, OPENS, {"lock": 1})[0]
    with at_once(engine) as tx:
        assert value(tx, OPENED, {"lock": 1}) == [None, 1]


ENDS = prepared(
    "SELECT json_build_array(CASE WHEN :ends THEN pg_terminate_backend(pg_backend_pid()) END)"
)


@WAYS
def test_a_lost_session_is_a_database_that_is_away(engine: Engine, begin: Begin) -> None:
    with begin(engine) as tx:
        assert value(tx, ENDS, {"ends": False}) == [None]
    with pytest.raises(OperationalError) as found, begin(engine) as tx:
        value(tx, ENDS, {"ends": True})
    assert is_away(found.value)
    with begin(engine) as tx:
        assert value(tx, ENDS, {"ends": False}) == [None]
