"""Files that wait on tape are asked for, again and again until they are on disk."""

from __future__ import annotations

from collections.abc import Sequence

from jedi.agent.base import World
from jedi.core.errors import JediError
from jedi.ddm.interface import TransferResult
from jedi.taskbuffer.inputs import datasets, staging
from jedi.taskbuffer.inputs.staging import StagingTask
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
    failures: dict[str, str] = {}
    for row in wanted:
        for at in range(0, len(row.lfns), size):
            ends = _ask(world, row.dataset_name, row.lfns[at : at + size])
            if failed := _failed(ends):
                failures.setdefault(row.dataset_name, failed)
            if came := sum(end.done for end in ends):
                counts["staged"] += came
                with world.engine.begin() as tx:
                    datasets.wake_consumers(tx, [row.dataset_name])
    if failures:
        with world.engine.begin() as tx:
            staging.explain(tx, failures)
    return counts


def _begin(world: World) -> Counts:
    """Tasks go on of whose input the first has come, or is gone: ContentsFeeder finds the others.
    The reason of the remaining ones names the last failure."""
    with world.engine.begin() as tx:
        waiting = staging.WAITING.rows(tx)
    moves = [move for task in waiting if (move := _next(world, task))]
    with world.engine.begin() as tx:
        moved = tasks.move_tasks(tx, moves, "WatchDog")
    return Counts(begun=sum(move.target == "staged" for move in moved))


def _next(world: World, task: StagingTask) -> Move | None:
    """The move of a task that waits for the first of its input; None: nothing has changed."""
    held, facts = (task.jedi_task_id, task.lock_seq), task.facts
    ends = _ask(world, facts["dataset"], facts["files"]) if "files" in facts else []
    if not ends or any(end.done for end in ends):
        return Move(*held, "staged", "staged", "The first of the input is on disk.")
    if all(end.code == "source_missing" for end in ends):
        reason = "The files that it waited for are gone: it begins with the others."
        return Move(*held, "staged", "staged", reason)
    reason = staging.first_on_tape(facts["dataset"], facts["files"], _failed(ends))
    if reason == task.reason:
        return None
    return Move(*held, "staging", "input_on_tape", reason, facts)


def _failed(ends: Sequence[TransferResult]) -> str:
    """The first failure; empty: there is none."""
    return next((end.sentence for end in ends if not end.done and not end.coming), "")


def _ask(world: World, name: str, lfns: Sequence[str]) -> list[TransferResult]:
    """Ask for files. JEDI asks again for files that can't come now."""
    try:
        ends = world.ddm.stage(name, lfns, _ACTIVITY)
    except (JediError, OSError) as error:
        ends = [TransferResult.failed(name, lfn, error) for lfn in lfns]
        world.log.warning("not staged", dataset=name, error=str(error))
        return ends
    for end in ends:
        if not end.done:
            world.log.warning("not staged", dataset=name, lfn=end.lfn, error=end.sentence)
    return ends


DOG = Dog("staging", "watchdog.staging_period_s", "files are staged from tape", run, tasks.any_live)
