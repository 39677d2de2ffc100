"""Sweep removes the leftovers of attempts, job sets and uploads from storage endpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.core import clock
from jedi.ddm import leftovers
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.sites import sites
from jedi.watchdog.dog import Counts, Dog, later


def run(world: World) -> Counts:
    """Remove staged files of ended attempts, zip files of ended job sets, uploads that nobody goes
    on with, and published files of jobs that another process ended before it crashed."""
    counts = Counts()
    with world.engine.begin() as tx:
        endpoints = list(dict(sites.ROOTS.rows(tx)))
    for endpoint in endpoints:
        with later(world, "not swept", endpoint=endpoint):
            counts += _staged(world, endpoint) + _pieces(world, endpoint)
            counts += _uploads(world, endpoint)
    return counts + _published(world)


def _staged(world: World, endpoint: str) -> Counts:
    """Staged files are looked at before the jobs: a new attempt gets its number first."""
    places = world.ddm.staged(endpoint)
    return _dead(world, endpoint, "staging", places, dogs.living, world.ddm.drop_staging)


def _pieces(world: World, endpoint: str) -> Counts:
    """A pilot that publishes after the end of its job set leaves a zip file for the next time; so
    does one of a task that goes on meanwhile, for only the zip files that were there go."""
    found = world.ddm.pieces(endpoint)

    def drop(endpoint: str, jedi_task_id: int, jobset_id: int) -> None:
        lfns = found[jedi_task_id, jobset_id]
        world.ddm.drop_pieces(endpoint, jedi_task_id, jobset_id, lfns)

    return _dead(world, endpoint, "pieces", [*found], dogs.open_sets, drop)


def _dead(
    world: World,
    endpoint: str,
    name: str,
    places: list[tuple[int, int]],
    living: Callable[[Connection, list[tuple[int, int]]], set[tuple[int, int]]],
    drop: Callable[[str, int, int], None],
) -> Counts:
    """Drop the places at an endpoint, which were read before, whose owners do not live."""
    counts = Counts()
    with world.engine.begin() as tx:
        kept = living(tx, places)
    for place in places:
        if place not in kept:
            with later(world, "not removed", endpoint=endpoint, kind=name, place=place):
                drop(endpoint, *place)
                counts[name] += 1
    return counts


def _uploads(world: World, endpoint: str) -> Counts:
    """Uploads may pause: their owners go on with them later."""
    counts = Counts()
    before = clock.now() - timedelta(days=world.knobs.upload.keep_days)
    for key in world.ddm.old_uploads(endpoint, before):
        with later(world, "not removed", endpoint=endpoint, upload=key):
            world.ddm.drop_upload(endpoint, key)
            counts["uploads"] += 1
    return counts


def _published(world: World) -> Counts:
    size, after, counts = int(world.knobs.watchdog.batch), 0, Counts()
    while True:
        with world.engine.begin() as tx:
            jobs = job_ends.may_lie(tx, after, size)
        for job in jobs:
            with later(world, "not removed", panda_id=job.panda_id):
                counts["published"] += leftovers.remove(world.ddm, job)
        if len(jobs) < size:
            return counts
        after = jobs[-1].panda_id


DOG = Dog("sweep", "watchdog.sweep_period_s", "leftovers of attempts and uploads are removed", run)
