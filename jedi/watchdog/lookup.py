"""Urgent jobs whose inputs are on their way: data management is asked whether they have come."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.ddm import replicas
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.jobs import capping
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.watchdog.dog import Counts, Dog


def run(world: World) -> Counts:
    """Look for replicas of inputs that arrived without a notification. Source: JEDI document,
    "Direct replica lookup for assigned jobs"."""
    above, limit = int(world.knobs.lookup.above), int(world.knobs.watchdog.batch)
    counts, last = Counts(), 0
    while True:
        with world.engine.begin() as tx:
            jobs = dogs.AWAITING_INPUTS.rows(tx, above=above, after=last, limit=limit)
        inputs = ((data, lfn) for job in jobs for data, lfn, _ in job.inputs or ())
        holders, problems = replicas.find(world.ddm, inputs)
        for name, why in problems.items():
            world.log.warning("not looked up", dataset=name, error=why)
        reason = "Data management has the inputs at the site."
        moves = [
            JobMove(job.panda_id, "activated", "input_ready", reason, job.lock_seq)
            for job in jobs
            if all(end in holders.get((data, lfn), ()) for data, lfn, end in job.inputs or ())
        ]
        with world.engine.begin() as tx:
            moved = move_jobs(tx, moves, "WatchDog", ["assigned"])
            capping.keep_back(tx, world.knobs, [job.jedi_task_id for job in moved], "WatchDog")
        counts += Counts(activated=len(moved))
        if len(jobs) < limit:
            return counts
        last = jobs[-1].panda_id


DOG = Dog(
    "lookup", "watchdog.lookup_period_s", "replicas of inputs of urgent jobs are looked up", run
)
