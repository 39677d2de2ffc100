"""A task that is called while an agent thinks about it does not wait."""

# Raw UPDATEs: tasks wait, and are leased, without an agent.

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text
from support.generating import catalogue, document, ready, rows

from jedi.agent.base import World
from jedi.taskbuffer.tasks import tasks, waking
from jedi.taskbuffer.tasks.tasks import Move

Write = Callable[[Connection, int, int], None]


def hold(tx: Connection, task: int, seq: int) -> None:
    tasks.move_tasks(
        tx, [Move(task, seq, "pending", "no_site_fits", "No.", wait_s=3600.0)], "JobGenerator"
    )


def stay(tx: Connection, task: int, seq: int) -> None:
    tasks.move_tasks(
        tx, [Move(task, seq, "ready", "queue_full", "Full.", wait_s=3600.0)], "JobGenerator"
    )


def put_off(tx: Connection, task: int, seq: int) -> None:
    tasks.put_off(tx, [(task, seq)], 3600.0)


def waits(world: World) -> bool:
    (row,) = rows(world, "SELECT next_run_at > jedi_now() AS later FROM jedi_tasks")
    return bool(row.later)


def claim(world: World) -> tuple[int, int]:
    with world.engine.begin() as tx:
        (row,) = tasks.claim(tx, ["ready", "pending"], "me", 60.0, 1, early=True)
    return row.jedi_task_id, row.lock_seq


@pytest.mark.parametrize("write", [hold, stay, put_off])
@pytest.mark.parametrize("call", [waking.wake_unbrokered, waking.wake_throttled, waking.wake_all])
def test_a_call_during_a_lease_is_heard(
    world: World, write: Write, call: Callable[[Connection], None]
) -> None:
    """An agent claims a task; an operator changes something in another connection and commits; the
    agent, which saw the state of before, writes its wait: the task is due at once. Without a call,
    or with one before the claim, it waits."""
    catalogue(world, in_=1)
    ready(world, document())
    for called in (False, True, False):
        lease = claim(world)
        if called:
            with world.engine.begin() as other:
                call(other)
        with world.engine.begin() as tx:
            write(tx, *lease)
        assert waits(world) is not called
        with world.engine.begin() as tx:  # before the next claim
            waking.wake_all(tx)
            tx.execute(text("UPDATE jedi_tasks SET status = 'ready' WHERE status = 'pending'"))


def test_a_call_waits_for_a_write_that_is_on_its_way(world: World) -> None:
    """The agent has written its wait and not committed when the operator commits a change."""
    catalogue(world, in_=1)
    ready(world, document())
    lease = claim(world)
    with world.engine.connect() as one, world.engine.connect() as two:
        hold(one, *lease)
        two.execute(text("SET LOCAL lock_timeout = '300ms'"))
        with pytest.raises(Exception, match="lock timeout"):
            waking.wake_unbrokered(two)
        two.rollback()
        one.commit()
        waking.wake_unbrokered(two)
        two.commit()
    assert not waits(world)
