"""EventService: ends of consumers of events and of their job sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.agent.base import Agent
from jedi.core import clock
from jedi.core.errors import JediError, NotFound
from jedi.ddm import leftovers
from jedi.ddm.interface import FileInfo, Staged
from jedi.eventservice import agent_merges
from jedi.eventservice.agent_ends import SetEnds
from jedi.eventservice.agent_jumbo import settle_jumbos
from jedi.jobdispatcher.outcome import judge, logs
from jedi.model.jobs.attempt import JobFile, ReportedJob
from jedi.taskbuffer.ends import clones, job_ends
from jedi.taskbuffer.events import consumer_ends, jumbo_jobs
from jedi.taskbuffer.jobs import capping


class DueSet(NamedTuple):
    """A job set that is due, with those of its consumers whose pilots are through. `copy`: of
    copies of a job, the one that may store its outputs, 0: any; None: none may. `jumbo`: a jumbo
    job by itself, with its own number as that of the job set."""

    jobset_id: int
    jobs: tuple[ReportedJob, ...]
    copy: int | None = None
    jumbo: bool = False


class StoredFiles(NamedTuple):
    """Files of ended consumers: those without a stored log, and the copy of a job whose outputs are
    stored."""

    unstored: frozenset[int]
    copy: int | None = None


class EventService(Agent[DueSet, StoredFiles]):
    """Ends consumers by the table of outcome.py, gives their ranges back, adds consumers, starts
    merge jobs and ends job sets.

    The rows decide what is due, so nothing is lost with a message or a process. Two of these agents
    may take the same job set: the first one ends its consumers, under the lock of the set, and the
    second one finds nothing to do.
    """

    name = "EventService"
    wakes = frozenset({"job:holding"})

    def __init__(self, *args: object, **words: object) -> None:
        super().__init__(*args, **words)  # type: ignore[arg-type]
        self._not_yet: dict[int, float] = {}
        self._to_merge: Mapping[int, int] = {}

    def waiting(self, tx: Connection) -> bool:
        return consumer_ends.ANY_OPEN.value(tx)

    def knobs_changed(self) -> None:
        self._not_yet.clear()

    def claim(self, tx: Connection, limit: int) -> list[DueSet]:
        now = clock.monotonic()
        self._not_yet = {one: until for one, until in self._not_yet.items() if until > now}
        found = consumer_ends.DUE.rows(tx, limit=limit, not_yet=list(self._not_yet))
        jumbos = jumbo_jobs.DUE.rows(tx, limit=limit, not_yet=list(self._not_yet))
        by_job = {**consumer_ends.reported(tx, found), **{one: one for one in jumbos}}
        jobs: dict[int, list[ReportedJob]] = defaultdict(list)
        for job in job_ends.reported_among(tx, list(by_job)):
            jobs[by_job[job.panda_id]].append(job)
        copies = dict(clones.OWNERS.rows(tx, ids=found))
        sets = [DueSet(one, tuple(jobs[one]), copies.get(one)) for one in found]
        return sets + [DueSet(one, tuple(jobs[one]), jumbo=True) for one in jumbos]

    def work(self, item: DueSet) -> StoredFiles:
        """Store the logs, and the outputs of the first good copy of a job, in place of those that a
        copy left before it was ended. A log that can't be stored is no reason to lose what was
        processed."""
        unstored, copy = set(), None
        for job in item.jobs:
            if copy is None and item.copy in (0, job.panda_id) and judge(job).target == "finished":
                room = self._make_room(item.jobset_id, job)
                copy = job.panda_id if room and self._store(job, job.made) else None
            if copy != job.panda_id and not self._store(job, logs(job)):
                unstored.add(job.panda_id)
        return StoredFiles(frozenset(unstored), copy)

    def apply(self, tx: Connection, results: Sequence[tuple[DueSet, StoredFiles]]) -> None:
        looked_at = {job.panda_id: job for item, _ in results for job in item.jobs}
        unstored = {panda_id for _, files in results for panda_id in files.unstored}
        copies = [files.copy for _, files in results if files.copy is not None]
        ends = SetEnds(tx, self.world.knobs, self.name)
        sets = [item.jobset_id for item, _ in results if not item.jumbo]
        jumbos = [item.jobset_id for item, _ in results if item.jumbo]
        if jumbos:
            jumbo_jobs.lock_with_sets(tx, jumbos, sets)
        ends.settle(sets, looked_at, unstored, copies)
        settle_jumbos(tx, self.name, jumbos, looked_at, unstored)
        self._to_merge = ends.to_merge
        capping.keep_back(tx, self.world.knobs, [*ends.served], self.name)

    def tidy(self, results: Sequence[tuple[DueSet, StoredFiles]]) -> None:
        """Start the merges of the sets that have ended: their broker holds no lock."""
        if tasks := self._to_merge:
            self._to_merge = {}
            choices = agent_merges.brokered(self.world.engine, self.world.knobs, tasks)
            with self.world.engine.begin() as tx:
                SetEnds(tx, self.world.knobs, self.name).start_merges(choices)
                agent_merges.record(tx, self.world.knobs, choices)
        for item, _ in results:
            for job in item.jobs:
                try:
                    leftovers.unstage(self.world.ddm, job)
                except (JediError, OSError) as error:  # the sweeping dog comes by
                    self.log.warning("left behind", panda_id=job.panda_id, error=str(error))

    def trouble(self, tx: Connection, item: DueSet, error: Exception) -> None:
        wait_s = float(self.world.knobs.eventservice.retry_s)
        self._not_yet[item.jobset_id] = clock.monotonic() + wait_s
        for job in item.jobs:
            job_ends.hold(tx, job.panda_id, job.lock_seq, str(error), wait_s)

    def _make_room(self, jobset_id: int, job: ReportedJob) -> bool:
        """Remove what failed copies left at the place of a copy's outputs; False: the copy may not
        store them. The job set stays locked: another agent could else store a copy's outputs, made
        alike, and this one, come back late, remove them."""
        with self.world.engine.begin() as tx:
            store = clones.lock_store(tx, jobset_id, job)
            if store is None:
                return False
            for other in store.failed:
                leftovers.remove(self.world.ddm, _unlike(other, store.others))
        return True

    def _store(self, job: ReportedJob, files: Sequence[JobFile]) -> bool:
        """Return True if there are such files and they are stored."""
        try:
            self._publish(job, files)
        except JediError as error:
            self.log.warning("files not stored", panda_id=job.panda_id, error=error.sentence)
            return False
        return bool(files)

    def _publish(self, job: ReportedJob, files: Sequence[JobFile]) -> None:
        staging = self.world.ddm.staging_where(job.site_endpoint, job.panda_id, job.lock_seq)
        staged: list[Staged] = [
            (f"{staging}/{f.lfn}", f.dataset, FileInfo(f.lfn, f.size or 0, f.adler32, f.guid))
            for f in files
        ]
        try:
            self.world.ddm.publish(job.site_endpoint, staged)
        except (NotFound, FileNotFoundError):  # another agent has moved a file meanwhile
            self.world.ddm.publish(job.site_endpoint, staged)


def _unlike(other: ReportedJob, jobs: Sequence[ReportedJob]) -> ReportedJob:
    """Return a copy without the files that `jobs` made alike: these may be theirs, stored by
    another agent, or before one died."""
    alike = {(file.dataset, file.lfn, file.size, file.adler32) for job in jobs for file in job.made}
    files = [
        file
        for file in other.files
        if (file.dataset, file.lfn, file.size, file.adler32) not in alike
    ]
    return other._replace(files=tuple(files))
