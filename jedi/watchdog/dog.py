"""Dogs: small periodic checks, each run by one process at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.db.engine import at_once

Counts = Counter[str]
"""Actions of a dog: their numbers by reason."""


@dataclass(frozen=True, slots=True)
class Dog:
    """`period` is the knob that says how often it runs; `run` does the work once. `due` says by one
    statement whether there may be any (None: always)."""

    name: str
    period: str
    about: str
    run: Callable[[World], Counts]
    due: Callable[[Connection], bool] | None = None


def walk(world: World, dog: Dog) -> Counts:
    """Run a dog once; nothing happens while another process runs it.

    The lock only saves work: whatever a dog writes is guarded by itself.
    """
    lock = (f"dog {dog.name}", world.me)
    with at_once(world.engine) as tx:
        if dog.due and not dog.due(tx):
            return Counts()
        if not locks.take(tx, *lock, float(world.knobs.agent.lease_s)):
            return Counts(locked=1)
    try:
        return +dog.run(world)  # without zeros
    finally:
        with at_once(world.engine) as tx:
            locks.release(tx, *lock)


@contextmanager
def later(world: World, sentence: str, **facts: object) -> Iterator[None]:
    """Report a failure; it blocks nothing else, and the next run tries again."""
    try:
        yield
    except (JediError, OSError) as error:
        world.log.warning(sentence, **facts, error=str(error))


def in_batches(world: World, step: Callable[[Connection, int], Counts]) -> Counts:
    """Repeat `step(tx, limit)` in transactions of its own until it finds less than the limit."""
    limit = int(world.knobs.watchdog.batch)
    total = Counts()
    while True:
        with world.engine.begin() as tx:
            counts = step(tx, limit)
        total += counts
        if counts.total() < limit:
            return total
