"""Run benchmarks: `python -m benchmarks [NAME…] [--no-save]`; exit 1 if a goal is missed."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.common import database, host, save, show

NAMES = ("tasks", "feed", "generate", "latency", "rss", "million", "brokerage", "queues")


def main(arguments: list[str]) -> int:
    """Each benchmark is a module with `measure(engine) -> list[Result]`, on a new database."""
    names = [name for name in arguments if not name.startswith("-")] or list(NAMES)
    good = True
    for name in names:
        with database() as engine:
            results = import_module(f"benchmarks.{name}").measure(engine)
            if "--no-save" not in arguments:
                save(name, results, host(engine))
        show(results)
        good &= all(result.good for result in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
