"""What a process of the service remembers of the order of jobs, for a second."""

from __future__ import annotations

import pytest
from job_rows import make_jobs
from sqlalchemy import Engine

from jedi.agent.base import World
from jedi.core import clock
from jedi.spec.attempt import HeldJob
from jedi.spec.wire import Resources
from jedi.taskbuffer import dispatch
from jedi.taskbuffer.dispatch import Turns


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def jobs(engine: Engine, n: int, share: str, priority: int = 100) -> list[int]:
    with engine.begin() as tx:
        return make_jobs(tx, n, share=share, priority=priority).jobs


def take(engine: Engine, turns: Turns, n: int, request: str) -> list[int]:
    return [job.panda_id for job in held(engine, turns, n, request)]


def held(engine: Engine, turns: Turns, n: int, request: str) -> list[HeldJob]:
    with engine.begin() as tx:
        return dispatch.acquire(tx, "SITE_A", n, Resources(cores=1), request, "pilot", turns)


def test_jobs_go_on_from_where_they_were_seen(engine: Engine) -> None:
    turns = Turns()
    first, second = jobs(engine, 2, "a"), jobs(engine, 2, "a", 50)
    other = jobs(engine, 2, "b")
    got = [take(engine, turns, 1, f"r{n}") for n in range(7)]
    assert got == [[job] for job in [*first, *second, *other]] + [[]]


def test_urgent_jobs_come_first_a_second_later(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, real = Turns(), clock.monotonic
    usual = jobs(engine, 4, "a")
    assert take(engine, turns, 1, "r1") == usual[:1]
    above, urgent = jobs(engine, 1, "a", 900), jobs(engine, 1, "Express", 5)
    monkeypatch.setattr(clock, "monotonic", lambda: real() + 2)
    assert [take(engine, turns, 1, f"later {n}") for n in range(3)] == [urgent, above, usual[1:2]]


def test_what_came_since_does_not_wait_when_there_is_nothing_else(engine: Engine) -> None:
    turns = Turns()
    [known] = jobs(engine, 1, "b", 10)
    assert take(engine, turns, 1, "r1") == [known]
    since = jobs(engine, 1, "b", 90) + jobs(engine, 1, "a", 1)
    assert take(engine, turns, 2, "r2") == since
    assert take(engine, turns, 1, "r3") == []
    [last] = jobs(engine, 1, "c")
    assert take(engine, turns, 1, "r4") == [last]


def test_a_repeated_request_takes_nothing_more(engine: Engine) -> None:
    turns = Turns()
    waiting = jobs(engine, 3, "a")
    assert take(engine, turns, 1, "r1") == waiting[:1]
    assert take(engine, turns, 1, "r1") == waiting[:1]
    assert take(engine, turns, 9, "r2") == waiting[1:]
