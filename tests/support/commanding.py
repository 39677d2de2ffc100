"""Tasks in the hands of people: what they ask for, what the agents do about it, and jobs that end
as they are told to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.jobgenerator.agent import JobGenerator
from jedi.mover.agent import Mover
from jedi.postprocessor.agent import PostProcessor
from jedi.service.operations.all_operations import TABLE
from jedi.service.system import check
from jedi.service.tasks import commanding
from jedi.service.tasks.task_verbs import Answered
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner
from support.calls import call
from support.generating import document, generate, ready, rows
from support.helpers import publish, put_file_dataset
from support.situations import make_due
from support.statuses import statuses

OWNER = "anna"
KILLED_BY = {"killed": "cancelled", "reassigned": "closed", "cancelled_by_user": "cancelled"}


def add_inputs(world: World, files: int, first: int = 0) -> None:
    """So many files come into demo:in, which is closed again."""
    data = {f"in{i:06d}": b"%d\n" % i for i in range(first, first + files)}
    put_file_dataset(world, "demo:in", data, "SITE_A_DATADISK")


def running(world: World, files: int = 6, **keys: Any) -> int:
    """A task of one job a file, whose jobs are made."""
    add_inputs(world, files)
    [task] = ready(world, document(**{"nFilesPerJob": 1, "site": "SITE_A", **keys}))
    assert generate(world) == 1
    return task


def ask(world: World, task: int, command: str, who: str = OWNER, **arguments: Any) -> int:
    """Ask as people do; the number of the command."""
    with world.engine.begin() as tx:
        return commanding.command(tx, who, task, command, arguments, "it is time").command_id


def answer(world: World, task: int, command: str, who: str, **arguments: Any) -> Answered:
    """Ask through the operation, whose policy decides who may."""
    with world.engine.begin() as tx:
        found: list[Answered] = TABLE[f"task.{command}"](
            call(tx, who), jedi_task_ids=[task], **arguments
        )
    return found[0]


def cycle(world: World, *more: type[Any]) -> None:
    """All that these agents, TaskCommando and PostProcessor can do now."""
    kinds: list[type[Any]] = [TaskCommando, PostProcessor, *more]
    agents = [kind(world) for kind in kinds]
    while sum(agent.run_once() for agent in agents):
        pass


def everything(world: World) -> None:
    """All that can be done without a pilot."""
    cycle(world, TaskRefiner, ContentsFeeder, JobGenerator, Mover)


def status(world: World, task: int) -> str:
    [found] = statuses(world, task, "tasks")
    return found


def jobs(world: World, task: int, *named: str) -> list[int]:
    """The jobs of a task in these statuses."""
    query = (
        "SELECT pandaid FROM jedi_jobs WHERE jeditaskid = :t AND status = ANY(:s) ORDER BY pandaid"
    )
    return [row.pandaid for row in rows(world, query, t=task, s=list(named))]


def counts(world: World, task: int) -> Counter[str]:
    """Jobs of a task by status."""
    return Counter(statuses(world, task))


def files(world: World, task: int) -> Counter[str]:
    """Input files of a task by status."""
    return Counter(statuses(world, task, "files", type="input"))


def take(world: World, panda_ids: Sequence[int]) -> None:
    """A pilot takes activated jobs."""
    with world.engine.begin() as tx:
        moves = [JobMove(job, "sent", "acquired", "Taken.") for job in panda_ids]
        assert len(move_jobs(tx, moves, dispatch.AGENT, ["activated"])) == len(panda_ids)


def end(
    world: World, panda_ids: Sequence[int], target: str = "finished", code: str = "test"
) -> None:
    """Jobs that a pilot has end so."""
    with world.engine.begin() as tx:
        if target == "finished":
            publish(world, tx, panda_ids, "SITE_A_DATADISK")
        moves = [JobMove(job, "holding", "reported", "Reported.") for job in panda_ids]
        move_jobs(tx, moves, dispatch.AGENT, ["sent"])
        ends = [JobEnd(job, target, code, "As told.") for job in panda_ids]
        assert len(job_ends.end_jobs(tx, ends, "Adder")) == len(panda_ids)


def obey(world: World) -> int:
    """Pilots end the jobs that they are told to kill; how many."""
    query = (
        "SELECT pandaid, kill_code FROM jedi_jobs WHERE kill_code IS NOT NULL AND status = 'sent'"
    )
    found = rows(world, query)
    for row in found:
        end(world, [row.pandaid], KILLED_BY[row.kill_code], row.kill_code)
    return len(found)


def work_off(world: World, task: int) -> str:
    """Every job succeeds until the task has come to its end; its status."""
    for _ in range(20):
        make_due(world)
        everything(world)
        if not (waiting := jobs(world, task, "activated", "sent")):
            return status(world, task)
        take(world, jobs(world, task, "activated"))
        end(world, waiting)
    raise AssertionError(f"task {task} does not end: {status(world, task)}")


def sound(world: World) -> None:
    """All records agree with each other."""
    with world.engine.begin() as tx:
        assert [found for found in check.check(tx) if found.violations] == []
