"""JobGenerator: ready, running -> running (ready, scouting -> scouting, where scouts come first);
topreprocess -> preprocessing; ready files become jobs at sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row

from jedi.agent.base import TaskAgent, World
from jedi.brokerage.brokers import broker_of
from jedi.brokerage.record import lottery_seed, record
from jedi.contentsfeeder.feed import PRODUCTION_LABELS
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.jobgenerator.budget import share_out
from jedi.jobgenerator.build import cut_builds, roomier, still_there, to_build, with_libraries
from jedi.jobgenerator.generate import Material, ids_needed, make_jobs
from jedi.jobgenerator.locating import Locate, once, where_of
from jedi.jobgenerator.merge import MergeItem, plan_merges, with_demand
from jedi.jobgenerator.naming import jobs_allowed
from jedi.jobgenerator.outcome import (
    GenerationOutcome,
    Made,
    Merges,
    NoJobs,
    nowhere,
    told,
    too_few,
    without_software,
)
from jedi.jobgenerator.output_datasets import ANY_SITE, output_endpoints, with_datasets
from jedi.jobgenerator.plan import Cut
from jedi.jobgenerator.propose import Proposal, propose
from jedi.spec.chunk import Chunk, Files
from jedi.spec.decision import Decision
from jedi.spec.generation import NewJobs, OutputDataset, TaskOrder
from jedi.spec.request import RecentJobs
from jedi.spec.snapshot import Snapshot
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.inputs import instances
from jedi.taskbuffer.jobs import builds, generation, merging, one_job, orders
from jedi.taskbuffer.jobs.orders import Claimed
from jedi.taskbuffer.scheduling import capping, queues, throttling
from jedi.taskbuffer.scheduling.turns import Stopped
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.taskbuffer.tasks import tasks, tending
from jedi.taskbuffer.tasks.tasks import Move
from jedi.throttler.decide import Pass, Skip, Throttle

Pair = tuple[int, str | None]


@dataclass(frozen=True, eq=False)
class GenerationItem:
    """A claimed task: how many files it may use, the sites it used before, and the world as it
    was; `gate` is what the throttler said of its work queue and resource type, `room` counts down
    the jobs that may still be made for these in this cycle; `made` are those made, by share and
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
        return int(self.claimed.row.jeditaskid)

    @property
    def lock_seq(self) -> int:
        return int(self.claimed.row.lock_seq)

    @property
    def lease(self) -> tuple[int, int]:
        """For tasks.fence."""
        return self.jedi_task_id, self.lock_seq


class JobGenerator(TaskAgent[GenerationItem | MergeItem, GenerationOutcome | Merges]):
    """Throttle, broker, split, name and render without a transaction; then write everything.
    Merge jobs come first: they are not throttled, and run where their files lie."""

    name = "JobGenerator"
    wakes = frozenset({"task:ready", "files:ready"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._merge_later: dict[int, float] = {}
        """Tasks whose merge jobs could not be made, and when (monotonic) the next try is due."""
        self._locks: list[str] = []
        """What this cycle serves alone."""

    def knobs_changed(self) -> None:
        self._merge_later.clear()

    @property
    def batch(self) -> int:
        """Tasks served in one cycle."""
        return int(self.world.knobs.jobgen.batch)

    def claim(self, tx: Connection, limit: int) -> list[GenerationItem | MergeItem]:
        """Tasks with files for jobs, first those with files for merge jobs."""
        merges = self._claim_merges(tx, limit)
        return [*merges, *self._claim(tx, limit - len(merges))]

    def _claim_merges(self, tx: Connection, limit: int) -> list[MergeItem]:
        knobs, now = self.world.knobs, clock.monotonic()
        self._merge_later = {task: due for task, due in self._merge_later.items() if due > now}
        rows = merging.claim(
            tx, self.world.me, self.lease_s, limit, knobs.merge.max_files,
            knobs.merge.max_gb, self._merge_later,
        )  # fmt: skip
        if not rows:
            return []
        snapshot = snapshots.load(tx)
        found = merging.orders(tx, rows, knobs.jobgen.n_files)
        return [MergeItem(one, snapshot) for one in found]

    def _claim(self, tx: Connection, limit: int) -> list[GenerationItem]:
        """Tasks with ready files; they share the files of a cycle."""
        throttle = self._throttle(tx)
        full = [Stopped(*one) for one in throttle.full()]
        found = orders.claim(tx, self.world.me, self.lease_s, limit, full)
        found = self._alone(tx, found, throttle)
        if not found:
            return []
        snapshot = snapshots.load(tx, {one.row.nucleus for one in found if one.row.nucleus})
        used = decisions.used_sites(tx, [one.row.jeditaskid for one in found])
        past = self._past(tx, found)
        shares = share_out([one.ready for one in found], self.world.knobs.jobgen.n_files)
        room: dict[Pair, int] = {}
        made: dict[str, Counter[str]] = {}
        crowds = self._crowds(tx, found)
        return [
            GenerationItem(
                one,
                share,
                used.get(one.row.jeditaskid, ()),
                snapshot,
                throttle.decide(*_pair(one.row)),
                room,
                made,
                crowds,
                past.get(one.row.jeditaskid, RecentJobs()),
            )
            for one, share in zip(found, shares, strict=True)
        ]

    def _throttle(self, tx: Connection) -> Throttle:
        """What may get jobs."""
        knobs = self.world.knobs
        closely = partial(throttling.closely, tx, timed=knobs.throttler.enough_work_s > 0)
        return Throttle.of(queues.all_queues(tx), throttling.loads(tx), knobs, closely)

    def _alone(self, tx: Connection, found: list[Claimed], throttle: Throttle) -> list[Claimed]:
        """Without the tasks that another generator is serving the queue of: that would be twice as
        many jobs as the throttler allows. Where jobs are lacking, all may."""
        shared = {
            pair: f"jobgen {pair}"
            for pair in map(_pair, (one.row for one in found))
            if throttle.throttles(pair[0])
            and isinstance(gate := throttle.decide(*pair), Pass)
            and not gate.lacking
        }
        if not shared:
            return found
        held = locks.take_all(tx, [*shared.values()], self.world.me, self.lease_s)
        self._locks = sorted(held)
        others = {pair for pair, name in shared.items() if name not in held}
        late = [one for one in found if _pair(one.row) in others]
        tasks.put_off(tx, [(one.row.jeditaskid, one.row.lock_seq) for one in late], self.poll_s)
        return [one for one in found if _pair(one.row) not in others]

    def work(self, item: GenerationItem | MergeItem) -> GenerationOutcome | Merges:
        """Make the jobs of one task."""
        return self._merge(item) if isinstance(item, MergeItem) else self._generate(item)

    def _merge(self, item: MergeItem) -> Merges:
        task = with_demand(item.found, self.world.knobs)
        allowed = jobs_allowed(task.outputs, self.world.knobs.jobgen.n_files)
        cuts = plan_merges(item.found, task.demand, item.snapshot, self.world.knobs, allowed)
        locate = self.world.ddm.locate
        return Merges(task, self._make(task, item.snapshot, cuts, locate) if cuts else None)

    def _generate(self, item: GenerationItem) -> GenerationOutcome:
        knobs, task, row = self.world.knobs, item.claimed.order(), item.claimed.row
        pair, gate, owner = _pair(row), item.gate, row.workinggroup or row.username or ""
        if isinstance(gate, Skip):
            wait_s, facts = knobs.jobgen.retry_s, dict(gate.facts)
            return NoJobs(gate.code, gate.reason, task.status, wait_s, facts)
        room = item.room.setdefault(pair, gate.jobs)
        if room <= 0:
            reason = f"Other tasks took the {gate.jobs} jobs that the work queue gets at once."
            return NoJobs("queue_served", reason, task.status, self.poll_s)
        allowed = jobs_allowed(task.outputs, room)
        chunks = self._read(task, item.n_files)
        if not chunks:
            # another generator had them; they may come back at any moment
            return NoJobs("no_ready_files", "No input file is ready.", task.status, self.poll_s)
        if task.label not in PRODUCTION_LABELS and task.columns["kind"] == "normal":
            step, before = knobs.jobgen.jobs_per_step, item.crowds.get(owner, 0)
            task = replace(task, jobs_before=before, jobs_per_step=step)
        made = item.made.setdefault(task.request.gshare, Counter())
        seed, locate = lottery_seed(task.jedi_task_id, task.lock_seq), once(self.world.ddm.locate)
        found = propose(
            task, chunks, item.snapshot, knobs, locate,
            seed=seed, most=allowed, used=item.used, past=item.past, made=made,
        )  # fmt: skip
        task = found.task
        decided = [record(task.jedi_task_id, found.broker, item.snapshot, part.need, knobs,
                          part.choice, item.used) for part in found.parts]  # fmt: skip
        if found.nowhere:
            return nowhere(found, knobs, decided)
        if not found.cuts:
            return too_few(found.short, knobs)
        if task.rules.use_build:
            outcome = self._with_builds(item.claimed, found, decided, locate)
        else:
            outcome = Made(task, self._make(task, found.sites, found.cuts, locate), decided)
        if isinstance(outcome, Made) and outcome.jobs:
            item.room[pair] = room - len(outcome.jobs)
            made.update(outcome.jobs.sites)
            item.crowds[owner] = item.crowds.get(owner, 0) + len(outcome.jobs)
        return outcome

    def _with_builds(
        self, claimed: Claimed, found: Proposal, decided: Sequence[Decision], locate: Locate
    ) -> GenerationOutcome:
        """Jobs where their software is, and builds where it is not."""
        knobs, task, sites = self.world.knobs, found.task, found.sites
        with self.world.engine.begin() as tx:
            known = builds.of_task(tx, claimed, knobs.build.kept_s)
        known = roomier(still_there(known, locate), knobs)
        cuts, lacking = with_libraries(found.cuts, known, sites)
        ordered = None
        if wanted := to_build(known, lacking):
            with self.world.engine.begin() as tx:
                files = builds.ask(tx, known.order, list(wanted), knobs.build.max_attempt)
            build = cut_builds(files, list(wanted.values()))
            ordered = known.order, self._make(known.order, sites, [build], locate)
        if cuts or ordered:
            task = replace(task, inputs=(*task.inputs, known.order.inputs[1]))
            jobs = self._make(task, sites, cuts, locate) if cuts else None
            return Made(task, jobs, decided, ordered)
        return without_software(task, known, lacking, knobs, decided)

    def apply(
        self,
        tx: Connection,
        results: Sequence[tuple[GenerationItem | MergeItem, GenerationOutcome | Merges]],
    ) -> None:
        """Write jobs, decisions and the next status of every task that is still ours."""
        leases = {
            kind: [item.lease for item, _ in results if isinstance(item, kind)]
            for kind in (GenerationItem, MergeItem)
        }
        held = tasks.fence(tx, leases[GenerationItem], orders.STATUSES)
        held |= tasks.fence(tx, leases[MergeItem], merging.STATUSES)
        ours = [(item, outcome) for item, outcome in results if item.jedi_task_id in held]
        if lost := [item.jedi_task_id for item, _ in results if item.jedi_task_id not in held]:
            self.log.warning("lock lost", tasks=lost)
        made = [out for _, out in ours if not isinstance(out, Merges)]
        if decided := [one for out in made for one in out.decisions]:
            snapshot = results[0][0].snapshot
            max_mb = self.world.knobs.decisions.snapshot_max_mb
            decisions.put_snapshot(tx, snapshot.hash, snapshot.packed, max_mb)
            decisions.record(tx, decided)
        new = [(o.task, o.jobs) for _, o in ours if isinstance(o, Made | Merges) and o.jobs]
        new += [out.builds for _, out in ours if isinstance(out, Made) and out.builds]
        if new:
            generation.write_jobs(tx, new, self.name)
            ordinary = [(order, jobs) for order, jobs in new
                        if order.columns["kind"] in ("normal", "scout")]  # fmt: skip
            told = {order.jedi_task_id: list(jobs.panda_ids) for order, jobs in ordinary}
            one_job.hold_as_told(tx, told, self.name)
        wait_s = self.world.knobs.jobgen.retry_s
        moves = [_move(*i.lease, out, wait_s) for i, out in ours if not isinstance(out, Merges)]
        tasks.move_tasks(tx, moves, self.name)
        self._let_rest(tx, {i.lease: out.jobs for i, out in ours if isinstance(out, Made)})
        tasks.put_off(tx, [item.lease for item, out in ours if isinstance(out, Merges)])
        if self._locks:
            locks.release_all(tx, self._locks, self.world.me)
            self._locks = []

    def _let_rest(self, tx: Connection, made: Mapping[tuple[int, int], NewJobs | None]) -> None:
        """Tasks of which jobs of a 5th, 10th, ... attempt were made just now make no more for a
        while. Source: docs/reference/task-states.md#throttled."""
        knobs = self.world.knobs
        unit_s, by_mean = knobs.throttle.unit_s, knobs.throttle.measure == "mean_failures"
        most = {i: max(jobs.attempts) for (i, _), jobs in made.items() if jobs}
        tired = tending.tired(tx, most, knobs.throttle.every, by_mean)
        leases, moves = dict(made.keys()), []
        for task in tired:
            minutes = unit_s * task.n**2 / 60
            reason = f"Inputs needed {task.most} attempts: no jobs are made for {minutes:g} min."
            facts = {"attempts": task.most, "times": task.n}
            lease = (task.jeditaskid, leases[task.jeditaskid])
            moves.append(Move(*lease, "throttled", "many_attempts", reason, facts))
        tasks.move_tasks(tx, moves, self.name)
        tending.note_throttled(tx, {task.jeditaskid: task.n for task in tired})

    def trouble(self, tx: Connection, item: GenerationItem | MergeItem, error: Exception) -> None:
        """The task is held, with the reason; one that merges just says so and is tried again."""
        code = error.code if isinstance(error, JediError) else "generation_failed"
        reason = f"Jobs could not be made: {error}"[:4000]
        wait_s = self.world.knobs.jobgen.retry_s
        held, statuses = NoJobs(code, reason, "pending", wait_s), orders.STATUSES
        if isinstance(item, MergeItem):
            self._merge_later[item.jedi_task_id] = clock.monotonic() + wait_s
            held, statuses = replace(held, target=item.found.order.status), merging.STATUSES
        if tasks.fence(tx, [item.lease], statuses):
            tasks.move_tasks(tx, [_move(*item.lease, held, wait_s)], self.name)

    def _read(self, task: TaskOrder, n_files: int) -> list[Chunk]:
        """Ready files; more than a job may have, so that there is one at least."""
        hard_max = self.world.knobs.jobgen.hard_max_files_per_job
        with self.world.engine.begin() as tx:
            read = partial(orders.read_ready, tx)
            fairly = broker_of(task.vo, task.label, self.world.knobs).by_dataset
            return orders.chunks(read, task, max(n_files, hard_max + 1), hard_max, fairly=fairly)

    def _make(
        self, task: TaskOrder, sites: Snapshot, cuts: Sequence[Cut], locate: Locate
    ) -> NewJobs:
        """The jobs of a plan; their output datasets exist afterwards."""
        n_jobs = sum(map(len, cuts))
        before = np.unique(np.concatenate([cut.chunk.master.previous for cut in cuts]))
        with self.world.engine.begin() as tx:
            seeds = Files.join([])
            if task.seeds:
                seed_id = task.seeds.dataset_id
                seeds = orders.read_ready(tx, {seed_id: n_jobs})[seed_id]
            earlier = orders.earlier_jobs(tx, before.tolist())
            if task.containers:
                used = [sites.sites[i] for i in np.unique(np.concatenate([c.sites for c in cuts]))]
                wanted = used if task.rules.instantiate_tmpl_site else [ANY_SITE]
                task = with_datasets(task, used, instances.at_sites(tx, task, wanted, self.name))
            ids, file_ids, last_unit = orders.take_ids(
                tx, task.jedi_task_id, *ids_needed(task, n_jobs, seeds)
            )
        jobs = make_jobs(
            Material(
                task=task,
                sites=sites,
                cuts=cuts,
                where=[where_of(task, cut, locate) for cut in cuts],
                seeds=seeds,
                earlier=earlier,
                last_unit=last_unit,
                ids=ids,
                file_ids=file_ids,
                memory_factor=self.world.knobs.broker.memory_factor,
            )
        )
        self._register(output_endpoints(jobs))
        return jobs

    def _register(self, outputs: Mapping[OutputDataset, Sequence[str]]) -> None:
        """Data management knows output datasets before the jobs that fill them are there; those
        that a retry fills again are opened."""
        ddm = self.world.ddm
        for dataset, endpoints in outputs.items():
            for endpoint in endpoints:
                ddm.create(dataset.name, endpoint)
            if dataset.container and dataset.status != "running":
                ddm.create(dataset.container, endpoints[0], container=True)
                ddm.add_members(dataset.container, [dataset.name])

    def _crowds(self, tx: Connection, found: Sequence[Claimed]) -> dict[str, int]:
        """The jobs of owners, where these lower the priority of new ones."""
        if not self.world.knobs.jobgen.jobs_per_step:
            return {}
        return capping.crowds(tx, [one.row.jeditaskid for one in found], PRODUCTION_LABELS)

    def _past(self, tx: Connection, found: Sequence[Claimed]) -> dict[int, RecentJobs]:
        """How jobs fared lately, of the tasks whose broker asks."""
        knobs = self.world.knobs
        ids = [
            one.row.jeditaskid
            for one in found
            if broker_of(one.row.vo, one.row.prodsourcelabel, knobs).wants_past
        ]
        return decisions.past_jobs(tx, ids, knobs.analysis.past_s) if ids else {}


def _pair(row: Row[Any]) -> Pair:
    """What is throttled together: a work queue and a resource type, or all types (None) of event
    service, whose tasks make jobs of several (JEDI document, "Job throttling")."""
    return row.workqueue_id or 0, None if row.eventservice else row.resource_type or ""


def _move(jedi_task_id: int, lock_seq: int, outcome: GenerationOutcome, wait_s: float) -> Move:
    """What becomes of a task; one that waits for builds alone is looked at again after `wait_s`."""
    match outcome:
        case Made(_, jobs):
            return Move(jedi_task_id, lock_seq, *told(outcome), wait_s=0.0 if jobs else wait_s)
        case NoJobs(code, reason, target, wait_s, facts):
            return Move(jedi_task_id, lock_seq, target, code, reason, facts, wait_s)
