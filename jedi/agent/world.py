"""The world of a process: its connections, its log, and data management as configured."""

from __future__ import annotations

from collections.abc import Callable

from jedi.agent.base import World
from jedi.core import loading, log
from jedi.core.knobs import Knobs
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.taskbuffer.db import engine, knobs


def make_world(
    settings: Settings,
    name: str,
    longest_s: Callable[[Knobs], float] = lambda knobs: knobs.agent.statement_s,
) -> World:
    """The world of the process `name`, whose statements take `longest_s` at most; `settings` has
    the address of the database."""
    if settings.database_url is None:
        raise ValueError("the settings have no database URL")
    loading.end()
    world = World(
        engine.connect(settings.database_url, f"jedi {name}"),
        settings,
        knobs.load,
        factory.load,
        log.setup(name),
    )
    engine.limit_statements(world.engine, lambda: longest_s(world.knobs))
    return world
