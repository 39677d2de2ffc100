"""Builders that several tests share with tests of races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, text

from jedi.agent.base import World
from jedi.core import clock
from jedi.taskbuffer.tasks import commands
from jedi.taskcommando.agent import TaskCommando
from support.job_rows import Made, make_jobs
from support.situations import lead

DEADLINE_S = 20.0


@contextmanager
def blocked(engine: Engine, run: Callable[[Connection], Any]) -> Iterator[None]:
    """Let `run` begin a transaction that has to wait for what the caller has locked: the block
    begins when it waits, has to end what the caller began, and ends when both have committed."""

    def transaction() -> None:
        with engine.begin() as tx:
            run(tx)

    waiting = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    end = clock.monotonic() + DEADLINE_S
    with (
        ThreadPoolExecutor(1) as pool,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as look,
    ):
        other = pool.submit(transaction)
        while not look.scalar(waiting):
            assert not other.done() and clock.monotonic() < end, "it did not have to wait"
        yield
        other.result(DEADLINE_S)


def killed(world: World) -> tuple[Made, Callable[[Connection], None]]:
    """A task with an activated job and a running one, and what will end them."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2)
        lead(tx, made.jobs[1:], "sent", "running")
        commands.append(tx, made.task, "kill", "alice")
    commando = TaskCommando(world)
    assert commando.run_once() == 1
    with world.engine.begin() as tx:
        orders = [(order, None) for order in commando.claim(tx, 10)]
    return made, lambda tx: commando.apply(tx, orders)
