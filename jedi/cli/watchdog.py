"""`jedi watchdog`: the dogs one by one, for cron and repairs."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from typing import Annotated

import typer
from jedi_client.cli.common import Json, application, show, table

from jedi.cli.database import transaction

app = application("The dogs of the WatchDog: each does one check at regular intervals.")


def _complete(incomplete: str) -> list[str]:
    from jedi.watchdog.all_dogs import DOGS

    return [name for name in DOGS if name.startswith(incomplete)]


@app.command("list")
def watchdog_list(as_json: Json = False) -> None:
    """List the dogs with their work and interval.

    Example: `jedi watchdog list`
    """
    from jedi.service.dogs import list_dogs

    with transaction() as tx:
        dogs = list_dogs(tx)
    headers = ["dog", "work", "every s", "knob"]
    rows = [[one.dog, one.about, one.period_s, one.knob] for one in dogs]
    show(dogs, as_json, lambda: table(headers, rows))


@app.command("run")
def watchdog_run(
    name: Annotated[
        str, typer.Argument(help="A dog of `jedi watchdog list`.", autocompletion=_complete)
    ],
    once: Annotated[bool, typer.Option("--once", help="Run it once and end.")] = False,
    as_json: Json = False,
) -> None:
    """Run a dog by its period until Ctrl-C, or once, and print what it did.

    Example: `jedi watchdog run timeouts --once`
    """
    from jedi.agent.child import announce
    from jedi.agent.world import make_world
    from jedi.standalone.installation import Installation
    from jedi.taskbuffer.db.engine import reachable
    from jedi.watchdog.all_dogs import find
    from jedi.watchdog.dog import walk

    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # a batch is done whole or not at all
    dog, world = find(name), make_world(Installation.current().settings, "WatchDog")
    while True:
        with reachable(world.engine):
            world.refresh()
            counts = walk(world, dog)
        show(counts, as_json, partial(_tell, dict(counts)))
        if once:
            return
        announce()
        time.sleep(world.knobs[dog.period])


def _tell(counts: dict[str, int]) -> None:
    found = ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in counts.items())
    typer.echo(found or "nothing to do")
