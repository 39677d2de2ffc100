"""The WatchDog's dogs: list them, and run one at once."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from jedi.agent.base import World
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.host.home import Home
from jedi.service.steering import must_be_operator
from jedi.taskbuffer.housekeeping import knobs


@dataclass(frozen=True, slots=True)
class DogSummary:
    """A dog with its work, the interval between its runs, and the knob of the interval."""

    dog: str
    about: str
    period_s: float
    knob: str


def list_dogs(tx: Connection) -> list[DogSummary]:
    """Return all dogs."""
    from jedi.watchdog.all_dogs import DOGS  # the service needs their modules for this alone

    values = knobs.load(tx)
    return [
        DogSummary(dog.name, dog.about, values[dog.period], dog.period) for dog in DOGS.values()
    ]


def run_dog(engine: Engine, home: Home, who: str, name: str) -> dict[str, int]:
    """Run a dog once, in transactions of its own; return its actions by reason, `locked` if it
    runs elsewhere. NotFound: there is no such dog; Forbidden: `who` is no operator."""
    from jedi.watchdog.all_dogs import find
    from jedi.watchdog.dog import walk

    with engine.begin() as tx:
        must_be_operator(tx, who)
    dog = find(name)
    url = engine.url.render_as_string(hide_password=False)
    world = World(engine, Settings(home.path, url), knobs.load, factory.load)
    world.refresh()
    try:
        return dict(walk(world, dog))
    except DBAPIError as error:
        error.add_note(f"What dog {name} did before stands; the next run goes on.")
        raise
