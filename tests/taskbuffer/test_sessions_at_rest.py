"""Connections that nobody uses are closed; a burst leaves no sessions behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from sqlalchemy import Engine, text

from jedi.taskbuffer.db import sessions
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.db.sessions import SessionsAtRest, close_rested

NAME = "sessions at rest"


@pytest.fixture
def pool(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine whose connections rest for no time at all before another closes them."""
    monkeypatch.setattr(sessions, "REST_S", 0.0)
    found = connect(engine.url.render_as_string(hide_password=False), NAME)
    yield found
    found.dispose()


def burst(pool: Engine, n: int) -> set[int]:
    """Use so many connections together; their backends."""
    with ExitStack() as stack:
        used = [stack.enter_context(pool.connect()) for _ in range(n)]
        return {one.scalar(text("SELECT pg_backend_pid()")) or 0 for one in used}


def left(engine: Engine) -> set[int]:
    """The backends of the pool that stay: those that were closed need a moment to go."""
    asked = text("SELECT pid FROM pg_stat_activity WHERE application_name = :name")
    for _ in range(100):
        with engine.connect() as tx:
            found = set(tx.scalars(asked, {"name": NAME}))
        if len(found) == 1:
            break
    return found


def test_a_burst_leaves_one_session_behind(pool: Engine, engine: Engine) -> None:
    assert len(burst(pool, 4)) == 4
    last = burst(pool, 1)  # comes back last, and closes the others
    assert left(engine) == last
    assert pool.pool.checkedin() == 4  # type: ignore[attr-defined]  # places, of which one is open


def test_a_quiet_process_closes_them_by_a_look(pool: Engine, engine: Engine) -> None:
    before = burst(pool, 4)
    close_rested(pool)
    assert len(found := left(engine)) == 1 and found <= before
    with pool.connect():
        close_rested(pool)  # somebody works: nothing to do


def test_places_of_closed_sessions_are_used_again(pool: Engine) -> None:
    first = burst(pool, 4)
    assert burst(pool, 1) <= first
    assert len(burst(pool, 4)) == 4


def test_nobody_gets_a_closed_session(pool: Engine) -> None:
    """Threads that take, use and give back close each other's connections all the time."""

    def use(number: int) -> int:
        with pool.begin() as tx:
            return tx.scalar(text("SELECT CAST(:n AS bigint)"), {"n": number}) or 0

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(use, range(600))) == list(range(600))


def test_a_thread_that_takes_a_place_meanwhile_keeps_its_session(pool: Engine) -> None:
    """A thread has decided to close a connection; another takes its place before it does."""
    decided, go_on = Event(), Event()
    used, rested = pool.connect(), pool.connect()
    closing = Thread(target=used.close)

    class Marks(dict[Any, Any]):
        def pop(self, *key: Any) -> Any:
            found = super().pop(*key)
            if current_thread() is closing:
                decided.set()
                go_on.wait(10)
            return found

    [rests] = [
        called.__self__  # type: ignore[attr-defined]
        for called in pool.pool.dispatch.checkin
        if isinstance(getattr(called, "__self__", None), SessionsAtRest)
    ]
    rests._since = Marks()
    rested.close()
    closing.start()
    assert decided.wait(10)
    with pool.connect() as tx:
        assert tx.scalar(text("SELECT 1")) == 1
        go_on.set()
        closing.join()
        assert tx.scalar(text("SELECT 2")) == 2
