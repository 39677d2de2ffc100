"""An agent that lives on after its database was lost: it gives its claims back, and its cycle does
not count as a worker's death."""

# Raw UPDATEs: a lease that ended while there was no database.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from support.task_rows import good, put
from support.transaction import transaction

from jedi.agent.base import World
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.tasks import tasks
from jedi.taskrefiner.agent import TaskRefiner


class Cut(TaskRefiner):
    """A refiner that loses its session as often as `cuts` says: with the write of its results, and
    when it gives its claim back."""

    cuts = 0

    def apply(self, tx: Connection, results: Sequence[Any]) -> None:
        super().apply(tx, results)
        self.cut(tx)

    def give_back(self, tx: Connection, items: Sequence[Any]) -> None:
        self.cut(tx)
        super().give_back(tx, items)

    def cut(self, tx: Connection) -> None:
        if not self.cuts:
            return
        self.cuts -= 1
        pid = tx.scalar(text("SELECT pg_backend_pid()"))
        with self.world.engine.begin() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})


def row(world: World) -> Any:
    with transaction(world) as tx:
        return tx.execute(text("SELECT status, lockedby, worker_deaths FROM jedi_tasks")).one()


@pytest.mark.parametrize("cuts", [1, 2], ids=["at once", "when it is back"])
def test_a_claim_whose_write_was_lost_is_given_back(world: World, cuts: int) -> None:
    """A live agent that lost its write in a failover drops its own leases when it is back, and no
    such end counts as a worker's death. Expected: the next cycle does the work, though the lease
    would last for two minutes."""
    put(world, good())
    agent = Cut(world)
    agent.cuts = cuts
    with pytest.raises(DBAPIError):
        agent.run_once()
    assert (row(world).status, row(world).lockedby is None) == ("registered", cuts == 1)
    assert agent.run_once() == 1
    found = row(world)
    assert (found.status, found.lockedby, found.worker_deaths) == ("defined", None, 0)


def test_a_lease_that_ended_without_a_database_is_no_death(world: World) -> None:
    """Expected: whoever takes the task next, and the dog, count none."""
    put(world, good())
    before = text("UPDATE jedi_tasks SET lease_until = pg_postmaster_start_time() - interval '1 s'")
    for _ in range(2):
        with world.engine.begin() as tx:
            [held] = tasks.claim(tx, ["registered"], "worker", 60.0, 1)
            assert held.worker_deaths == 0
            tx.execute(before)
    with world.engine.begin() as tx:
        assert dogs.CLAIM_KILLERS.rows(tx, max_deaths=1, limit=10) == []
        assert dogs.RELEASE_STALE.run(tx, limit=10) == 1
    assert row(world).worker_deaths == 0
