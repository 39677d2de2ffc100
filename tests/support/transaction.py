"""Where builders read and write."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Connection, Engine

from jedi.agent.base import World

Place = World | Engine | Connection
"""A world or its engine, of which a builder takes a transaction of its own; or a transaction."""


def transaction(place: Place) -> AbstractContextManager[Connection]:
    """The transaction that is given, or a new one."""
    if isinstance(place, Connection):
        return nullcontext(place)
    return (place.engine if isinstance(place, World) else place).begin()
