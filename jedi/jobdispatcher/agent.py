"""The Adder: the effects of a job's end on its files, its task's datasets and the job itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Connection

from jedi.agent.base import Agent
from jedi.core import clock
from jedi.core.errors import JediError, LockLost, NotFound
from jedi.ddm import leftovers
from jedi.ddm.interface import DDM, FileInfo, Staged
from jedi.jobdispatcher.outcome import FINISHED, HELD, JobVerdict, judge, logs, not_stored, stored
from jedi.model.jobs.attempt import JobFile, ReportedJob
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import builds, merging, one_job
from jedi.taskbuffer.jobs.jobs import JobMove

_UNSUCCESSFUL = ("failed", "cancelled", "closed")
_REST = 10
"""Times as long as a look at all reported jobs takes pass till the next, if there is work."""


class Adder(Agent[ReportedJob, JobVerdict]):
    """holding → finished, transferring, merging, failed, cancelled or closed.

    Files are published before the job is moved, so that a finished job always has its outputs.
    Publishing can be repeated, hence an Adder that dies in between, or a second one that works on
    the same job, does no harm. The move is fenced by status and lock_seq; if another agent ended
    the job without success meanwhile, its published files are removed again.
    """

    name = "Adder"
    wakes = frozenset({"job:holding"})
    breath_s = 0.1
    _good_until = 0.0
    _low = 0
    _all_at = 0.0
    _published: frozenset[int] = frozenset()
    _stored: frozenset[int] = frozenset()

    def waiting(self, tx: Connection) -> bool:
        return job_ends.ANY_REPORTED.value(tx)

    def claim(self, tx: Connection, limit: int) -> list[ReportedJob]:
        """From where work was found the last time: beside an old snapshot the index keeps all jobs
        before, 1 us each. All are looked at when there is none, and now and then."""
        now = clock.monotonic()
        self._good_until = now + self.lease_s
        found = job_ends.reported(tx, limit, self._low) if now < self._all_at else []
        if not found:
            began = clock.monotonic()
            found = job_ends.reported(tx, limit)
            self._all_at = clock.monotonic() + _REST * (clock.monotonic() - began)
        if found:
            self._low = found[0].panda_id
        return found

    def prepare(self, items: Sequence[ReportedJob]) -> None:
        """Publish all at once: data management then writes to disk once a dataset, not a job."""
        self._published = frozenset()
        if self._stalled():
            return
        good = [job for job in items if judge(job) == FINISHED]
        by_endpoint: dict[str, list[Staged]] = defaultdict(list)
        try:
            for job in good:
                by_endpoint[job.site_endpoint] += self._staged(job, job.made)
            for endpoint, files in by_endpoint.items():
                self.world.ddm.publish(endpoint, files)
        except (JediError, OSError) as error:
            self.log.warning("not published together, trying one by one", error=str(error))
        else:
            self._published = frozenset(job.panda_id for job in good)

    def work(self, job: ReportedJob) -> JobVerdict:
        if job.panda_id in self._published:
            return stored(job)
        if self._stalled():
            raise LockLost("The claim is too old to publish under it.")
        verdict = judge(job)
        if verdict == FINISHED:
            try:
                self._publish(job, job.made)
                return stored(job)
            except JediError as error:
                verdict = not_stored(error)
        if verdict == HELD:
            return verdict
        try:
            self._publish(job, logs(job))
        except JediError as error:
            self.log.warning("log not published", panda_id=job.panda_id, error=error.sentence)
        return verdict

    def apply(self, tx: Connection, results: Sequence[tuple[ReportedJob, JobVerdict]]) -> None:
        moves: dict[str, list[JobMove]] = {"transferring": [], "merging": []}
        ends: list[JobEnd] = []
        for job, v in results:
            if v.target in moves:
                moves[v.target].append(
                    JobMove(job.panda_id, v.target, v.code, v.reason, job.lock_seq)
                )
            elif v != HELD:
                ends.append(
                    JobEnd(job.panda_id, v.target, v.code, v.reason, job.lock_seq, v.source)
                )
        good = [
            (job.panda_id, job.lock_seq, lfn)
            for job, v in results
            if v.source is None and v != HELD
            for lfn in job.left_out
        ]
        found = [
            (job.panda_id, lfn) for job, _ in results if job.missing for lfn in self._found(job)
        ]
        if good or found or len(ends) < len(results):  # `end_jobs` locks its jobs itself
            job_ends.lock(tx, [job.panda_id for job, _ in results])
        one_job.hold_next(
            tx, [(job.panda_id, job.lock_seq) for job, v in results if v == HELD], self.name
        )
        job_ends.leave_out(tx, good)
        job_ends.acquit(tx, found)
        moved = job_ends.end_jobs(tx, ends, self.name, ["holding"])
        builds.WAKE_TASKS.run(tx, ids=[end.panda_id for end in ends])
        moved += job_ends.await_transfer(tx, moves["transferring"], self.name)
        tries = int(self.world.knobs.merge.max_attempt)
        moved += merging.await_merge(tx, moves["merging"], self.name, tries)
        self._stored = frozenset(m.panda_id for m in moved if m.target not in _UNSUCCESSFUL)
        grown = {
            f.dataset for job, v in results if v == FINISHED for f in job.made if f.type == "output"
        }
        datasets.wake_consumers(tx, grown, float(self.world.knobs.contentsfeeder.quiet_s))

    def tidy(self, results: Sequence[tuple[ReportedJob, JobVerdict]]) -> None:
        """Remove staged files, and all leftovers of unsuccessful jobs."""
        rest = [job for job, _ in results if job.panda_id not in self._stored]
        for job, _ in results:
            if job.panda_id in self._stored:
                self._tidy(job, leftovers.unstage)
        if not rest:
            return
        with self.world.engine.begin() as tx:
            now = dict(job_ends.STATUSES.rows(tx, ids=[job.panda_id for job in rest]))
        for job in rest:
            if now.get(job.panda_id) in _UNSUCCESSFUL:
                self._tidy(job, leftovers.remove)

    def trouble(self, tx: Connection, job: ReportedJob, error: Exception) -> None:
        wait_s = float(self.world.knobs.adder.retry_s)
        job_ends.hold(tx, job.panda_id, job.lock_seq, str(error), wait_s)

    def _found(self, job: ReportedJob) -> list[str]:
        """Inputs that the pilot did not find, but we do: the site had a problem, not the file."""
        ddm = self.world.ddm
        return [
            file.lfn
            for file in job.missing
            if Path(
                file.source_name or ddm.where(file.endpoint or "", file.dataset, file.lfn)
            ).is_file()
        ]

    def _stalled(self) -> bool:
        """We stalled: our claims may belong to others by now."""
        return clock.monotonic() > self._good_until

    def _staged(self, job: ReportedJob, files: Sequence[JobFile]) -> list[Staged]:
        staging = self.world.ddm.staging_where(job.site_endpoint, job.panda_id, job.lock_seq)
        return [
            (f"{staging}/{f.lfn}", f.dataset, FileInfo(f.lfn, f.size or 0, f.adler32, f.guid))
            for f in files
        ]

    def _publish(self, job: ReportedJob, files: Sequence[JobFile]) -> None:
        staged = self._staged(job, files)
        try:
            self.world.ddm.publish(job.site_endpoint, staged)
        except (NotFound, FileNotFoundError):  # another Adder has moved a file meanwhile
            self.world.ddm.publish(job.site_endpoint, staged)

    def _tidy(self, job: ReportedJob, remove: Callable[[DDM, ReportedJob], object]) -> None:
        try:
            remove(self.world.ddm, job)
        except (JediError, OSError) as error:  # the sweeping dog comes by
            self.log.warning("left behind", panda_id=job.panda_id, error=str(error))
