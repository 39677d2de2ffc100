"""Files that wait on tape are asked for, again and again until they are on disk."""

from __future__ import annotations

from collections.abc import Sequence

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.taskbuffer.inputs import datasets, staging
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.dog import Counts, Dog

_GB = 2**30
_ACTIVITY = "Staging"


def run(world: World) -> Counts:
    """Release staged files while others are still on their way: ContentsFeeder checks after each
    batch. Source: docs/reference/inputs.md#tape;
    docs/reference/throttler-and-shares.md#prestage-limit."""
    size = int(world.knobs.staging.batch)
    with world.engine.begin() as tx:
        wanted = staging.wanted(tx, float(world.knobs.staging.limit_gb) * _GB)
    counts = _begin(world)
    for row in wanted:
        for at in range(0, len(row.lfns), size):
            came = _stage(world, row.dataset_name, row.lfns[at : at + size])
            if came:
                counts["staged"] += came
                with world.engine.begin() as tx:
                    datasets.wake_consumers(tx, [row.dataset_name])
    return counts


def _begin(world: World) -> Counts:
    """Tasks go on of whose input the first has come."""
    with world.engine.begin() as tx:
        waiting = staging.waiting(tx)
    came = [
        task
        for task in waiting
        if "files" not in task.facts or _stage(world, task.facts["dataset"], task.facts["files"])
    ]
    reason = "The first of the input is on disk."
    moves = [Move(task.jedi_task_id, task.lock_seq, "staged", "staged", reason) for task in came]
    with world.engine.begin() as tx:
        return Counts(begun=len(tasks.move_tasks(tx, moves, "WatchDog")))


def _stage(world: World, name: str, lfns: Sequence[str]) -> int:
    """Ask for files; how many of them are on disk. What can't come now is asked for again."""
    try:
        ends = world.ddm.stage(name, lfns, _ACTIVITY)
    except (JediError, OSError) as error:
        world.log.warning("not staged", dataset=name, error=str(error))
        return 0
    for end in ends:
        if not end.done:
            world.log.warning("not staged", dataset=name, lfn=end.lfn, error=end.sentence)
    return sum(end.done for end in ends)


DOG = Dog("staging", "watchdog.staging_period_s", "files are staged from tape", run,
          tasks.any_live)  # fmt: skip
