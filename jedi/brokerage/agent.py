"""TaskBroker: assigning -> ready; a task gets its nucleus, where its outputs are collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row

from jedi.agent.base import TaskAgent
from jedi.brokerage import nucleus
from jedi.brokerage.explain import counts, why_nowhere
from jedi.brokerage.generic import Choice
from jedi.brokerage.need import Need
from jedi.brokerage.record import lottery_seed, record
from jedi.core.errors import JediError
from jedi.spec.demand import Demand, Load
from jedi.spec.snapshot import Snapshot
from jedi.taskbuffer import decisions, snapshot, tasks
from jedi.taskbuffer.tasks import Move


@dataclass(frozen=True, eq=False)
class Item:
    """A claimed task, and the world as it was."""

    jedi_task_id: int
    lock_seq: int
    need: Need
    world: Snapshot


class TaskBroker(TaskAgent[Item, Choice]):
    """Chooses a nucleus for each task."""

    name = "TaskBroker"
    wakes = frozenset({"task:assigning"})

    def claim(self, tx: Connection, limit: int) -> list[Item]:
        """Tasks whose outputs have no destination yet."""
        rows = tasks.claim(tx, ["assigning"], self.world.me, self.lease_s, limit)
        world = self._measured(snapshot.load(tx)) if rows else None
        return [Item(row.jeditaskid, row.lock_seq, _need(row), world) for row in rows if world]

    def work(self, item: Item) -> Choice:
        """Choose."""
        seed = lottery_seed(item.jedi_task_id, item.lock_seq)
        return nucleus.choose(item.world, item.need, self.world.knobs, seed)

    def apply(self, tx: Connection, results: Sequence[tuple[Item, Choice]]) -> None:
        """Write nuclei, destinations and decisions."""
        lease = [(item.jedi_task_id, item.lock_seq) for item, _ in results]
        held = tasks.fence(tx, lease, ["assigning"])
        ours = [(item, choice) for item, choice in results if item.jedi_task_id in held]
        if not ours:
            return
        world = ours[0][0].world
        decisions.put_snapshot(tx, world.hash, world.packed)
        decisions.record(
            tx,
            [
                record(item.jedi_task_id, "nucleus", world, item.need, self.world.knobs, choice)
                for item, choice in ours
            ],
        )
        places = [
            (item.jedi_task_id, choice.sites.sites[at], choice.sites.endpoint[at])
            for item, choice in ours
            for at in choice.candidates
        ]
        decisions.assign_nuclei(tx, places)
        tasks.move_tasks(tx, [self._move(item, choice) for item, choice in ours], self.name)

    def trouble(self, tx: Connection, item: Item, error: Exception) -> None:
        """The task waits, with the reason."""
        code = error.code if isinstance(error, JediError) else "assigning_failed"
        reason = f"No nucleus could be chosen: {error}"[:4000]
        wait_s = self.world.knobs["jobgen.retry_s"]
        move = Move(item.jedi_task_id, item.lock_seq, "assigning", code, reason, wait_s=wait_s)
        if tasks.fence(tx, [(item.jedi_task_id, item.lock_seq)], ["assigning"]):
            tasks.move_tasks(tx, [move], self.name)

    def _move(self, item: Item, choice: Choice) -> Move:
        if choice.candidates:
            name = choice.sites.sites[choice.candidates[0]]
            asked = name in item.need.sites
            reason = f"{name} {'was asked for' if asked else 'has the most free space'}."
            return Move(item.jedi_task_id, item.lock_seq, "ready", "nucleus_chosen", reason)
        reason = f"No nucleus can take the task: {why_nowhere(choice.verdict)}."
        facts = {"refused": counts(choice.verdict)}
        wait_s = self.world.knobs["jobgen.retry_s"]
        return Move(
            item.jedi_task_id, item.lock_seq, "assigning", "no_nucleus", reason, facts, wait_s
        )

    def _measured(self, world: Snapshot) -> Snapshot:
        """With the room that data management sees where nobody has noted any."""
        usable = world.usable_gb.copy()
        for row in np.flatnonzero(np.isinf(usable)):
            if endpoint := world.endpoint[row]:
                usable[row] = np.floor(self.world.ddm.space(endpoint).free_gb)
        return replace(world, usable_gb=usable)


def _need(row: Row[Any]) -> Need:
    """What a task asks of its nucleus; the submitter may have named it."""
    asked = (row.nucleus,) if row.nucleus else ()
    return Need(Demand.of(row, None), Load(0.0, 0.0), asked)
