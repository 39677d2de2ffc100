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
from jedi.taskbuffer.db.planning import BY_KEY, EITHER_WAY, IN_ORDER, Planning

ECHO = prepared("a test", EITHER_WAY)("""
SELECT json_build_array(CAST(:word AS text), CAST(:number AS bigint), CAST(:words AS text[]),
  CAST(:numbers AS bigint[]), CAST(:word AS text), '100 %%')
""")
by_key = prepared("a test")
ADD = by_key("""
WITH a AS (INSERT INTO quick_numbers VALUES (CAST(:number AS bigint)) RETURNING n)
SELECT count(*) FROM a
""")
NOTHING = by_key("SELECT CAST(:word AS json)")
WRONG = by_key("SELECT json_build_array(1 / CAST(:number AS bigint))")
WAYS = pytest.mark.parametrize("begin", [at_once, Engine.begin])
Begin = Callable[[Engine], AbstractContextManager[Connection]]
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


SEEN = {
    planning: prepared("a test", planning)(
        "SELECT json_build_array(current_setting('plan_cache_mode'), "
        f"current_setting('enable_seqscan'), current_setting('enable_bitmapscan'), {number})"
    )
    for number, planning in enumerate((BY_KEY, IN_ORDER))
}
FORCED = {
    BY_KEY: ["force_generic_plan", "off", "on"],
    IN_ORDER: ["force_generic_plan", "off", "off"],
}
FREE = ["force_custom_plan", "on", "on"]


def seen(tx: Connection, planning: Planning) -> list[str]:
    return value(tx, SEEN[planning], {})[:3]  # type: ignore[no-any-return]


def seen_by_others(tx: Connection) -> list[str]:
    names = "plan_cache_mode", "enable_seqscan", "enable_bitmapscan"
    [row] = tx.execute(text("SELECT " + ", ".join(f"current_setting('{name}')" for name in names)))
    return [*row]


@WAYS
def test_each_statement_is_planned_in_its_way(engine: Engine, begin: Begin) -> None:
    """However they follow each other, and whatever was rolled back in between."""
    for _ in range(2):
        with begin(engine) as tx:
            for planning in (BY_KEY, IN_ORDER, BY_KEY):
                assert seen(tx, planning) == FORCED[planning]
                assert echo(tx, "either", [1])[0] == "either"
                assert seen(tx, planning) == FORCED[planning]
            assert seen_by_others(tx) == FREE
            assert seen(tx, BY_KEY) == FORCED[BY_KEY]


@pytest.mark.parametrize("planning", FORCED)
def test_what_is_rolled_back_leaves_no_way_to_plan(engine: Engine, planning: Planning) -> None:
    for _ in range(2):
        with engine.begin() as tx:
            assert seen_by_others(tx) == FREE
            savepoint = tx.begin_nested()
            assert seen(tx, planning) == FORCED[planning]
            savepoint.rollback()
            assert seen(tx, planning) == FORCED[planning]
        with engine.connect() as tx:  # which ends without a commit
            assert seen_by_others(tx) == FREE
            assert seen(tx, planning) == FORCED[planning]
        with engine.begin() as tx:
            assert seen(tx, planning) == FORCED[planning]
        with pytest.raises(DBAPIError), engine.begin() as tx:
            assert seen_by_others(tx) == FREE
            assert seen(tx, planning) == FORCED[planning]
            value(tx, WRONG, {"number": 0})
        with engine.begin() as tx:
            assert seen_by_others(tx) == FREE


def test_lists_of_values_are_planned_each_time(engine: Engine) -> None:
    with engine.begin() as tx:
        assert seen(tx, BY_KEY) == FORCED[BY_KEY]
        tx.execute(text("CREATE TABLE quick_ways (way text)"))
        assert seen(tx, BY_KEY) == FORCED[BY_KEY]
        put = text("INSERT INTO quick_ways VALUES (current_setting('plan_cache_mode') || :n)")
        tx.execute(put, [{"n": "1"}, {"n": "2"}])
        ways = sorted(tx.scalars(text("SELECT way FROM quick_ways")))
        assert ways == [f"{FREE[0]}{n}" for n in (1, 2)]


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
    with at_once(engine) as tx:
        with pytest.raises(DBAPIError) as found:
            value(tx, WRONG, {"number": 0})
        assert isinstance(found.value.orig, DivisionByZero)
        assert value(tx, WRONG, {"number": 1}) == [1]


@WAYS
def test_a_session_knows_what_it_prepared_after_a_rollback(engine: Engine, begin: Begin) -> None:
    """After one psycopg deallocates all statements: also ours."""
    for _ in range(3):
        with begin(engine) as tx:
            assert echo(tx, "a", [1])[0] == "a"
        with engine.connect() as tx:
            for _ in range(7):  # more than after which psycopg prepares by itself
                tx.execute(text("SELECT CAST(:n AS bigint)"), {"n": 1})
                tx.execute(text("SELECT count(*) FROM pg_class"))
            found = tx.scalars(text("SELECT statement FROM pg_prepared_statements"))
            assert sorted(one.strip()[:10] for one in found) == ["SELECT CAS", "SELECT jso"]
            tx.connection.driver_connection.rollback()  # type: ignore[union-attr]


def test_a_statement_that_comes_again_is_read_once_and_planned_each_time(engine: Engine) -> None:
    with engine.begin() as tx:
        for n in range(20):
            tx.execute(text("SELECT FROM pg_class WHERE oid = :n"), {"n": n})
        query = text(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements "
            "WHERE statement LIKE 'SELECT FROM pg_class WHERE%'"
        )
        [row] = tx.execute(query)
    assert row.generic_plans == 0 < row.custom_plans


def test_quick_statements_are_timed_like_others(engine: Engine) -> None:
    seen: list[float] = []
    time_statements(engine, seen.append)
    with at_once(engine) as tx:
        echo(tx, "a", [])
    assert len(seen) == 1


OPENED = by_key("SELECT json_build_array(txid_current_if_assigned(), CAST(:lock AS bigint))")
OPENS = by_key("SELECT json_build_array(txid_current(), CAST(:lock AS bigint))")


def test_a_transaction_left_open_ends_with_its_connection(engine: Engine) -> None:
    with engine.connect() as tx:
        assert value(tx, OPENS, {"lock": 1})[0]
    with at_once(engine) as tx:
        assert value(tx, OPENED, {"lock": 1}) == [None, 1]


ENDS = by_key(
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
