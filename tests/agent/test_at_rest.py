"""Agents without work: what a look costs, and that it misses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from support.task_rows import good, put

from jedi.agent import registry
from jedi.agent.base import World
from jedi.core.knobs import KNOBS
from jedi.submitter.agent import Submitter
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog.agent import WatchDog
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk

IDLE = sorted(set(registry.AGENTS) - {"WatchDog"})
OFTEN = sorted(dog.name for dog in DOGS.values() if KNOBS[dog.period].classic < 60)
"""The dogs that run more than once a minute."""


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """The statements of the block."""
    found: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", IDLE)
def test_a_look_that_finds_nothing_takes_one_statement(world: World, name: str) -> None:
    """An idle agent asks one question at each look: is there something to claim? It reads knobs and
    endpoints only for work."""
    agent = registry.load(name)(world)
    assert agent.run_once() == 0
    with counted(world.engine) as found:
        assert agent.look() == 0
    assert len(found) == 1, found


@pytest.mark.parametrize("name", OFTEN)
def test_a_dog_without_work_takes_one_statement(world: World, name: str) -> None:
    world.refresh()
    walk(world, DOGS[name])
    with counted(world.engine) as found:
        assert walk(world, DOGS[name]) == {}
    assert len(found) == 1, found


def test_the_watchdog_reads_knobs_seldom(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dogs have a timetable; a call wakes it when knobs change. Without calls it polls."""
    world.refresh()
    dog = WatchDog(world)
    assert dog.poll_s == world.knobs.agent.heartbeat_s == 10
    monkeypatch.setenv("JEDI_NOTIFY", "off")
    assert dog.poll_s == world.knobs.agent.poll_s == 2


def test_the_submitter_looks_seldom_without_pilots(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Knob submitter.check_s is the interval between looks at pilots, 5 s. Without calls it polls,
    and so it does while there are pilots or waiting jobs."""
    world.refresh()
    agent = Submitter(world)
    assert agent.poll_s == world.knobs.agent.poll_s == 2
    agent.run_once()
    assert agent.look() == 0
    assert agent.poll_s == world.knobs.submitter.check_s == 5
    monkeypatch.setenv("JEDI_NOTIFY", "off")
    assert agent.poll_s == 2


def test_a_look_goes_by_the_present_knobs(world: World) -> None:
    """A knob that changed unheard holds for the next work that is claimed."""
    agent = TaskRefiner(world)
    agent.run_once()
    assert agent.look() == 0
    put(world, good(), good())
    with world.engine.begin() as tx:
        knobs.put(tx, "taskrefiner.batch", 1, "test")
    assert agent.look() == 1


def test_a_pooled_connection_is_neither_asked_nor_dead(engine: Engine, database_url: str) -> None:
    """A checkout sends nothing to the server, and still replaces a connection that it closed."""
    pool = connect(database_url, pool_size=1)
    pid = text("SELECT pg_backend_pid()")
    with pool.connect() as tx:
        mine = tx.scalar(pid)
    last = text("SELECT query FROM pg_stat_activity WHERE pid = :pid")
    kill = text("SELECT pg_terminate_backend(:pid, 10000)")  # waits for its end
    with engine.begin() as tx:
        before = tx.scalar(last, {"pid": mine})
        with pool.connect():
            pass
        assert tx.scalar(last, {"pid": mine}) == before
        assert tx.scalar(kill, {"pid": mine})
    with pool.connect() as tx:
        assert tx.scalar(pid) not in (None, mine)
    pool.dispose()
