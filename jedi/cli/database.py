"""The database of the present home, for verbs that no service answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from jedi.ddm.interface import DDM


@contextmanager
def database() -> Iterator[Engine]:
    """The database of the present home; Unreachable if it does not answer."""
    from jedi.standalone.installation import Installation
    from jedi.taskbuffer.db import engine

    installation = Installation.current()
    installation.check_admission()
    connections = engine.connect(installation.url, "jedi cli", pool_size=1)
    try:
        with engine.reachable(connections):
            yield connections
    finally:
        connections.dispose()


@contextmanager
def transaction() -> Iterator[Connection]:
    """One transaction in the database of the present home; Unreachable if it does not answer."""
    with database() as engine, engine.begin() as tx:
        yield tx


@contextmanager
def reading() -> Iterator[tuple[Connection, DDM]]:
    """A transaction that can't write anything, and data management as it is now."""
    from jedi.ddm import factory
    from jedi.taskbuffer.housekeeping import knobs

    with database() as engine, engine.connect() as connection:
        tx = connection.execution_options(postgresql_readonly=True)
        yield tx, factory.load(tx, knobs.load(tx))
