"""TaskBroker: assigning -> ready; a task gets its nucleus, where its outputs are collected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.agent.base import TaskAgent
from jedi.brokerage.brokers import broker_of, foreign_broker, own_broker
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.explain import counts, why_nowhere
from jedi.brokerage.nucleus import NucleusBroker
from jedi.brokerage.nucleus_requirements import data_of, measured, need_of, with_data
from jedi.brokerage.record import lottery_seed, record
from jedi.brokerage.requirements import Requirements
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.model.sites.decision import Pledge
from jedi.model.sites.request import InputAvailability
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.taskbuffer.sites.decisions import InputFileCount
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move


@dataclass(frozen=True, eq=False)
class BrokerageItem:
    """A claimed task, the snapshot of sites, the task's input and remaining work; `pledges` is the
    work of all nuclei, that of tasks assigned in this cycle included."""

    row: ClaimedTask
    snapshot: Snapshot
    inputs: Sequence[InputFileCount]
    days: float
    pledges: list[Pledge]

    @property
    def jedi_task_id(self) -> int:
        return int(self.row.jedi_task_id)

    @property
    def lock_seq(self) -> int:
        return int(self.row.lock_seq)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A choice, the needs that it was made for, its reason, and the wait if there is none."""

    choice: SiteChoice
    need: Requirements
    why: str
    wait_s: float


class TaskBroker(TaskAgent[BrokerageItem, Chosen]):
    """Chooses a nucleus for each task."""

    name = "TaskBroker"
    serves = ("assigning",)
    wakes = frozenset({"task:assigning"})

    def claim(self, tx: Connection, limit: int) -> list[BrokerageItem]:
        """Tasks whose outputs have no destination yet."""
        rows = tasks.claim(tx, self.serves, self.world.me, self.lease_s, limit)
        if not rows:
            return []
        snapshot = measured(snapshots.load(tx), self.world.ddm.space)
        ids = [
            row.jedi_task_id
            for row in rows
            if (broker := own_broker(*_served(row), self.world.knobs)) is None
            or broker.nucleus.wants_data
        ]
        inputs = decisions.inputs(tx, ids) if ids else {}
        days = dict(decisions.WORK_OF.rows(tx, ids=ids)) if ids else {}
        pledges = decisions.WORK_AT_NUCLEI.rows(tx) if ids else []
        return [
            BrokerageItem(
                row,
                snapshot,
                inputs.get(row.jedi_task_id, ()),
                days.get(row.jedi_task_id, 0.0),
                pledges,
            )
            for row in rows
        ]

    def work(self, item: BrokerageItem) -> Chosen:
        """Choose; later tasks see the work that earlier ones were assigned."""
        broker, row = self._broker(item.row), item.row
        need = need_of(row, self.world.knobs)
        if broker.wants_data:
            waits = clock.now() - (row.state_change_time or clock.now())
            need = with_data(
                need,
                row.workqueue_id or 0,
                self._data(item),
                item.pledges,
                float(int(waits.total_seconds() / 864)) / 100,
            )
        seed = lottery_seed(item.jedi_task_id, item.lock_seq)
        choice = broker.choose(item.snapshot, need, self.world.knobs, seed)
        wait_knob = broker.retry_knob if choice.verdict.lasting else broker.soon_knob
        return Chosen(choice, need, broker.why, float(self.world.knobs[wait_knob]))

    def plug_ins(self, item: BrokerageItem) -> str:
        return foreign_broker(*_served(item.row), self.world.knobs)

    def note(self, item: BrokerageItem, result: Chosen) -> None:
        """Pledge the work of the task to its nucleus."""
        if result.choice.best is not None:
            queue, priority = item.row.workqueue_id or 0, result.need.request.priority
            item.pledges.append(Pledge(result.choice.best, queue, priority, item.days))

    def _broker(self, row: ClaimedTask) -> NucleusBroker:
        return broker_of(*_served(row), self.world.knobs).nucleus

    def _data(self, item: BrokerageItem) -> InputAvailability:
        """The locations of the input, dataset by dataset."""
        names = [(one.dataset_name, one.n_files) for one in item.inputs]
        return data_of(item.snapshot, names, self.world.ddm.replicas, self.world.knobs)

    def apply(self, tx: Connection, results: Sequence[tuple[BrokerageItem, Chosen]]) -> None:
        """Write nuclei, destinations and decisions."""
        lease = [(item.jedi_task_id, item.lock_seq) for item, _ in results]
        fenced = tasks.fence(tx, lease, ["assigning"])
        ours = [(item, chosen) for item, chosen in results if item.jedi_task_id in fenced]
        if not ours:
            return
        snapshot = ours[0][0].snapshot
        max_mb = self.world.knobs.decisions.snapshot_max_mb
        decisions.put_snapshot(tx, snapshot.hash, snapshot.packed, max_mb)
        decisions.record(
            tx,
            [
                record(
                    item.jedi_task_id, "nucleus", snapshot, one.need, self.world.knobs, one.choice
                )
                for item, one in ours
            ],
        )
        places = [
            (item.jedi_task_id, one.choice.sites.sites[at], one.choice.sites.endpoint[at])
            for item, one in ours
            for at in one.choice.candidates
        ]
        decisions.assign_nuclei(tx, places)
        tasks.move_tasks(tx, [self._move(item, chosen) for item, chosen in ours], self.name)

    def trouble(self, tx: Connection, item: BrokerageItem, error: Exception) -> None:
        """The task waits, with the reason."""
        code = error.code if isinstance(error, JediError) else "assigning_failed"
        reason = f"No nucleus could be chosen: {error}"[:4000]
        wait_s = self.world.knobs.jobgen.retry_s
        move = Move(item.jedi_task_id, item.lock_seq, "assigning", code, reason, wait_s=wait_s)
        if tasks.fence(tx, [(item.jedi_task_id, item.lock_seq)], ["assigning"]):
            tasks.move_tasks(tx, [move], self.name)

    def _move(self, item: BrokerageItem, chosen: Chosen) -> Move:
        choice = chosen.choice
        if choice.best is not None:
            why = "was asked for" if choice.best in chosen.need.sites else chosen.why
            reason = f"{choice.best} {why}."
            return Move(item.jedi_task_id, item.lock_seq, "ready", "nucleus_chosen", reason)
        reason = f"No nucleus can take the task: {why_nowhere(choice.verdict)}."
        facts = {"refused": counts(choice.verdict)}
        return Move(
            item.jedi_task_id,
            item.lock_seq,
            "assigning",
            "no_nucleus",
            reason,
            facts,
            chosen.wait_s,
        )


def _served(row: ClaimedTask) -> tuple[str, str]:
    """The vo and the prodSourceLabel of a task."""
    return row.vo or "", row.prod_source_label or ""
