"""The world of a process: its connections, its log, and data management as configured."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.core import log
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.taskbuffer import engine, knobs


def make_world(settings: Settings, name: str) -> World:
    """What the process `name` works in; `settings` says where the database is."""
    if settings.database_url is None:
        raise ValueError("settings name no database")
    return World(
        engine.connect(settings.database_url, f"jedi {name}"),
        settings,
        knobs.load,
        factory.load,
        log.setup(name),
    )
