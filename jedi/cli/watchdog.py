"""`jedi watchdog`: the dogs one by one, for cron and repairs."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from typing import Annotated

import typer
from jedi_client.cli.common import Json, application, service, show, table

from jedi.cli.database import must_be_here
from jedi.core.errors import JediError

app = application("The dogs of the WatchDog: each does one check at regular intervals.")


def _complete(incomplete: str) -> list[str]:
    try:
        with service() as jedi:
            return [one.dog for one in jedi.dog_list() if one.dog.startswith(incomplete)]
    except JediError:  # completion has nobody to complain to
        return []


@app.command("list")
def watchdog_list(as_json: Json = False) -> None:
    """List the dogs with their work and interval.

    Example: `jedi watchdog list`
    """
    with service() as jedi:
        dogs = jedi.dog_list()
    headers = ["dog", "work", "every s", "knob"]
    rows = [[one.dog, one.about, one.period_s, one.knob] for one in dogs]
    show(dogs, as_json, lambda: table(headers, rows))


@app.command("run")
def watchdog_run(
    name: Annotated[
        str, typer.Argument(help="A dog of `jedi watchdog list`.", autocompletion=_complete)
    ],
    once: Annotated[
        bool, typer.Option("--once", help="The service runs it once, at once.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a dog in this process by its period until Ctrl-C, or once by the service, and print its
    work.

    Example: `jedi watchdog run timeouts --once`
    """
    if once:
        with service() as jedi:
            done = jedi.dog_run(name)
        show(done, as_json, lambda: _tell(done))
    else:
        must_be_here("jedi watchdog run without --once")
        _keep_running(name, as_json)


def _keep_running(name: str, as_json: bool) -> None:
    from jedi.agent.child import announce
    from jedi.agent.world import make_world
    from jedi.standalone.installation import Installation
    from jedi.taskbuffer.db.engine import reachable
    from jedi.taskbuffer.schema.release import this_release
    from jedi.watchdog.all_dogs import find
    from jedi.watchdog.dog import walk

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # a batch is done whole or not at all
    dog, world = find(name), make_world(Installation.current().settings, "WatchDog")
    while True:
        with reachable(world.engine):
            this_release().must_fit_database(world.engine)
            world.refresh()
            counts = walk(world, dog)
        show(counts, as_json, partial(_tell, dict(counts)))
        announce()
        time.sleep(world.knobs[dog.period])


def _tell(counts: dict[str, int]) -> None:
    counted = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in counts.items())
    typer.echo(counted or "nothing to do")
