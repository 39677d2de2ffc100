"""Run benchmarks: `python -m benchmarks [NAME…] [--no-save | --smoke] [--SIZE=NUMBER…]`; exit 1 if
a goal is missed.

`--smoke` runs those that can be small, once, only to show that they work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from benchmarks.common import host, save, show
from jedi.standalone.scratch import database

NAMES = (
    "tasks",
    "feed",
    "generate",
    "latency",
    "rss",
    "million",
    "brokerage",
    "queues",
    "dispatch",
    "ends",
    "timeouts",
    "life",
    "archive",
    "snapshot",
    "api",
    "panda",
    "events",
    "split",
    "client",
    "laptop",
    "rest",
    "listings",
    "growth",
    "monitor",
    "whole",
)


def main(arguments: list[str]) -> int:
    """Each benchmark is a module with `measure(engine) -> list[Result]`, on a new database, and on
    CPUS processors, if it says so."""
    names = [name for name in arguments if not name.startswith("-")] or list(NAMES)
    options = [one for one in arguments if one.startswith("-") and "=" not in one]
    if not ({*names} <= {*NAMES} and {*options} <= {"--no-save", "--smoke"}):
        print(__doc__, f"Benchmarks: {', '.join(NAMES)}.", sep="\n")
        return 0 if "--help" in options else 2
    if "--smoke" in arguments:
        return smoke(names)
    given = [argument.removeprefix("--") for argument in arguments if "=" in argument]
    sizes = {name: int(number) for name, _, number in (size.partition("=") for size in given)}
    good = True
    for name in names:
        module = import_module(f"benchmarks.{name}")
        cpus = getattr(module, "CPUS", None)
        with only(cpus), database("jedi benchmark", shared_buffers="1GB") as engine:
            results = module.measure(engine, **sizes)
            if "--no-save" not in arguments:
                save("-".join([name, *given]), results, host(engine))
        show(results)
        good &= all(result.good for result in results)
    return 0 if good else 1


@contextmanager
def only(cpus: int | None) -> Iterator[None]:
    """So many CPUs for all that is started meanwhile, where the system can do that; None: all."""
    if cpus is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cpus])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def smoke(names: Sequence[str]) -> int:
    """Run the benchmarks that have a small size."""
    for name in names:
        module = import_module(f"benchmarks.{name}")
        if hasattr(module, "SMOKE"):
            with database("jedi benchmark", shared_buffers="128MB") as engine:
                show(module.measure(engine, module.SMOKE))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
