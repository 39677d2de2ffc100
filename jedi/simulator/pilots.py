"""Simulated pilots: they take jobs, keep them alive and end them through the same functions of the
service as real ones, many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, count, islice
from typing import Any, TypeVar

from sqlalchemy import Engine

from jedi.core.knobs import Knobs
from jedi.model.jobs.wire import (
    BATCH_MAX,
    AcquireRequest,
    Beat,
    Measures,
    Report,
    Resources,
    StagedOutput,
)
from jedi.service.pilots import pilot_requests
from jedi.simulator.event_pilots import EventPilots
from jedi.simulator.grid import SimulatedJob, SimulatedSite, fate
from jedi.simulator.random_streams import RandomStreams
from jedi.simulator.scenario import ScenarioTask
from jedi.simulator.storage import ADLER32, SimulatedDDM
from jedi.taskbuffer.users.users import Identity

_MEMORY_KB = 1_000_000
_Item = TypeVar("_Item")


class Pilots:
    """The pilots of all sites; `tasks` describes the jobs of each task."""

    def __init__(
        self,
        engine: Engine,
        ddm: SimulatedDDM,
        knobs: Knobs,
        places: Mapping[str, SimulatedSite],
        streams: RandomStreams,
    ) -> None:
        self.engine, self.ddm, self.knobs, self.places = engine, ddm, knobs, places
        self.tasks: dict[int, ScenarioTask] = {}
        self.consumers = EventPilots(engine, self.tasks)
        self._streams = streams
        self._requests = count(1)

    def acquire(self, name: str, n: int, now: datetime) -> int:
        """Up to `n` jobs (at most BATCH_MAX) for a site; how many there were."""
        place = self.places[name]
        number = next(self._requests)
        request = AcquireRequest(
            request_id=str(number),
            pilot_id=f"pilots {number} of {name}",
            site=name,
            n=n,
            resources=Resources(cores=place.site.cores),
        )
        who = _pilot(name)
        # without `Heads`, which would remember for a second of real time
        orders = pilot_requests.acquire(self.engine, self.ddm, self.knobs, who, request)["jobs"]
        for order in orders:
            job = fate(order, place.site, self.tasks[order["jeditaskid"]], now, self._streams)
            if job.is_kind("not_stored"):
                self.ddm.unstorable.add(job.panda_id)
            place.take(job)
        return len(orders)

    def report(self, now: datetime) -> int:
        """Report which jobs have started and which have ended, and the results of consumers; the
        number of messages."""
        total = 0
        for name, place in self.places.items():
            started = place.begin()
            sent, to_kill = self.consumers.step(name, place, now)
            self._kill(name, place, to_kill, now)
            ended = place.end(now)
            total += sent + len(started) + len(ended)
            if {one.panda_id for one in started}.intersection(one.panda_id for one in ended):
                self._report(name, map(_start, started))  # of several reports the furthest counts
                started = []
            self._report(name, chain(map(_start, started), map(partial(_ending, now), ended)))
        return total

    def beat(self, now: datetime) -> None:
        """Say which jobs are alive; the ones to be killed end, the ones to be held rest."""
        for name, place in self.places.items():
            beats = (Beat(**job.attempt) for job in place.jobs.values())
            answers = self._say(name, beats, pilot_requests.heartbeat)
            answered = chain.from_iterable(answer["commands"] for answer in answers)
            commands = {one["pandaid"]: one["command"] for one in answered}
            place.hold({job for job, command in commands.items() if command == "hold"}, now)
            to_kill = [job for job, command in commands.items() if command == "kill"]
            self._kill(name, place, to_kill, now)

    def _kill(
        self, name: str, place: SimulatedSite, panda_ids: Sequence[int], now: datetime
    ) -> None:
        killed = place.drop(panda_ids, now)
        self._report(
            name, [Report(**job.attempt, status="cancelled", error_code="killed") for job in killed]
        )

    def _report(self, name: str, reports: Iterable[Report]) -> None:
        for _ in self._say(name, reports, pilot_requests.report):
            pass

    def _say(
        self, name: str, messages: Iterable[_Item], verb: Callable[[Any, Identity, Any], Any]
    ) -> Iterator[Any]:
        """Send messages and yield the answers. Only the messages of one batch are in memory: all
        jobs of a site may start at once."""
        rest = iter(messages)
        while some := list(islice(rest, BATCH_MAX)):
            with self.engine.begin() as tx:
                answer = verb(tx, _pilot(name), some)
            yield answer


def _pilot(site: str) -> Identity:
    """The identity behind the token of a site's pilots."""
    return Identity("pilot", site, None)


def _start(job: SimulatedJob) -> Report:
    """The pilot's report about the start of a payload."""
    return Report(**job.attempt, status="running", started_at=job.begins)


def _ending(now: datetime, job: SimulatedJob) -> Report:
    """The pilot's report about the end of a payload."""
    ends = job.ends or now
    wall_s = (ends - job.begins).total_seconds()
    lfns = [job.log] if job.log else []
    failed = job.failure if job.is_kind("error") else None
    if not failed:
        lfns += job.outputs
    sizes = job.output_bytes * (len(lfns) - bool(job.log))
    return Report(
        **job.attempt,
        status="failed" if failed else "finished",
        ended_at=ends,
        exit_code=int(failed is not None),
        error_code=failed.code if failed else None,
        error_diag="So it was drawn." if failed else None,
        measures=Measures(
            cpu_s=wall_s,
            wall_s=wall_s,
            max_rss_kb=_MEMORY_KB,
            max_pss_kb=_MEMORY_KB,
            output_bytes=sizes,
        ),
        outputs=[_output(job, lfn, 1_000 if lfn == job.log else job.output_bytes) for lfn in lfns],
    )


def _output(job: SimulatedJob, lfn: str, size: int) -> StagedOutput:
    guid = f"00000000-0000-4000-8000-{job.panda_id:012x}"
    return StagedOutput(lfn=lfn, size=size, adler32=ADLER32, guid=guid)
