"""Wakers and agents that want the same rows wait for each other, without a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text
from support.calls import call
from support.races import blocked
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.service.queues import work_queues as queues_work_queues
from jedi.service.sites import changes
from jedi.service.system import knobs
from jedi.taskbuffer.tasks import tasks, waking

pytestmark = pytest.mark.usefixtures("operators")
LINKS = ["- {src: SITE_A, dst: SITE_B, mb_s_1h: 5}\n", "- {src: SITE_B, dst: SITE_A, mb_s_1h: 5}\n"]
QUEUES = [
    f"- {{queue_id: {n}, queue_name: q{n}, queue_type: user, vo: local, queue_order: {n}}}\n"
    for n in (91, 92)
]


def links(tx: Connection, said: str) -> None:
    changes.import_links(call(tx, "me"), said)


def work_queues(tx: Connection, said: str) -> None:
    queues_work_queues.import_queues(call(tx, "me"), said)


@pytest.mark.parametrize("write", [tasks.renew, tasks.put_off])
def test_a_waker_and_an_agent_lock_tasks_in_one_order(
    world: World, write: Callable[..., None]
) -> None:
    """The agent names the second task first, as their priorities say; the waker has the first."""
    ids = put(world, good(), good())
    with world.engine.begin() as tx:
        rows = tasks.claim(tx, ["registered"], "me", 600, 10)
    held = sorted(((row.jedi_task_id, row.lock_seq) for row in rows), reverse=True)
    assert [one for one, _ in held] == sorted(ids, reverse=True)

    def agent(tx: Connection) -> None:
        for name in ("hashjoin", "mergejoin"):  # many tasks are read one by one
            tx.execute(text(f"SET LOCAL enable_{name} = off"))
        write(tx, held, 60.0)

    with world.engine.connect() as waker:
        assert tasks.fence(waker, held[1:]) == {min(ids)}
        with blocked(world.engine, agent):
            waking.wake_unbrokered(waker)
            waker.commit()


@pytest.mark.parametrize(("put_file", "said"), [(links, LINKS), (work_queues, QUEUES)])
def test_two_files_in_opposite_order(
    world: World, put_file: Callable[[Connection, str], None], said: list[str]
) -> None:
    first, second = said
    with world.engine.connect() as waker:
        put_file(waker, first)
        with blocked(world.engine, lambda tx: put_file(tx, second + first)):
            put_file(waker, second)
            waker.commit()


def test_two_wakers_of_tasks(world: World) -> None:
    """Each has changed something else before; they meet at the tasks."""
    put(world, good(), good())
    with world.engine.begin() as tx:
        tasks.claim(tx, ["registered"], "me", 600, 10)

    def operator(tx: Connection) -> Any:
        return knobs.put(call(tx, "me"), "jobgen.retry_s", 5)

    with world.engine.connect() as waker:
        links(waker, LINKS[0])
        with blocked(world.engine, operator):
            waking.wake_all(waker)
            waker.commit()
