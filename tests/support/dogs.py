"""Dogs run once, at a time of the test's."""

from __future__ import annotations

from datetime import UTC, datetime

from jedi.agent.base import World
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

START = datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC)
"""Where the clock stands when a test with the fixture `at` begins."""


def run(world: World, name: str) -> Counts:
    """What a dog did; knobs that were set before hold for it."""
    world.refresh()
    return walk(world, DOGS[name])
