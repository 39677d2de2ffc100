"""The part of the door that claims tasks with ready files, as far as the throttler lets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from jedi.agent import plugins
from jedi.agent.base import TaskAgent, World
from jedi.brokerage.brokers import foreign_broker, own_broker
from jedi.jobgenerator.budget import share_out
from jedi.jobgenerator.merge import MergeItem
from jedi.jobgenerator.outcome import (
    GenerationOutcome,
    Made,
    Merges,
)
from jedi.model.sites.request import RecentJobs
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.jobs import capping, orders
from jedi.taskbuffer.jobs.orders import Claimed
from jedi.taskbuffer.scheduling import queues, throttling
from jedi.taskbuffer.scheduling.task_order import Stopped
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.taskbuffer.tasks import tasks
from jedi.throttler.decide import Pass, Skip, Throttle

Pair = tuple[int, str | None]


@dataclass(frozen=True, eq=False)
class GenerationItem:
    """A claimed task: how many files it may use, the sites it used before, and the snapshot as it
    was; `gate` is the throttler's answer for its work queue and resource type, `room` counts down
    the jobs that may still be made for these in this cycle; `made` counts the new ones by share and
    site; `crowds` counts the live jobs of owners."""

    claimed: Claimed
    n_files: int
    used: Sequence[str]
    snapshot: Snapshot
    gate: Pass | Skip
    room: dict[Pair, int]
    made: dict[str, Counter[str]]
    crowds: dict[str, int]
    past: RecentJobs

    @property
    def jedi_task_id(self) -> int:
        return int(self.claimed.row.jedi_task_id)

    @property
    def lock_seq(self) -> int:
        return int(self.claimed.row.lock_seq)

    @property
    def lease(self) -> tuple[int, int]:
        """For tasks.fence."""
        return self.jedi_task_id, self.lock_seq


class Claiming(TaskAgent[GenerationItem | MergeItem, GenerationOutcome | Merges]):
    """Claims tasks that get jobs."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._locks: list[str] = []
        """Locks of the queues that this cycle serves alone."""

    def plug_ins(self, item: GenerationItem | MergeItem) -> str:
        if isinstance(item, MergeItem):
            return foreign_broker(*item.served, self.world.knobs)
        row = item.claimed.row
        served = row.vo, row.prod_source_label
        broker = foreign_broker(*served, self.world.knobs)
        return " or ".join(filter(None, [plugins.foreign("generator", *served), broker]))

    def note(self, item: GenerationItem | MergeItem, result: GenerationOutcome | Merges) -> None:
        """Count the jobs for the next tasks of the cycle."""
        if isinstance(item, MergeItem) or not isinstance(result, Made) or not result.jobs:
            return
        row, places = item.claimed.row, result.jobs.places
        pair, owner = pair_of(row), owner_of(row)
        if isinstance(item.gate, Pass):
            item.room[pair] = item.room.get(pair, item.gate.jobs) - len(places)
        item.made.setdefault(result.task.request.gshare, Counter()).update(places)
        item.crowds[owner] = item.crowds.get(owner, 0) + len(places)

    def claim_tasks(self, tx: Connection, limit: int) -> list[GenerationItem]:
        """Tasks with ready files; they share the files of a cycle."""
        throttle = self._throttle(tx)
        full = [Stopped(*one) for one in throttle.full()]
        found = orders.claim(tx, self.world.me, self.lease_s, limit, full)
        found = self._alone(tx, found, throttle)
        if not found:
            return []
        snapshot = snapshots.load(tx, {one.row.nucleus for one in found if one.row.nucleus})
        used = decisions.used_sites(tx, [one.row.jedi_task_id for one in found])
        past = self._past(tx, found)
        shares = share_out([one.ready for one in found], self.world.knobs.jobgen.n_files)
        room: dict[Pair, int] = {}
        made: dict[str, Counter[str]] = {}
        crowds = self._crowds(tx, found)
        return [
            GenerationItem(
                one,
                share,
                used.get(one.row.jedi_task_id, ()),
                snapshot,
                throttle.decide(*pair_of(one.row)),
                room,
                made,
                crowds,
                past.get(one.row.jedi_task_id, RecentJobs()),
            )
            for one, share in zip(found, shares, strict=True)
        ]

    def _keep_back(self, tx: Connection, task_ids: Sequence[int]) -> None:
        """Keep new jobs beyond the caps of their owners from pilots: the end of a cycle."""
        capping.keep_back(tx, self.world.knobs, task_ids, self.name)

    def _throttle(self, tx: Connection) -> Throttle:
        """The throttler with the present load."""
        knobs = self.world.knobs
        urgency = partial(throttling.urgency, tx, timed=knobs.throttler.enough_work_s > 0)
        return Throttle.of(queues.ALL_QUEUES.rows(tx), throttling.LOADS.rows(tx), knobs, urgency)

    def _alone(self, tx: Connection, found: list[Claimed], throttle: Throttle) -> list[Claimed]:
        """Without the tasks that another generator is serving the queue of: that would be twice as
        many jobs as the throttler allows. Where jobs are lacking, all may."""
        shared = {
            pair: f"jobgen {pair}"
            for pair in map(pair_of, (one.row for one in found))
            if throttle.throttles(pair[0])
            and isinstance(gate := throttle.decide(*pair), Pass)
            and not gate.lacking
        }
        if not shared:
            return found
        held = locks.take_all(tx, [*shared.values()], self.world.me, self.lease_s)
        self._locks = sorted(held)
        others = {pair for pair, name in shared.items() if name not in held}
        late = [one for one in found if pair_of(one.row) in others]
        tasks.put_off(tx, [(one.row.jedi_task_id, one.row.lock_seq) for one in late], self.poll_s)
        return [one for one in found if pair_of(one.row) not in others]

    def _crowds(self, tx: Connection, found: Sequence[Claimed]) -> dict[str, int]:
        """The jobs of owners, where these lower the priority of new ones."""
        if not self.world.knobs.jobgen.jobs_per_step:
            return {}
        ids = [one.row.jedi_task_id for one in found]
        return capping.live_jobs_of_owners(tx, ids, PRODUCTION_LABELS)

    def _past(self, tx: Connection, found: Sequence[Claimed]) -> dict[int, RecentJobs]:
        """The recent jobs of the tasks whose broker asks for them."""
        knobs = self.world.knobs
        ids = [
            one.row.jedi_task_id
            for one in found
            if (broker := own_broker(one.row.vo, one.row.prod_source_label, knobs)) is None
            or broker.wants_past
        ]
        return decisions.past_jobs(tx, ids, knobs.analysis.past_s) if ids else {}


def pair_of(row: ClaimedTask) -> Pair:
    """The pair that is throttled together: a work queue and a resource type, or all types (None) of
    event service, whose tasks make jobs of several (JEDI document, "Job throttling")."""
    return row.workqueue_id or 0, None if row.event_service else row.resource_type or ""


def owner_of(row: ClaimedTask) -> str:
    """The group or user whose jobs count together."""
    return row.working_group or row.user_name or ""
