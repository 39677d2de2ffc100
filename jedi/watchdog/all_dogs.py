"""All dogs by name."""

from __future__ import annotations

from jedi.core.errors import NotFound
from jedi.core.suggest import suggest
from jedi.watchdog import (
    archive,
    boost,
    caps,
    co_jumbo,
    copies,
    diskio,
    exhausted,
    expiry,
    failing,
    goal,
    jumbo,
    jumbo_jobs,
    leases,
    lookup,
    measure,
    notifier,
    pending,
    periods,
    progress,
    purge,
    retention,
    retries,
    shares,
    space,
    staging,
    statistics,
    sweep,
    throttle,
    timeouts,
    waiting_co_jumbo,
)
from jedi.watchdog.dog import Dog

DOGS: dict[str, Dog] = {
    module.DOG.name: module.DOG
    for module in (
        timeouts,
        leases,
        pending,
        throttle,
        exhausted,
        goal,
        failing,
        boost,
        measure,
        jumbo,
        jumbo_jobs,
        co_jumbo,
        waiting_co_jumbo,
        periods,
        statistics,
        progress,
        retries,
        shares,
        space,
        diskio,
        staging,
        copies,
        expiry,
        purge,
        sweep,
        caps,
        lookup,
        archive,
        notifier,
        retention,
    )
}


def find(name: str) -> Dog:
    """A dog by its name; NotFound, with the nearest name, if there is none."""
    if name not in DOGS:
        hint = suggest(name, DOGS, f"There are {', '.join(DOGS)}.")
        raise NotFound(f"There is no dog {name}. {hint}", code="no_dog", dog=name)
    return DOGS[name]
