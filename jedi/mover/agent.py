"""The door of the room: brings inputs to the sites of jobs, and outputs to where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from sqlalchemy import Connection

from jedi.agent.base import Agent, World
from jedi.core import clock, states
from jedi.core.errors import JediError, LockLost
from jedi.ddm import replicas
from jedi.ddm.interface import TransferResult, exists
from jedi.model.datasets.dataset import FileKey
from jedi.mover.plan import NeededFile, Route, TransferPlan, WaitingJob, activity, make_plan
from jedi.taskbuffer.db import locks
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import bad_inputs, capping, transfers
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.jobs.order_files import job_files
from jedi.taskbuffer.jobs.transfers import MovingJob
from jedi.taskbuffer.reports import overview

_UNSUCCESSFUL = states.JOB.final - {"finished"}


@dataclass(frozen=True, slots=True)
class Direction:
    """One of the two things the Mover does: jobs in `status` wait for their files of `types`."""

    status: str
    types: tuple[str, ...]
    activity: str


INWARD = Direction("assigned", states.FILE_TYPES, "Production Input")
OUTWARD = Direction("transferring", states.OUTPUT_TYPES, "Production Output")


@dataclass(frozen=True, slots=True)
class TransferLoad:
    """Jobs of one site whose files are to be moved in one direction."""

    direction: Direction
    site: str
    jobs: Sequence[WaitingJob]

    @property
    def lock(self) -> str:
        """Held while a Mover works on it, so that no other one copies the same files."""
        return f"mover:{self.direction.status}:{self.site}"


class Mover(Agent[TransferLoad, TransferPlan]):
    """assigned → activated, transferring → finished; failed if files can't be moved for long.

    Any step may be repeated: files that are there already are not copied, and a job is moved on
    only if it still waits.
    """

    name = "Mover"
    wakes = frozenset({"job:assigned", "job:transferring"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sure_until = 0.0
        """Nobody else can have taken over before."""

        self._not_before: dict[int, datetime] = {}
        """Jobs whose last try failed, and when the next one is due."""

    def waiting(self, tx: Connection) -> bool:
        return bool(self._busy(tx))

    def claim(self, tx: Connection, limit: int) -> list[TransferLoad]:
        now = clock.now()
        self._not_before = {job: due for job, due in self._not_before.items() if due > now}
        busy = self._busy(tx)
        loads = [
            TransferLoad(direction, site, [_waiting(row, direction.activity) for row in rows])
            for direction in (INWARD, OUTWARD)
            if direction.status in busy
            for site, rows in groupby(self._waiting(tx, direction, limit), attrgetter("site"))
        ]
        self._sure_until = clock.monotonic() + self.lease_s / 3
        ours = self._lock(tx, loads)
        return [load for load in loads if load.lock in ours]

    def knobs_changed(self) -> None:
        self._not_before.clear()

    def keep(self, tx: Connection, loads: Sequence[TransferLoad]) -> None:
        self._lock(tx, loads)

    def work(self, load: TransferLoad) -> TransferPlan:
        if clock.monotonic() > self._sure_until:
            with self.world.engine.begin() as tx:
                if not self._lock(tx, [load]):
                    raise LockLost(f"Another Mover has taken over {load.lock}.")
        needed = (need.file for job in load.jobs for need in job.needs)
        plan = make_plan(load.jobs, *replicas.find(self.world.ddm, needed))
        # without its dataset a file may be at a storage that is away for a while
        known = {name: exists(self.world.ddm, name) for name in {n.file[0] for n in plan.gone}}
        plan.gone = {need for need in plan.gone if known[need.file[0]]}
        for route, files in plan.routes.items():
            for end in self._copy(route, files):
                if not end.done:
                    need = NeededFile((end.dataset, end.lfn), route.target)
                    plan.problems[need] = end.sentence
                    plan.coming |= {need} if end.coming else set()
        return plan

    def apply(self, tx: Connection, results: Sequence[tuple[TransferLoad, TransferPlan]]) -> None:
        waiting = job_ends.lock(tx, [job.panda_id for load, _ in results for job in load.jobs])
        moves, ends, lost = [], [], []
        for load, plan in results:
            for job in load.jobs:
                if waiting.get(job.panda_id) != load.direction.status:
                    continue
                if lacking := plan.lacking(job):
                    late = self._put_off(job, lacking, patient=plan.can_come(job))
                    ends += late
                    if late and load.direction is INWARD:
                        lost += [
                            (job.panda_id, need.file[1], "missing")
                            for need in job.needs
                            if need in plan.gone
                        ]
                elif load.direction is INWARD:
                    reason = "The inputs are at the site."
                    moves.append(JobMove(job.panda_id, "activated", "input_ready", reason))
                else:
                    reason = "The outputs are where they belong."
                    ends.append(JobEnd(job.panda_id, "finished", "job_finished", reason))
        locks.RELEASE_ALL.run(tx, components=[load.lock for load, _ in results], me=self.world.me)
        ready = move_jobs(tx, moves, self.name, [INWARD.status])
        bad_inputs.note(tx, lost)
        ended = job_ends.end_jobs(tx, ends, self.name)
        done = {job.panda_id for job in ended if job.target == "finished"}
        grown = {
            dataset
            for load, _ in results
            for job in load.jobs
            if job.panda_id in done
            for dataset, _ in job.outputs
        }
        datasets.wake_consumers(tx, grown, float(self.world.knobs.contentsfeeder.quiet_s))
        capping.keep_back(tx, self.world.knobs, [job.jedi_task_id for job in ready], self.name)

    def tidy(self, results: Sequence[tuple[TransferLoad, TransferPlan]]) -> None:
        """A job that has ended without success leaves no outputs; its log stays."""
        jobs = [job for load, _ in results for job in load.jobs if job.outputs]
        with self.world.engine.begin() as tx:
            ends = dict(job_ends.STATUSES.rows(tx, ids=[job.panda_id for job in jobs]))
        for job in jobs:
            if ends.get(job.panda_id) in _UNSUCCESSFUL:
                self._remove(job)

    def trouble(self, tx: Connection, load: TransferLoad, error: Exception) -> None:
        for job in load.jobs:
            self._wait(job)
        locks.release(tx, load.lock, self.world.me)

    def _busy(self, tx: Connection) -> set[str]:
        """The Mover's own statuses in which there are jobs."""
        there = {row.status for row in overview.JOBS_BY_SITE.rows(tx)}
        return there & {INWARD.status, OUTWARD.status}

    def _waiting(self, tx: Connection, direction: Direction, limit: int) -> list[MovingJob]:
        return transfers.moving_jobs(tx, direction.status, direction.types, self._not_before, limit)

    def _lock(self, tx: Connection, loads: Sequence[TransferLoad]) -> set[str]:
        return locks.take_all(tx, [load.lock for load in loads], self.world.me, self.lease_s)

    def _copy(self, route: Route, files: Sequence[FileKey]) -> list[TransferResult]:
        """Copy files along a route; a storage that fails keeps no other route waiting."""
        life_s = 0.0 if route.kept else float(self.world.knobs.mover.copy_lifetime_s)
        until = clock.now() + timedelta(seconds=life_s) if life_s else None
        try:
            return self.world.ddm.transfer(files, route.source, route.target, route.activity, until)
        except (JediError, OSError) as error:
            return [TransferResult.failed(*file, error) for file in files]

    def _put_off(self, job: WaitingJob, lacking: str, *, patient: bool) -> list[JobEnd]:
        """Try again later; a job that can't but fail and has waited too long fails."""
        if not patient and job.age_s >= float(self.world.knobs.mover.patience_s):
            return [JobEnd(job.panda_id, "failed", "transfer_failed", lacking, error_source="jedi")]
        self.log.warning("transfer put off", panda_id=job.panda_id, reason=lacking)
        self._wait(job)
        return []

    def _wait(self, job: WaitingJob) -> None:
        wait = timedelta(seconds=float(self.world.knobs.mover.retry_s))
        self._not_before[job.panda_id] = clock.now() + wait

    def _remove(self, job: WaitingJob) -> None:
        try:
            for dataset, lfn in job.outputs:
                self.world.ddm.remove_files(dataset, [lfn])
        except (JediError, OSError) as error:
            self.log.warning("left behind", panda_id=job.panda_id, error=str(error))


def _waiting(row: MovingJob, usual: str) -> WaitingJob:
    files = [file for file in job_files(row.files) if not file.left_out]
    return WaitingJob(
        row.panda_id,
        row.age_s,
        activity(usual, row.processing_type, row.priority),
        tuple(
            NeededFile((file.dataset, file.lfn), file.endpoint or "")
            for file in files
            if file.endpoint or file.type != "trn_log"  # a log that nobody reads
        ),
        tuple((file.dataset, file.lfn) for file in files if file.type == "output"),
        frozenset(row.kept),
    )
