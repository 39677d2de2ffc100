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
    dog.name: dog
    for dog in (
        timeouts.DOG,
        leases.DOG,
        pending.DOG,
        throttle.DOG,
        exhausted.DOG,
        goal.DOG,
        failing.DOG,
        boost.DOG,
        measure.DOG,
        jumbo.DOG,
        jumbo_jobs.DOG,
        co_jumbo.DOG,
        waiting_co_jumbo.DOG,
        periods.DOG,
        statistics.DOG,
        progress.DOG,
        retries.DOG,
        shares.DOG,
        space.DOG,
        diskio.DOG,
        staging.DOG,
        copies.DOG,
        expiry.DOG,
        purge.DOG,
        sweep.DOG,
        caps.DOG,
        caps.ROOM,
        lookup.DOG,
        archive.DOG,
        notifier.DOG,
        retention.DOG,
    )
}


def find(name: str) -> Dog:
    """A dog by its name; NotFound, with the nearest name, if there is none."""
    if name not in DOGS:
        hint = suggest(name, DOGS, f"There are {', '.join(DOGS)}.")
        raise NotFound(f"There is no dog {name}. {hint}", code="no_dog", dog=name)
    return DOGS[name]
