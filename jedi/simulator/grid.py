"""Simulated sites, and the jobs in the hands of their pilots. Nothing here knows the database: the
door passes acquired jobs on, and asks for the reports."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np

from jedi.simulator.consumers import EventWork
from jedi.simulator.random_streams import RandomStreams, around
from jedi.simulator.scenario import ScenarioFailure, ScenarioSite, ScenarioTask

JobOrder = Mapping[str, Any]
"""A job as the service hands it out."""


@dataclass(slots=True)
class SimulatedJob:
    """A job in a pilot's hands, with the LFNs of its outputs and of its log: how and when it ends
    (None: it does not end by itself). A consumer has its work on events, which decides when it
    ends.

    Of the order it keeps these fields alone: 100,000 orders take 600 MB.
    """

    panda_id: int
    lock_seq: int
    jedi_task_id: int
    outputs: Sequence[str]
    log: str | None
    failure: ScenarioFailure | None
    begins: datetime
    ends: datetime | None
    output_bytes: int
    rests: datetime | None = None
    """Since when its payload has been held."""
    work: EventWork | None = None

    @property
    def attempt(self) -> dict[str, Any]:
        """The job's attempt in messages of pilots."""
        return {"pandaid": self.panda_id, "lock_seq": self.lock_seq}

    def is_kind(self, kind: str) -> bool:
        """This goes wrong with it."""
        return self.failure is not None and self.failure.kind == kind


@dataclass(slots=True)
class SimulatedSite:
    """A site: its jobs by PandaID, the ones just taken, when jobs end, when consumers need
    something, and when jobs left their slots whose end no pilot reports in time. `kept`: the part
    of a consumer's work until then is reported."""

    site: ScenarioSite
    up: bool = True
    open: bool = True
    jobs: dict[int, SimulatedJob] = field(default_factory=dict)
    taken: list[SimulatedJob] = field(default_factory=list)
    ends: list[tuple[datetime, int]] = field(default_factory=list)
    wakes: list[tuple[datetime, int]] = field(default_factory=list)
    left: dict[int, datetime] = field(default_factory=dict)
    kept: dict[int, datetime] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """Slots without a job."""
        return self.site.slots - len(self.jobs) if self.up and self.open else 0

    def take(self, job: SimulatedJob) -> None:
        """A pilot takes a job; one that it loses at once keeps no slot."""
        if job.is_kind("never_starts"):
            return
        self.jobs[job.panda_id] = job
        self.taken.append(job)
        if job.ends is not None:
            heapq.heappush(self.ends, (job.ends, job.panda_id))

    def begin(self) -> list[SimulatedJob]:
        """Jobs that were taken before now and start."""
        jobs = [job for job in self.taken if job.panda_id in self.jobs]
        self.taken = []
        for job in jobs:
            self.sleep(job)
        return jobs

    def sleep(self, job: SimulatedJob) -> None:
        """A consumer that has not ended needs nothing for a while."""
        if job.work and job.ends is None:
            heapq.heappush(self.wakes, (job.work.wakes(), job.panda_id))

    def woken(self, now: datetime) -> list[tuple[SimulatedJob, EventWork]]:
        """Consumers that need something now."""
        jobs = {}
        while self.wakes and self.wakes[0][0] <= now:
            at, panda_id = heapq.heappop(self.wakes)
            job = self.jobs.get(panda_id)
            if job and job.work and not job.rests and job.ends is None and job.work.wakes() == at:
                jobs[panda_id] = (job, job.work)
        return [*jobs.values()]

    def finish(self, job: SimulatedJob, at: datetime) -> None:
        """A consumer ends, at the latest now."""
        job.ends = at
        heapq.heappush(self.ends, (at, job.panda_id))

    def end(self, now: datetime) -> list[SimulatedJob]:
        """Jobs that have ended, and keep their slots no longer; silent ones are not among them."""
        ended = []
        while self.ends and self.ends[0][0] <= now:
            at, panda_id = heapq.heappop(self.ends)
            job = self.jobs.get(panda_id)
            if job is None or job.rests or job.ends != at:
                continue
            del self.jobs[panda_id]
            if job.is_kind("falls_silent"):
                self.left[panda_id] = at
            else:
                ended.append(job)
        return ended

    def hold(self, panda_ids: Collection[int], now: datetime) -> None:
        """The payloads of these jobs rest, others go on."""
        for panda_id, job in self.jobs.items():
            if panda_id in panda_ids:
                job.rests = job.rests or now
            elif job.rests:
                pause = now - job.rests
                job.rests = None
                if job.ends:
                    self.finish(job, job.ends + pause)
                elif job.work:
                    job.work.rest(pause)
                    self.sleep(job)

    def drop(self, panda_ids: Iterable[int], now: datetime) -> list[SimulatedJob]:
        """Jobs that are to be killed leave their slots."""
        here = [one for one in panda_ids if one in self.jobs]
        self.left |= dict.fromkeys(here, now)
        return [self.jobs.pop(one) for one in here]

    def go_down(self, now: datetime) -> None:
        """All pilots are lost with their jobs."""
        self.up = False
        self.drop(list(self.jobs), now)
        self.taken.clear()
        self.ends.clear()
        self.wakes.clear()

    def next_end(self) -> Sequence[datetime]:
        """When the next job ends or needs events, if one does."""
        return [heap[0][0] for heap in (self.ends, self.wakes) if heap]


def fate(
    order: JobOrder, site: ScenarioSite, task: ScenarioTask, now: datetime, streams: RandomStreams
) -> SimulatedJob:
    """Draw the fate of a job that a pilot takes now. A copy of a job processes its events like an
    ordinary job."""
    own = streams.stream("job", order["pandaid"])
    failure = _failure(own, [*site.failures, *task.failures])
    mean_s = task.merge_s if "pieces" in order else task.run_s
    run_s = around(own, mean_s, task.spread) / site.speed
    fails = failure is not None and failure.kind in ("error", "falls_silent")
    if fails:
        run_s *= own.random()
    endless = failure is not None and failure.kind == "never_ends"
    ends = None if endless else now + timedelta(seconds=run_s)
    job = SimulatedJob(
        panda_id=order["pandaid"],
        lock_seq=order["lock_seq"],
        jedi_task_id=order["jeditaskid"],
        outputs=tuple(output["lfn"] for output in order["outputs"]),
        log=order["log_lfn"] or None,
        failure=failure,
        begins=now,
        ends=ends,
        output_bytes=task.output_mb * 10**6,
    )
    events = order.get("events")
    if events and events["mode"] != "cloning":
        job.ends = None
        job.work = EventWork(
            events,
            order["pandaid"],
            task.event_s / site.speed,
            task.spread,
            streams,
            now,
            dies=ends if fails else None,
            stuck=endless,
        )
    return job


def next_event(places: Iterable[SimulatedSite], others: Iterable[datetime]) -> datetime:
    """When something happens by itself next."""
    return min(chain(others, chain.from_iterable(place.next_end() for place in places)))


def _failure(
    generator: np.random.Generator, failures: Sequence[ScenarioFailure]
) -> ScenarioFailure | None:
    """Draw one of these ways to fail, or none."""
    ball = generator.random()
    for failure in failures:
        ball -= failure.probability
        if ball < 0:
            return failure
    return None
