"""What a process of the service remembers of waiting jobs, for a second."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.core import clock
from jedi.model.jobs.wire import Resources
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.dispatch_cache import DatasetFacts, DispatchCache

ODD = "a,\"b'{}\\ NULL"


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Time stands still until it is set anew."""
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    return monkeypatch


def jobs(engine: Engine, n: int, share: str, priority: int = 100) -> list[int]:
    with engine.begin() as tx:
        return make_jobs(tx, n, share=share, priority=priority).jobs


def take(engine: Engine, heads: DispatchCache, n: int, request: str) -> list[int]:
    with engine.begin() as tx:
        held = dispatch.acquire(tx, "SITE_A", n, Resources(cores=1), request, "pilot", heads)
    return [job.panda_id for job in held]


class Unread(dict[int, DatasetFacts]):
    """Nobody reads it whole."""

    keys = values = items = __iter__ = None  # type: ignore[assignment]


def test_the_datasets_that_a_process_remembers_are_looked_up(engine: Engine) -> None:
    """Reading all of 100,000 remembered datasets takes 3 ms for each request."""
    heads = DispatchCache()
    first, second = jobs(engine, 2, "a")
    assert take(engine, heads, 1, "r1") == [first]
    heads._datasets = Unread(heads._datasets)
    assert take(engine, heads, 1, "r2") == [second]


@pytest.mark.usefixtures("later")
def test_jobs_go_on_from_where_they_were_seen(engine: Engine) -> None:
    heads = DispatchCache()
    first, second = jobs(engine, 2, ODD), jobs(engine, 2, ODD, 50)
    other = jobs(engine, 2, "NULL")
    got = [take(engine, heads, 1, f"r{n}") for n in range(7)]
    assert got == [[job] for job in [*first, *second, *other]] + [[]]


def test_urgent_jobs_come_first_a_second_later(engine: Engine, later: pytest.MonkeyPatch) -> None:
    heads = DispatchCache()
    usual = jobs(engine, 3, "a")
    assert take(engine, heads, 1, "r1") == usual[:1]
    above, urgent = jobs(engine, 1, "a", 900), jobs(engine, 1, "Express", 5)
    assert take(engine, heads, 1, "r2") == usual[1:2]
    later.setattr(clock, "monotonic", lambda: 1001.0)
    got = [take(engine, heads, 1, f"later {n}") for n in range(3)]
    assert got == [urgent, above, usual[2:]]


@pytest.mark.usefixtures("later")
def test_what_came_since_does_not_wait_when_there_is_nothing_else(engine: Engine) -> None:
    heads = DispatchCache()
    [known] = jobs(engine, 1, "b", 10)
    assert take(engine, heads, 1, "r1") == [known]
    since = jobs(engine, 1, "b", 90) + jobs(engine, 1, "a", 1)
    assert take(engine, heads, 2, "r2") == since
    assert take(engine, heads, 1, "r3") == []
    [last] = jobs(engine, 1, "c")
    assert take(engine, heads, 1, "r4") == [last]


@pytest.mark.usefixtures("later")
def test_a_repeated_request_takes_nothing_more(engine: Engine) -> None:
    heads = DispatchCache()
    waiting = jobs(engine, 3, "a")
    assert take(engine, heads, 1, "r1") == waiting[:1]
    assert take(engine, heads, 1, "r1") == waiting[:1]
    assert take(engine, heads, 9, "r2") == waiting[1:]


def test_threads_and_processes_that_remember_get_each_job_once(engine: Engine) -> None:
    waiting = jobs(engine, 100, "a") + jobs(engine, 100, "a", 50) + jobs(engine, 100, "b")
    knowing = [DispatchCache(), DispatchCache()]

    def pilot(number: int) -> list[int]:
        got: list[int] = []
        while found := take(engine, knowing[number % 2], 1 + number % 3, f"{number} {len(got)}"):
            got += found
        return got

    with ThreadPoolExecutor(6) as pool:
        got = [one for some in pool.map(pilot, range(6)) for one in some]
    assert sorted(got) == sorted(waiting)
