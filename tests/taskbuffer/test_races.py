"""Two who want the same at once: nothing is lost, nothing happens twice, nobody waits for ever."""

# Raw UPDATEs: the race begins in the middle of a move.

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, text
from support.generating import Catalogue, catalogue, document, generate, ready, rows, use
from support.job_rows import make_jobs
from support.races import DEADLINE_S, blocked, killed
from support.task_rows import INPUT, OUTPUT, put

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.contentsfeeder.feed import FeedTask, Wait
from jedi.core import clock
from jedi.jobgenerator.agent import JobGenerator
from jedi.jobgenerator.outcome import NoJobs
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.housekeeping import checks
from jedi.taskbuffer.inputs import contents, datasets
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.jobs.jobs import JobMove
from jedi.taskbuffer.tasks import commands, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskcommando.agent import TaskCommando
from jedi.taskrefiner.agent import TaskRefiner


def test_a_job_killed_while_it_is_activated_leaves_the_queue(world: World) -> None:
    """The row in the queue is newer than what the killer's statement saw when it began."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_jobs SET status = 'assigned'"))
        tx.execute(text("UPDATE jedi_jobs_statuslog SET status = 'assigned'"))
        tx.execute(text("UPDATE job_stats_delta SET status = 'assigned'"))
        tx.execute(text("DELETE FROM jedi_job_ready"))
    (job,) = made.jobs
    mover = world.engine.connect()
    jobs.move_jobs(mover, [JobMove(job, "activated", "input_ready", "here")], "Mover", ["assigned"])
    ends = [JobEnd(job, "cancelled", "killed", "killed", 0, "user")]
    with blocked(world.engine, lambda tx: job_ends.end_jobs(tx, ends, "TaskCommando")):
        mover.commit()
        mover.close()
    with world.engine.begin() as tx:
        assert dict(job_ends.STATUSES.rows(tx, ids=[job])) == {job: "cancelled"}
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 0
        found = {one.invariant: one.ids for one in checks.examine(tx) if one.violations}
    assert "ready_queue" not in found and "job_statistics" not in found


def test_killing_a_task_does_not_stand_in_the_way_of_who_ends_its_jobs(world: World) -> None:
    """Jobs come before datasets in the order of locks."""
    made, kill = killed(world)
    with world.engine.connect() as dog:
        lost = dict(jobs.LOCK_JOBS.rows(dog, ids=made.jobs[1:]))
        assert lost == {made.jobs[1]: "running"}
        with blocked(world.engine, kill):
            ends = [JobEnd(made.jobs[1], "failed", "lost_heartbeat", "silent", 0, "pilot")]
            assert job_ends.end_jobs(dog, ends, "WatchDog")
            dog.commit()
    with world.engine.begin() as tx:
        found = dict(job_ends.STATUSES.rows(tx, ids=made.jobs))
    assert [found[job] for job in made.jobs] == ["cancelled", "failed"]


def test_a_command_that_another_one_answered_does_not_keep_the_task(world: World) -> None:
    """Whether there is a command is seen before the task is locked."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        commands.append(tx, made.task, "kill", "alice")
        (order,) = TaskCommando(world).claim(tx, 1)
    with world.engine.begin() as tx:
        TaskCommando(world).apply(tx, [(replace(order, command=None), None)])
        assert tx.scalar(text("SELECT lease_until FROM jedi_tasks")) is None


def test_a_refused_command_does_not_change_when_a_task_is_tried_again(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tasks.move_tasks(tx, [Move(made.task, None, "pending", "no_site_now", "", wait_s=30)], "t")
        due = tx.scalar(text("SELECT next_run_at FROM jedi_tasks"))
        commands.append(tx, made.task, "retry", "alice")
    assert TaskCommando(world).run_once() == 1
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT outcome FROM jedi_commands")) == "refused"
        assert tx.scalar(text("SELECT next_run_at FROM jedi_tasks")) == due


class Slow(Catalogue):
    """It tells where files are as soon as the leases of all tasks have been prolonged."""

    world: World

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        first, end = max(self._leases()), clock.monotonic() + DEADLINE_S
        while min(self._leases()) <= first:
            assert clock.monotonic() < end, "the leases were not prolonged"
        return super().locate(name, lfns)

    def _leases(self) -> list[Any]:
        return [row.lease_until for row in rows(self.world, "SELECT lease_until FROM jedi_tasks")]


def test_a_batch_that_takes_longer_than_a_lease_is_not_lost(world: World) -> None:
    """Otherwise two agents take it from each other, until its tasks count as killers."""
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.lease_s", 1.0, "op")
    known = catalogue(world, **{"in": 3})
    ids = ready(world, document(output="a:one"), document(output="a:two"))
    use(world, Slow(known.files)).world = world
    assert generate(world) == len(ids)
    assert {row.status for row in rows(world, "SELECT status FROM jedi_tasks")} == {"running"}


def test_files_that_are_gone_do_not_wait_for_jobs(world: World) -> None:
    """A generator that looked for them would put off the end of the task."""
    catalogue(world, **{"in": 3})
    ready(world, document())
    with world.engine.begin() as tx:
        (dataset,) = tx.scalars(text("SELECT datasetid FROM jedi_datasets WHERE type = 'input'"))
        contents.lose(tx, {dataset: ["in000002"]})
    assert [generate(world), generate(world)] == [1, 0]


def test_a_generator_that_came_too_late_does_not_put_the_task_to_sleep(world: World) -> None:
    """Files may come back at any moment, and whoever ends the task looks when it is due, too."""
    catalogue(world, **{"in": 3})
    ready(world, document())
    late = JobGenerator(world)
    with world.engine.begin() as tx:
        (item,) = late.claim(tx, 1)
        tx.execute(text("UPDATE jedi_dataset_contents SET status = 'running'"))
    held = late.work(item)
    assert isinstance(held, NoJobs) and held.code == "no_ready_files"
    assert held.wait_s <= late.poll_s


def chain(world: World) -> tuple[ContentsFeeder, list[FeedTask]]:
    """A task that is to make demo:made, and one that waits for it and is being fed."""
    catalogue(world, **{"in": 1, "made": 0})
    (maker,) = ready(world, document(output="demo:made"))
    put(world, {"taskName": "t", "jobParameters": [{**INPUT, "dataset": "demo:made"}, OUTPUT]})
    assert TaskRefiner(world).run_once() == 1
    feeder = ContentsFeeder(world)
    with world.engine.begin() as tx:
        found = feeder.claim(tx, 10)
        for status in ("running", "prepared"):
            tasks.move_tasks(tx, [Move(maker, None, status, "test", "test")], "test")
    return feeder, found


def finish_maker(tx: Connection) -> None:
    """As the PostProcessor does it."""
    datasets.wake_consumers(tx, ["demo:made"])
    (maker,) = tx.scalars(text("SELECT jeditaskid FROM jedi_tasks WHERE status = 'prepared'"))
    tasks.move_tasks(tx, [Move(maker, None, "done", "test", "test")], "test")


def consumer(world: World) -> Any:
    (row,) = rows(world, "SELECT next_run_at, reason_code FROM jedi_tasks WHERE status = 'defined'")
    return tuple(row)


OPEN = Wait("input_open", "Dataset demo:made is open.")


def test_input_that_is_closed_while_it_is_looked_up_is_looked_up_again(world: World) -> None:
    feeder, found = chain(world)
    with world.engine.begin() as tx:
        finish_maker(tx)
    with world.engine.begin() as tx:
        feeder.apply(tx, [(task, OPEN) for task in found])
    assert consumer(world) == (None, "input_open")


def test_input_that_is_closed_while_the_wait_for_it_is_written(world: World) -> None:
    feeder, found = chain(world)
    with world.engine.connect() as maker:
        finish_maker(maker)
        with blocked(world.engine, lambda tx: feeder.apply(tx, [(task, OPEN) for task in found])):
            maker.commit()
    assert consumer(world) == (None, "input_open")


def test_input_that_is_closed_just_after_the_wait_for_it_was_written(world: World) -> None:
    feeder, found = chain(world)
    with world.engine.connect() as waiting:
        feeder.apply(waiting, [(task, OPEN) for task in found])
        with blocked(world.engine, finish_maker):
            waiting.commit()
    assert consumer(world) == (None, "input_open")
