"""Removal of old records; see taskbuffer/housekeeping/retention.py."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.taskbuffer.housekeeping import retention
from jedi.taskbuffer.housekeeping.retention import RetentionRule
from jedi.watchdog.dog import Counts, Dog, in_batches


def run(world: World) -> Counts:
    """Each thing after as many days as its knob says; 0: never. Snapshots, which are large, also
    when they are too many."""
    total = Counts()
    for rule in retention.RULES:
        if days := float(world.knobs[rule.knob]):
            total += _forget(world, rule, days)
    max_mb = int(world.knobs.decisions.total_max_mb)

    def step(tx: Connection, limit: int) -> Counts:
        return Counts(surplus=retention.forget_surplus(tx, max_mb, limit))

    return total + in_batches(world, step)


def _forget(world: World, rule: RetentionRule, days: float) -> Counts:
    def step(tx: Connection, limit: int) -> Counts:
        return Counts({rule.name: retention.forget(tx, rule, days, limit)})

    return in_batches(world, step)


DOG = Dog("retention", "watchdog.retention_period_s", "old records are removed", run)
