"""Jobs are handed out by shares, each charged to its queue at once. Source: JEDI document,
"Shares" and "Fairshare": "fairshare is defined for the number of running jobs"."""

from __future__ import annotations

from itertools import count, cycle, islice
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from support.calls import call
from support.dogs import run
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.core import clock
from jedi.model.jobs.wire import AcquireRequest, Report, Resources
from jedi.service.queues import work_queues
from jedi.taskbuffer.db import statement
from jedi.taskbuffer.db.engine import value
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.scheduling import charges, shares

QUEUE = "- {{queue_id: {}, queue_name: {}, queue_type: user, vo: local, queue_share: {}{}}}\n"
TREE = (
    QUEUE.format(11, "sixty", 60, "")
    + QUEUE.format(12, "parts", 40, ", partitionid: -1")
    + QUEUE.format(13, "left", 1, ", partitionid: 12")
    + QUEUE.format(14, "right", 2, ", partitionid: 12")
)
PARTS = {"sixty": 0.6, "parts": 0.4, "left": 0.4 / 3, "right": 0.8 / 3}
REQUESTS = count()
pytestmark = pytest.mark.usefixtures("operators")


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes, and none is saved: a process reads what queues use once, and knows the rest
    by its account."""
    monkeypatch.setattr(charges, "SAVED_S", 0.0)
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)


def put(world: World, text: str, *waiting: str, jobs: int = 40, cores: int = 1) -> None:
    """Work queues, and jobs that wait at SITE_A for these."""
    with world.engine.begin() as tx:
        work_queues.import_queues(call(tx, "me"), text)
        for share in waiting:
            make_jobs(tx, jobs, share=share, cores=cores)


def two(world: World) -> None:
    put(
        world,
        QUEUE.format(11, "forty", 40, "") + QUEUE.format(12, "sixty", 60, ""),
        "forty",
        "sixty",
    )


def take(engine: Engine, process: DispatchCache, n: int = 1, **slot: int) -> list[int]:
    with engine.begin() as tx:
        held = dispatch.acquire(
            tx, "SITE_A", n, Resources(**{"cores": 1} | slot), f"r{next(REQUESTS)}", "p", process
        )
    return [job.panda_id for job in held]


def asks(n: int, *sites: str) -> list[AcquireRequest]:
    """Requests of pilots that ask together, at SITE_A or these sites in turn."""
    turns = islice(cycle(sites or ["SITE_A"]), n)
    return [
        AcquireRequest(
            request_id=f"r{next(REQUESTS)}",
            pilot_id="p",
            site=site,
            n=1,
            resources=Resources(cores=1),
        )
        for site in turns
    ]


def use(world: World) -> dict[str, float]:
    """Cores of queues, as the dog of shares counts them."""
    run(world, "shares")
    with world.engine.begin() as tx:
        return {one.queue_name: one.usage or 0 for one in shares.LAST.rows(tx) if one.usage}


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [4], [3, 1]])
@pytest.mark.usefixtures("still")
def test_four_slots_of_an_idle_site(world: World, sizes: list[int]) -> None:
    """Shares of 40 and 60 have 1.6 and 2.4 of 4 slots, so each has 2, whether the slots ask at
    once or one by one; no run of the shares comes between."""
    two(world)
    process = DispatchCache()
    assert [len(take(world.engine, process, n)) for n in sizes] == sizes
    assert use(world) == {"forty": 2, "sixty": 2}


@pytest.mark.usefixtures("still")
def test_pilots_that_ask_together(world: World) -> None:
    """Requests that one statement answers, of both sites: 4 slots at each, 3.2 and 4.8 in all."""
    two(world)
    with world.engine.begin() as tx:
        make_jobs(tx, 9, share="forty", site="SITE_B")
        make_jobs(tx, 9, share="sixty", site="SITE_B")
        together = asks(8, "SITE_A", "SITE_B")
        assert [len(one) for one in dispatch.acquire_all(tx, together, DispatchCache())] == [1] * 8
    assert use(world) == {"forty": 3, "sixty": 5}


@pytest.mark.usefixtures("still")
def test_a_partition_at_every_step(world: World) -> None:
    """60 : 40, and 1 : 2 inside: after each job nobody is more than a job off the allocation."""
    put(world, TREE, "sixty", "left", "right")
    process = DispatchCache()
    for running in range(1, 31):
        assert len(take(world.engine, process)) == 1
        seen = use(world)
        for name, part in PARTS.items():
            assert abs(seen.get(name, 0) - part * running) <= 1


@pytest.mark.usefixtures("still")
def test_jobs_of_many_cores(world: World) -> None:
    """Slots of 8 cores: 5 of them are 2 and 3 jobs."""
    put(
        world,
        QUEUE.format(11, "forty", 40, "") + QUEUE.format(12, "sixty", 60, ""),
        "forty",
        "sixty",
        cores=8,
    )
    process = DispatchCache()
    for _ in range(5):
        take(world.engine, process, cores=8, min_cores=8)
    assert use(world) == {"forty": 16, "sixty": 24}


@pytest.mark.usefixtures("still")
def test_a_share_that_runs_dry_leaves_its_slots_to_the_others(world: World) -> None:
    """Nothing idles: of 10 slots a share of 90 % has only 1 job and, in the second request of
    many, none. 2 : 3 of the others: 4 and 5 jobs, then 12 and 17 or 11 and 18."""
    two(world)
    with world.engine.begin() as tx:
        work_queues.import_queues(call(tx, "me"), QUEUE.format(13, "few", 900, ""))
        make_jobs(tx, 1, share="few")
        process = DispatchCache()
        assert [len(one) for one in dispatch.acquire_all(tx, asks(10), process)] == [1] * 10
    assert use(world) == {"few": 1, "forty": 4, "sixty": 5}
    assert len(take(world.engine, process, 20)) == 20
    assert use(world) == {"few": 1, "forty": 12, "sixty": 17}


@pytest.mark.parametrize(("passes", "off"), [(1, 1), (0, 2)], ids=["seen", "not seen"])
def test_two_processes(
    world: World, monkeypatch: pytest.MonkeyPatch, passes: int, off: int
) -> None:
    """Two processes take turns. Each reads what the other handed out, if time passes; if not, each
    knows only its own jobs, and they may be off by a job each."""
    put(world, TREE, "sixty", "left", "right")
    monkeypatch.setattr(charges, "SAVED_S", 0.0)
    processes = DispatchCache(), DispatchCache()
    for running in range(1, 21):
        monkeypatch.setattr(clock, "monotonic", lambda now=running * passes: 1000 + now)
        take(world.engine, processes[running % 2])
        seen = use(world)
        for name, part in PARTS.items():
            assert abs(seen.get(name, 0) - part * running) <= off


def test_urgent_jobs_come_first_and_are_charged_to_the_queues_of_their_tasks(world: World) -> None:
    two(world)
    with world.engine.begin() as tx:
        urgent = make_jobs(tx, 2, share="Express", priority=1).jobs
    process = DispatchCache()
    assert [take(world.engine, process) for _ in urgent] == [[one] for one in urgent]
    assert use(world) == {}
    take(world.engine, process)
    assert use(world) == {"sixty": 1}


def test_a_queue_that_lags_catches_up_and_ends_count_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 run of one queue; a second one of equal share gets the next 8. Those end: as soon as the
    process reads what queues use, the second one is behind again."""
    put(
        world,
        QUEUE.format(11, "first", 50, "") + QUEUE.format(12, "second", 50, ""),
        "first",
        jobs=9,
    )
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0)
    process = DispatchCache()
    take(world.engine, process, 8)
    with world.engine.begin() as tx:
        second = make_jobs(tx, 12, share="second").jobs
    monkeypatch.setattr(clock, "monotonic", lambda: 1002.0)
    assert take(world.engine, process, 8) == second[:8]
    with world.engine.begin() as tx:
        end = {"lock_seq": 1, "status": "failed", "error_code": "x", "error_diag": "y"}
        reports = [Report.model_validate({"pandaid": one, **end}) for one in second[:4]]
        dispatch.accept_reports(tx, "SITE_A", reports)
    monkeypatch.setattr(clock, "monotonic", lambda: 1004.0)
    assert take(world.engine, process, 4) == second[8:]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Statements that requests for jobs send."""
    seen: list[str] = []

    def noting(tx: Connection, sql: str, values: Any) -> Any:
        assert len(seen) < 100, "it does not end"
        seen.append(sql)
        return value(tx, sql, values)

    monkeypatch.setattr(statement, "value", noting)
    return seen


@pytest.mark.parametrize(("pilots", "most"), [(1, 4), (16, 5)])
@pytest.mark.parametrize("why", ["no job fits", "no job is free", "the first jobs do not fit"])
def test_few_statements_whatever_waits(
    world: World, sent: list[str], pilots: int, most: int, why: str
) -> None:
    """50 shares, each with jobs: the use of queues and the first jobs are read, jobs are taken (by
    several pilots first from shares that are due, then from any), and repeated requests looked up.
    With remembered first jobs they are taken, and the use is read, once more."""
    names = [f"q{n:02}" for n in range(50)]
    process = DispatchCache()
    with world.engine.begin() as tx:
        work_queues.import_queues(
            call(tx, "me"),
            "".join(QUEUE.format(100 + n, name, 1, "") for n, name in enumerate(names)),
        )
        for name in names:
            make_jobs(
                tx, 1, files=1, share=name, priority=200, cores=1 if why == "no job is free" else 8
            )
        some = 16 if why == "the first jobs do not fit" else 0
        for name in names[50 - some :]:
            make_jobs(tx, 1, files=1, share=name)
    with world.engine.begin() as other, world.engine.begin() as tx:
        if why == "no job is free":
            other.execute(text("SELECT FROM jedi_jobs FOR UPDATE"))
        for remembered in (0, 1):
            sent.clear()
            given = dispatch.acquire_all(tx, asks(pilots), process)
            assert sum(map(len, given)) == min(some, pilots)
            some -= min(some, pilots)
            assert len(sent) <= most + 2 * remembered


def test_a_request_for_no_job_ends(world: World, sent: list[str]) -> None:
    two(world)
    assert take(world.engine, DispatchCache(), 0) == []
    assert len(sent) <= 5
