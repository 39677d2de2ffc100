"""JobGenerator: ready, running -> running (ready, scouting -> scouting, where scouts come first);
topreprocess -> preprocessing; ready files become jobs at sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.brokerage.record import lottery_seed, record
from jedi.core import clock
from jedi.core.errors import JediError
from jedi.jobgenerator.agent_claiming import Claiming, GenerationItem, owner_of, pair_of
from jedi.jobgenerator.agent_merging import MergeMaking
from jedi.jobgenerator.locating import Locate, once
from jedi.jobgenerator.merge import MergeItem
from jedi.jobgenerator.naming import jobs_allowed
from jedi.jobgenerator.outcome import (
    GenerationOutcome,
    Made,
    Merges,
    NoJobs,
    formed,
    nowhere,
    status_and_reason,
    too_few,
)
from jedi.jobgenerator.propose import (
    JobsSoFar,
    Proposal,
    SeenGrid,
    all_read,
    files_wanted,
    planned_anyway,
    propose,
)
from jedi.model.jobs.generation import NewJobs, TaskOrder
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.jobs import merging, orders
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.taskbuffer.tasks import interventions, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.throttler.decide import Skip


class JobGenerator(Claiming):
    """Throttle, broker, split, name and render without a transaction; then write everything.
    Merge jobs come first: they are not throttled, and run where their files lie, if they can."""

    name = "JobGenerator"
    wakes = frozenset({"task:ready", "files:ready"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._merge_later: dict[int, float] = {}
        """Tasks whose merge jobs could not be made, and when (monotonic) the next try is due."""
        self._making = MergeMaking(world, self.name)

    def waiting(self, tx: Connection) -> bool:
        """Return True if a task wants jobs or merges its outputs. Most tasks do neither."""
        return orders.any_wanting(tx, merging.STATUSES)

    def knobs_changed(self) -> None:
        self._merge_later.clear()

    @property
    def batch(self) -> int:
        """Tasks served in one cycle."""
        return int(self.world.knobs.jobgen.batch)

    def claim(self, tx: Connection, limit: int) -> list[GenerationItem | MergeItem]:
        """Tasks with files for jobs, first for merge jobs."""
        merges = self._claim_merges(tx, limit)
        return [*merges, *self.claim_tasks(tx, limit - len(merges))]

    def _claim_merges(self, tx: Connection, limit: int) -> list[MergeItem]:
        knobs, now = self.world.knobs, clock.monotonic()
        self._merge_later = {task: due for task, due in self._merge_later.items() if due > now}
        rows = merging.claim(
            tx,
            self.world.me,
            self.lease_s,
            limit,
            knobs.merge.max_files,
            knobs.merge.max_gb,
            self._merge_later,
        )
        if not rows:
            return []
        snapshot = snapshots.load(tx, {row.nucleus for row in rows if row.nucleus})
        found = merging.orders(tx, rows, knobs.jobgen.n_files)
        return [MergeItem(one, snapshot) for one in found]

    def work(self, item: GenerationItem | MergeItem) -> GenerationOutcome | Merges:
        """Make the jobs of one task."""
        return self._making.merges(item) if isinstance(item, MergeItem) else self._generate(item)

    def _generate(self, item: GenerationItem) -> GenerationOutcome:
        knobs, task, row = self.world.knobs, item.claimed.order(), item.claimed.row
        pair, gate = pair_of(row), item.gate
        if isinstance(gate, Skip):
            wait_s, facts = knobs.jobgen.retry_s, dict(gate.facts)
            return NoJobs(gate.code, gate.reason, task.status, wait_s, facts)
        room = item.room.setdefault(pair, gate.jobs)
        if room <= 0:
            reason = f"Other tasks took the {gate.jobs} jobs that the work queue gets at once."
            return NoJobs("queue_served", reason, task.status, self.poll_s)
        allowed = jobs_allowed(task.outputs, max(room // task.rules.jobs_per_unit, 1))
        if task.label not in PRODUCTION_LABELS and task.columns["kind"] == "normal":
            step, before = knobs.jobgen.jobs_per_step, item.crowds.get(owner_of(row), 0)
            task = replace(task, jobs_before=before, jobs_per_step=step)
        made = item.made.setdefault(task.request.gshare, Counter())
        locate = once(self.world.ddm.locate)
        found = self._proposed(item, task, allowed, made, locate)
        if found is None:
            # another generator had them; they may come back at any moment
            return NoJobs("no_ready_files", "No input file is ready.", task.status, self.poll_s)
        task = found.task
        decided = [
            record(
                task.jedi_task_id,
                found.broker,
                item.snapshot,
                part.need,
                knobs,
                part.choice,
                part.used,
            )
            for part in found.proposals
        ]
        found = planned_anyway(found, knobs, allowed)
        if found.nowhere:
            return nowhere(found, knobs, decided)
        if not found.cuts:
            return too_few(task, found.short, knobs)
        if task.rules.use_build:
            outcome = self._making.with_builds(item.claimed, found, decided, locate)
        else:
            outcome = Made(task, self._making.make(task, found.sites, found.cuts, locate), decided)
        return formed(outcome, found) if isinstance(outcome, Made) else outcome

    def _proposed(
        self,
        item: GenerationItem,
        task: TaskOrder,
        most: int,
        made: Mapping[str, int],
        locate: Locate,
    ) -> Proposal | None:
        """At most `most` jobs of a task; None: there are no files. If no site takes the files that
        these jobs need, all are read: the broker then sees where the others lie."""
        seed = lottery_seed(task.jedi_task_id, task.lock_seq)
        grid = SeenGrid(item.snapshot, self.world.knobs, locate, seed)
        has = JobsSoFar(item.used, item.past, made)
        for n_files in sorted({files_wanted(task, most, item.n_files), item.n_files}):
            if not (chunks := self._making.read(task, n_files)):
                return None
            found = propose(task, chunks, grid, has, most)
            if found.cuts or all_read(task, chunks):
                break
        return found

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
        known = {id(item.snapshot): item.snapshot for item, out in ours if out.decisions}
        for one in known.values():  # those of merge jobs and of others
            max_mb = self.world.knobs.decisions.snapshot_max_mb
            decisions.put_snapshot(tx, one.hash, one.packed, max_mb)
        if decided := [one for _, out in ours for one in out.decisions]:
            decisions.record(tx, decided)
        new = [(o.task, o.jobs) for _, o in ours if isinstance(o, Made | Merges) and o.jobs]
        new += [out.builds for _, out in ours if isinstance(out, Made) and out.builds]
        if new:
            self._making.write(tx, new)
        wait_s = self.world.knobs.jobgen.retry_s
        moves = [_move(*i.lease, out, wait_s) for i, out in ours if not isinstance(out, Merges)]
        tasks.move_tasks(tx, moves, self.name)
        self._let_rest(tx, {i.lease: out.jobs for i, out in ours if isinstance(out, Made)})
        merges = {item.lease: out.waits for item, out in ours if isinstance(out, Merges)}
        tasks.put_off(tx, [*merges])
        self._merge_later |= {i: clock.monotonic() + wait_s for (i, _), w in merges.items() if w}
        if self._locks:
            locks.RELEASE_ALL.run(tx, components=self._locks, me=self.world.me)
            self._locks = []
        self._keep_back(tx, [order.jedi_task_id for order, _ in new])

    def _let_rest(self, tx: Connection, made: Mapping[tuple[int, int], NewJobs | None]) -> None:
        """Tasks of which jobs of a 5th, 10th, ... attempt were made just now make no more for a
        while. Source: docs/reference/task-states.md#throttled."""
        knobs = self.world.knobs
        unit_s, by_mean = knobs.throttle.unit_s, knobs.throttle.measure == "mean_failures"
        every = knobs.throttle.every
        late = [
            job
            for jobs in made.values()
            if jobs
            for job, attempt in zip(jobs.panda_ids, jobs.attempts, strict=True)
            if attempt >= every
        ]
        tired = interventions.due_for_throttling(tx, late, every, by_mean)
        leases, moves = dict(made.keys()), []
        for task in tired:
            minutes = unit_s * task.n**2 / 60
            reason = (
                f"Inputs needed {task.most} attempts: no jobs are made for {minutes:g} min, "
                "or until the task is resumed."
            )
            facts = {"attempts": task.most, "times": task.n}
            lease = (task.jedi_task_id, leases[task.jedi_task_id])
            moves.append(Move(*lease, "throttled", "many_attempts", reason, facts))
        tasks.move_tasks(tx, moves, self.name)
        interventions.note_throttled(tx, {task.jedi_task_id: task.n for task in tired})

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


def _move(jedi_task_id: int, lock_seq: int, outcome: GenerationOutcome, wait_s: float) -> Move:
    """Return the move of a task; JEDI checks a task that only waits for builds again after `wait_s`
    seconds."""
    match outcome:
        case Made(_, jobs):
            return Move(
                jedi_task_id, lock_seq, *status_and_reason(outcome), wait_s=0.0 if jobs else wait_s
            )
        case NoJobs(code, reason, target, wait_s, facts):
            return Move(jedi_task_id, lock_seq, target, code, reason, facts, wait_s)
