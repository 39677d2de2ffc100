"""Sweep removes the leftovers of attempts, job sets and uploads from storage endpoints."""

from __future__ import annotations

from datetime import timedelta

from jedi.agent.base import World
from jedi.core import clock
from jedi.ddm import leftovers
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.jobs import job_ends
from jedi.taskbuffer.sites import sites
from jedi.watchdog.dog import Counts, Dog, later


def run(world: World) -> Counts:
    """Remove staged files of ended attempts, zip files of ended job sets, uploads that nobody goes
    on with, and published files of jobs that another process ended before it crashed."""
    counts = Counts()
    with world.engine.begin() as tx:
        endpoints = list(sites.roots(tx))
    for endpoint in endpoints:
        with later(world, "not swept", endpoint=endpoint):
            counts += _staged(world, endpoint) + _pieces(world, endpoint)
            counts += _uploads(world, endpoint)
    return counts + _published(world)


def _staged(world: World, endpoint: str) -> Counts:
    """Staged files are looked at before the jobs: a new attempt gets its number first."""
    staged, counts = world.ddm.staged(endpoint), Counts()
    with world.engine.begin() as tx:
        living = dogs.living(tx, staged)
    for attempt in staged:
        if attempt not in living:
            with later(world, "not removed", endpoint=endpoint, attempt=attempt):
                world.ddm.drop_staging(endpoint, *attempt)
                counts["staging"] += 1
    return counts


def _pieces(world: World, endpoint: str) -> Counts:
    """A pilot that publishes after the end of its job set leaves a zip file for the next time."""
    stored, counts = world.ddm.pieces(endpoint), Counts()
    with world.engine.begin() as tx:
        open_sets = dogs.open_sets(tx, stored)
    for jobset in stored:
        if jobset not in open_sets:
            with later(world, "not removed", endpoint=endpoint, jobset=jobset):
                world.ddm.drop_pieces(endpoint, *jobset)
                counts["pieces"] += 1
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
