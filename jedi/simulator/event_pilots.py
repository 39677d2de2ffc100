"""Messages of simulated consumers: asks for ranges of events and reports on them, of a site at
once, through the same functions of the service as real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import Engine

from jedi.model.jobs.event_wire import ConsumerReport, RangeAsk, RangeAsks, RangeResult, ReportedZip
from jedi.model.jobs.wire import BATCH_MAX
from jedi.service.pilots import event_ranges
from jedi.simulator.consumers import EventBook, EventWork, HeldRange
from jedi.simulator.grid import SimulatedJob, SimulatedSite
from jedi.simulator.scenario import ScenarioTask
from jedi.simulator.storage import ADLER32
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

_EVENT_BYTES = 100_000
"""Size of the outputs of an event."""


class EventPilots:
    """The consumers of all sites. `book` has the numbers of their ranges."""

    def __init__(self, engine: Engine, tasks: Mapping[int, ScenarioTask]) -> None:
        self.book = EventBook()
        self._engine, self._tasks = engine, tasks
        self._memory = ConsumerMemory()
        self._requests = count(1)

    def step(self, name: str, place: SimulatedSite, now: datetime) -> tuple[int, list[int]]:
        """Let the consumers of a site do all that they can until now: the number of messages, and
        the jobs that must end."""
        sent, to_kill = 0, []
        while woken := place.woken(now):
            zips = {}
            for job, work in woken:
                if ranges := _process(job, work, now):
                    zips[job.panda_id] = Zip(job, work, ranges)
                if work.idle or work.dead(now):
                    place.finish(job, work.dies if work.dead(now) and work.dies else work.since)
            self._report(name, place, zips, now)
            asking = [one for one in woken if one[0].ends is None and not one[1].open]
            sent += len(zips) + len(asking)
            refused = self._ask(name, asking)
            for job, _ in woken:
                if job.panda_id not in refused:
                    place.sleep(job)
            to_kill += refused
        return sent, to_kill

    def _report(
        self, name: str, place: SimulatedSite, zips: Mapping[int, Zip], now: datetime
    ) -> None:
        """Report zips; ranges that the service accepts are kept, whatever happens to the job."""
        endpoint = place.site.storage(name)[0]
        reports = [one.report(endpoint) for one in zips.values()]
        for first in range(0, len(reports), BATCH_MAX):
            some = reports[first : first + BATCH_MAX]
            with self._engine.begin() as tx:
                answer = event_ranges.report(tx, _pilot(name), some, self._memory)
            for one in answer["answers"]:
                zipped = zips[one["panda_id"]]
                refused = {entry["id"] for entry in one["refused"]}
                kept = [each for each in zipped.ranges if each.id not in refused]
                if kept:
                    place.kept[one["panda_id"]] = kept[-1].ends
                    task = self._tasks[zipped.job.jedi_task_id].name
                    self.book.processed[task, name, now] += sum(each.n_events for each in kept)

    def _ask(self, name: str, asking: Sequence[tuple[SimulatedJob, EventWork]]) -> list[int]:
        """Ask for ranges; the jobs that must end instead."""
        refused = []
        for first in range(0, len(asking), BATCH_MAX):
            some = {job.panda_id: (job, work) for job, work in asking[first:][:BATCH_MAX]}
            asks = [
                RangeAsk(**_sender(job), n=work.order["n_ranges"]) for job, work in some.values()
            ]
            request = RangeAsks(request_id=str(next(self._requests)), asks=asks)
            with self._engine.begin() as tx:
                answer = event_ranges.acquire(tx, _pilot(name), request, self._memory)
            for one in answer["answers"]:
                job, work = some[one["panda_id"]]
                if one["status"] != "ok":
                    refused.append(one["panda_id"])
                work.take(one["ranges"], one["last"])
                self.book.note_given(self._tasks[job.jedi_task_id].name, one["ranges"])
        return refused


class Zip(NamedTuple):
    """Outputs of finished ranges of a consumer."""

    job: SimulatedJob
    work: EventWork
    ranges: Sequence[HeldRange]

    def report(self, endpoint: str) -> ConsumerReport:
        """The report of the zip, which lies at an endpoint."""
        jobset_id = self.work.order["jobset_id"] or 0
        numbers = (jobset_id, self.job.panda_id, self.job.lock_seq, self.work.n_zips)
        n_events = sum(one.n_events for one in self.ranges)
        zipped = ReportedZip(
            lfn=f"{'.'.join(map(str, numbers))}.zip",
            endpoint=endpoint,
            fsize=n_events * _EVENT_BYTES,
            adler32=ADLER32,
            n_events=n_events,
            ranges=[RangeResult(id=one.id, status="finished") for one in self.ranges],
        )
        return ConsumerReport(**_sender(self.job), zips=[zipped])


def _process(job: SimulatedJob, work: EventWork, now: datetime) -> Sequence[HeldRange]:
    """Let a payload work until now: the ranges of the zip that is due. If the pilot itself falls
    silent, ranges that no zip has are lost."""
    work.process(now)
    if work.dead(now) and job.is_kind("falls_silent"):
        return []
    return work.zip(now, end=work.idle or work.dead(now))


def _sender(job: SimulatedJob) -> dict[str, Any]:
    return {"panda_id": job.panda_id, "lock_seq": job.lock_seq}


def _pilot(site: str) -> Identity:
    return Identity("pilot", site, None)
