"""The world of a process: its connections, its log, and data management as configured."""

from __future__ import annotations

import gc

from jedi.agent.base import World
from jedi.core import log
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.taskbuffer.db import engine
from jedi.taskbuffer.housekeeping import knobs


def make_world(settings: Settings, name: str) -> World:
    """The world of the process `name`; `settings` has the address of the database."""
    if settings.database_url is None:
        raise ValueError("the settings have no database URL")
    # What is loaded by now stays. To look at it again whenever garbage is sought takes 40 ms, and
    # made up a third of what a job costs the service and the Adder.
    gc.freeze()
    return World(
        engine.connect(settings.database_url, f"jedi {name}"),
        settings,
        knobs.load,
        factory.load,
        log.setup(name),
    )
