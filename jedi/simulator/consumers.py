"""Ranges of events in the hands of simulated jobs that get them while they run."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from jedi.model.jobs.events import RangeId
from jedi.simulator.random_streams import RandomStreams, around

NEVER = datetime.max.replace(tzinfo=UTC)

RangeOrder = Mapping[str, Any]
"""A range as the service hands it out."""


class HeldRange(NamedTuple):
    """A range in a payload's hands: its id, its events, the end of its processing."""

    id: str
    n_events: int
    ends: datetime


@dataclass(slots=True)
class EventWork:
    """The work of one consumer. Its payload processes ranges one after the other. The pilot reports
    the outputs of finished ranges in zips, as a real one does.

    `order` is the part `events` of the job's order. `since`: when it began, or finished its last
    range. `dies`: when its payload or pilot fails. A stuck payload finishes nothing.
    """

    order: Mapping[str, Any]
    panda_id: int
    event_s: float
    spread: float
    streams: RandomStreams
    since: datetime
    dies: datetime | None = None
    stuck: bool = False
    last: bool = False
    n_batches: int = 0
    n_zips: int = 0
    open: deque[HeldRange] = field(default_factory=deque)
    finished: list[HeldRange] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """It has no ranges, and gets no others."""
        return self.last and not self.open

    def dead(self, now: datetime) -> bool:
        """Its payload or its pilot has failed."""
        return self.dies is not None and self.dies <= now

    def take(self, ranges: Sequence[RangeOrder], last: bool) -> None:
        """The payload processes ranges from the service, from the end of the one before on."""
        self.last = last or not ranges
        self.n_batches += 1
        draws = self.streams.stream("ranges", self.panda_id, self.n_batches)
        at = self.since
        for one in ranges:
            n_events = one["end"] - one["start"] + 1
            took_s = around(draws, n_events * self.event_s, self.spread)
            at = NEVER if self.stuck else at + timedelta(seconds=took_s)
            self.open.append(HeldRange(one["id"], n_events, at))

    def process(self, now: datetime) -> None:
        """Ranges whose time has come are finished."""
        until = min(now, self.dies or now)
        while self.open and self.open[0].ends <= until:
            self.since = self.open[0].ends
            self.finished.append(self.open.popleft())

    def zip(self, now: datetime, *, end: bool = False) -> list[HeldRange]:
        """The ranges of a zip that is due; at the end the rest is."""
        if not self.finished:
            return []
        age = now - self.finished[0].ends
        if not (end or age >= self._patience or len(self.finished) >= self.order["zip_ranges"]):
            return []
        ranges, self.finished = self.finished, []
        self.n_zips += 1
        return ranges

    @property
    def _patience(self) -> timedelta:
        return timedelta(seconds=self.order["zip_s"])

    def wakes(self) -> datetime:
        """When it needs something next: ranges, a zip to be reported, its end."""
        if not self.open:
            return self.since
        first = (self.finished or self.open)[0].ends
        zipped = first + self._patience if first < NEVER else NEVER
        return min(zipped, self.open[-1].ends, self.dies or NEVER)

    def rest(self, pause: timedelta) -> None:
        """Everything comes later: the payload was held."""
        if not self.stuck:
            self.open = deque(one._replace(ends=one.ends + pause) for one in self.open)
        self.dies = self.dies and self.dies + pause
        self.since += pause


@dataclass(slots=True)
class EventBook:
    """Numbers of ranges and events of each kind of task, for the results."""

    ranges: Counter[str] = field(default_factory=Counter)
    redone: Counter[str] = field(default_factory=Counter)
    processed: Counter[tuple[str, str, datetime]] = field(default_factory=Counter)
    """Events by task, site and time of their report."""

    _seen: set[tuple[int, int, int]] = field(default_factory=set)

    def note_given(self, task: str, ranges: Sequence[RangeOrder]) -> None:
        """Ranges are handed out, some of them not for the first time."""
        for one in ranges:
            key = RangeId.parse(one["id"])
            place = (key.jedi_task_id, key.file_id, key.process_id)
            (self.redone if place in self._seen else self.ranges)[task] += 1
            self._seen.add(place)
