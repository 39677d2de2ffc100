"""Asks for ranges that come at the same time: one statement for all, nobody waits for another's
consumer. Source: docs/reference/event-service.md#dispatch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from support.event_rows import BuiltJobSet, make_job_set, ranges_of

from jedi.agent.base import World
from jedi.api.memory.range_desk import TOGETHER, RangeDesk
from jedi.core import clock
from jedi.model.jobs.event_wire import RangeAsks
from jedi.service.pilots import event_ranges
from jedi.taskbuffer.db.engine import time_statements
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

PILOT_A = Identity("pilot", "SITE_A", None)
DEADLINE_S = 20.0
SENT = 1


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def _asked(job: int, n: int, request: str) -> dict[str, Any]:
    return {"request_id": request, "asks": [{"panda_id": job, "lock_seq": 1, "n": n}]}


class Desk:
    """A process of the service, and the threads of its requests."""

    def __init__(self, engine: Engine, pool: ThreadPoolExecutor) -> None:
        self.engine, self.pool = engine, pool
        self.desk = RangeDesk(engine, ConsumerMemory())

    def ask(self, job: int, n: int, request: str) -> dict[str, Any]:
        asked = RangeAsks.model_validate(_asked(job, n, request))
        answer: dict[str, Any] = self.desk.acquire(PILOT_A, asked)["answers"][0]
        return answer

    def later(self, job: int, n: int, request: str) -> Future[dict[str, Any]]:
        """Ask in a thread; the answer may have to wait."""
        return self.pool.submit(self.ask, job, n, request)

    def queued(self, n: int) -> None:
        """So many requests wait for the one that is being answered."""
        _until(lambda: len(self.desk._queue) == n)

    def blocked(self, look: Any) -> int:
        """The backend of the statement that is being answered: it waits for a lock."""
        _until(lambda: look.scalar(_BLOCKED) is not None)
        return int(look.scalar(_BLOCKED))


_BLOCKED = text("""
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
""")


def _until(ready: Any) -> None:
    end = clock.monotonic() + DEADLINE_S
    while not ready():
        assert clock.monotonic() < end


@pytest.fixture
def desk(engine: Engine) -> Iterator[Desk]:
    with ThreadPoolExecutor(24) as pool:
        yield Desk(engine, pool)


@contextmanager
def nobody_gets_ranges(engine: Engine) -> Iterator[Any]:
    """Statements that hand out ranges wait; yields a connection that sees who does."""
    with engine.begin() as tx, engine.connect() as look:
        look.execution_options(isolation_level="AUTOCOMMIT")
        tx.execute(text("LOCK TABLE jedi_events IN EXCLUSIVE MODE"))
        yield look


def made(engine: Engine, ranges: int, consumers: int) -> BuiltJobSet:
    with engine.begin() as tx:
        return make_job_set(tx, ranges, consumers)


def once_each(engine: Engine, task: int, answers: list[dict[str, Any]], expected: int) -> None:
    """The answers have so many different ranges, and just these are with the consumers."""
    given = sorted(one["id"] for answer in answers for one in answer["ranges"])
    assert len(set(given)) == len(given) == expected
    rows = [row for row in ranges_of(engine, task) if row[4] == SENT]
    assert given == sorted("-".join(map(str, (task, *row[:4]))) for row in rows)


def test_those_that_come_meanwhile_are_answered_by_one_statement(
    engine: Engine, desk: Desk
) -> None:
    """21 consumers ask; the first one is being answered while the others come."""
    built = made(engine, 100, 21)
    for job in built.consumers:
        desk.ask(job, 1, "0")
    seen: list[float] = []
    with nobody_gets_ranges(engine) as look:
        time_statements(engine, seen.append)
        first = desk.later(built.consumers[0], 3, "1")
        desk.blocked(look)
        seen.clear()
        others = [desk.later(job, 3, "1") for job in built.consumers[1:]]
        desk.queued(20)
        seen.clear()
    answers = [one.result(DEADLINE_S) for one in (first, *others)]
    assert len(seen) == 2
    assert [len(one["ranges"]) for one in answers] == [3] * 21
    assert len({one["id"] for answer in answers for one in answer["ranges"]}) == 63


def test_a_consumer_that_asks_twice_at_once(engine: Engine, desk: Desk) -> None:
    """Both of its requests are answered, one after the other; no range is in both answers. The
    repetition of the second one gets the same ranges."""
    built = made(engine, 20, 3)
    a, b, c = built.consumers
    with nobody_gets_ranges(engine) as look:
        first = desk.later(a, 2, "1")
        desk.blocked(look)
        others = []
        for number, (job, request) in enumerate([(b, "1"), (c, "1"), (b, "2")], 1):
            others.append(desk.later(job, 2, request))
            desk.queued(number)
    answers = [one.result(DEADLINE_S) for one in (first, *others)]
    once_each(engine, built.task, answers, 8)
    assert desk.ask(b, 2, "2")["ranges"] == answers[3]["ranges"]


def test_nobody_waits_for_a_locked_consumer_of_another(engine: Engine, desk: Desk) -> None:
    """Somebody books the end of a consumer: its ask waits for that alone, and all others are
    answered meanwhile."""
    built = made(engine, 20, 5)
    locked, *free = built.consumers
    with engine.begin() as tx:
        tx.execute(text("SELECT FROM jedi_jobs WHERE pandaid = :id FOR UPDATE"), {"id": locked})
        waits = desk.later(locked, 2, "1")
        others = [desk.later(job, 2, "1") for job in free]
        answers = [one.result(DEADLINE_S) for one in others]
        assert [len(one["ranges"]) for one in answers] == [2] * 4
        assert not waits.done()
    answers.append(waits.result(DEADLINE_S))
    once_each(engine, built.task, answers, 10)


def test_a_failure_is_that_of_one_request(engine: Engine, desk: Desk) -> None:
    """The statement for several requests fails: the one that sent it fails, and the others are
    answered one by one."""
    built = made(engine, 20, 4)
    a, b, *rest = built.consumers
    with nobody_gets_ranges(engine) as look:
        first = desk.later(a, 2, "1")
        pid = desk.blocked(look)
        leader = desk.later(b, 2, "1")
        desk.queued(1)
        others = [desk.later(job, 2, "1") for job in rest]
        desk.queued(3)
        look.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": pid})
        with pytest.raises(DBAPIError):
            first.result(DEADLINE_S)
        pid = desk.blocked(look)
        look.execute(text("SELECT pg_cancel_backend(:pid)"), {"pid": pid})
        with pytest.raises(DBAPIError):
            leader.result(DEADLINE_S)
    once_each(engine, built.task, [one.result(DEADLINE_S) for one in others], 4)
    assert len(desk.ask(a, 2, "1")["ranges"]) == 2


def test_large_requests_go_alone(engine: Engine, desk: Desk) -> None:
    """A request for more than TOGETHER ranges does not wait, and nobody waits for it."""
    built = made(engine, TOGETHER + 10, 3)
    *several, small = built.consumers
    asks = [_asked(job, TOGETHER // 2 + 1, "1")["asks"][0] for job in several]
    large = RangeAsks.model_validate({"request_id": "1", "asks": asks})
    with nobody_gets_ranges(engine) as look:
        one = desk.pool.submit(desk.desk.acquire, PILOT_A, large)
        desk.blocked(look)
        assert desk.desk._open
        other = desk.later(small, 5, "1")
    answers = [*one.result(DEADLINE_S)["answers"], other.result(DEADLINE_S)]
    once_each(engine, built.task, answers, TOGETHER + 7)


def test_the_commit_does_not_wait_for_the_disk(engine: Engine) -> None:
    """A range whose hand-out is lost with the database's host is ready again, and a report on it
    is refused: that is worth no wait for each ask. Tests' servers have the setting off anyway."""
    built = made(engine, 5, 1)
    asked = RangeAsks.model_validate(_asked(built.consumers[0], 2, "1"))
    with engine.begin() as tx:
        tx.execute(text("SET LOCAL synchronous_commit = on"))
        event_ranges.acquire(tx, PILOT_A, asked, ConsumerMemory())
        assert tx.scalar(text("SHOW synchronous_commit")) == "off"
