"""The WatchDog's dogs: list them, and run one at once."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError

from jedi.agent.base import World
from jedi.core.settings import Settings
from jedi.ddm import factory
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.taskbuffer.db import knobs


@dataclass(frozen=True, slots=True)
class DogSummary:
    """A dog with its work, the interval between its runs, and the knob of the interval."""

    dog: str
    about: str
    period_s: float
    knob: str


@operation("dog.list", "GET", "/v1/dogs", ANYBODY)
def find(call: Call) -> list[DogSummary]:
    """List the dogs of the WatchDog with their work and interval."""
    from jedi.watchdog.all_dogs import DOGS  # the service needs their modules for this alone

    return [
        DogSummary(dog.name, dog.about, call.knobs[dog.period], dog.period) for dog in DOGS.values()
    ]


@operation("dog.run", "POST", "/v1/dogs/{dog}/run", OPERATOR, heavy=True)
def run_dog(call: Call, dog: NameText) -> dict[str, int]:
    """Run a dog once, and count its actions by reason; `locked`: it runs elsewhere just now.

    It has transactions of its own. NotFound: there is no such dog.
    """
    from jedi.watchdog.all_dogs import find as dog_of
    from jedi.watchdog.dog import walk

    call.subject = f"dog {dog}"
    known = dog_of(dog)
    engine = call.tx.engine
    url = engine.url.render_as_string(hide_password=False)
    world = World(engine, Settings(call.home.path, url), knobs.load, factory.load)
    world.refresh()
    try:
        return dict(walk(world, known))
    except DBAPIError as error:
        error.add_note(f"What dog {dog} did before stands; the next run goes on.")
        raise
