"""The database of the present home, for verbs that no service answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jedi_client.cli.common import names_a_service

from jedi.core.errors import BadInput, Problem

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


def must_be_here(verb: str) -> None:
    """BadInput: --server or --profile name a service, but `verb` acts on JEDI_HOME."""
    if given := names_a_service():
        rule = f"{verb} acts on the processes, files or database of JEDI_HOME"
        raise BadInput([Problem(*given, rule, "Run it there, without this option")])


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
