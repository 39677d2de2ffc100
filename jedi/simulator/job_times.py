"""The times of simulated jobs in columns, and the curve that each part of a job belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.simulator.record import Record
from jedi.spec.arrays import Bools, Ints, Numbers
from jedi.taskbuffer.housekeeping.simulation import JobLife

BOOSTED = ", boosted"
"""Behind the name of a share: its jobs and tasks since the dog `boost` made them urgent."""
CONSUMERS = ("consumer", "fine", "jumbo", "co_jumbo")
"""Kinds of jobs that get ranges of events while they run."""
_NUMBERS = ("panda_id", "jedi_task_id", "cores")
_TIMES = ("creation_time", "start_time", "end_time", "state_change_time")
_AT_ONCE = 10_000
_LIVE = ("activated", "assigned", "sent", "starting", "running")


class JobTimes:
    """Jobs in the order of their PandaIDs, with times in hours after the start; what has not come
    yet comes never (NaN, of ends infinity). A job that merges events waits for its consumers, so it
    counts from its start on."""

    def __init__(self, record: Record) -> None:
        found = _columns(record.jobs, record.scenario.start)
        self.panda_ids, self.tasks = found["panda_id"], found["jedi_task_id"]
        self.kinds, self.cores = found["kind"], found["cores"].astype(np.float64)
        self.end_h = 24 * record.scenario.days
        self.sites, self.status = found["site"], found["status"]
        self.shares, self.queues = found["share"], found["queue"]
        self.begins, ended = found["start_time"], found["end_time"]
        self.made = np.where(self.kinds == "es_merge", self.begins, found["creation_time"])
        live = np.isin(self.status, _LIVE)
        gone = np.where(np.isnan(ended), found["state_change_time"], ended)
        self.ends = np.where(live & np.isnan(ended), np.inf, gone)
        """When the payload ended; of others when they were given up."""
        left = _looked_up(record.left, self.panda_ids, np.inf)
        self.free = np.minimum(np.minimum(self.ends, left), self.end_h)
        """When its slot was free again: of a lost job before anybody noticed that."""
        boosted = _looked_up(record.boosted, self.tasks, 0.0)
        boosted = np.where(found["gshare"] != self.shares, boosted, np.inf)
        self.boosted = np.maximum(boosted, self.made)

    def used(self, which: Bools, edges: Numbers) -> Numbers:
        """Core-hours that these jobs used between each two of the edges."""
        return core_hours(edges, self.begins[which], self.free[which], self.cores[which])

    def share_jobs(self) -> Iterator[ShareJobs]:
        """The jobs of each share until they were boosted, and since then."""
        for share in sorted({*self.shares.tolist()} - {""}):
            ours = self.shares == share
            plain = ShareJobs(
                share, self, ours & (self.made < self.boosted), self.made, self.boosted
            )
            never = np.full_like(self.made, np.inf)
            urgent = ShareJobs(share + BOOSTED, self, ours & (self.boosted < self.ends),
                          self.boosted, never)  # fmt: skip
            yield from (part for part in (plain, urgent) if part.which.any())


@dataclass(frozen=True, slots=True)
class ShareJobs:
    """A share's jobs from `since` until `until`: the source of its curves."""

    name: str
    lives: JobTimes
    which: Bools
    since: Numbers
    until: Numbers

    @property
    def first(self) -> float:
        """When it begins to exist: with its first job."""
        return float(self.since[self.which].min())

    @property
    def last(self) -> float:
        """When its last job has ended; the simulation's end if one has not."""
        ends = np.minimum(self.lives.ends, self.until)[self.which]
        return min(float(ends.max()), self.lives.end_h)

    def used(self, edges: Numbers) -> Numbers:
        """Core-hours between each two of the edges."""
        lives, which = self.lives, self.which
        begins = np.maximum(lives.begins, self.since)[which]
        ends = np.minimum(lives.free, self.until)[which]
        return core_hours(edges, begins, ends, lives.cores[which])

    def waiting(self, hours: Numbers) -> Numbers:
        """The number of jobs that waited for their start at these hours."""
        lives = self.lives
        until = np.where(np.isnan(lives.begins), lives.ends, lives.begins)
        until = np.minimum(until, self.until)
        spans = self.which & (self.since < until)
        begins, ends = np.sort(self.since[spans]), np.sort(until[spans])
        open_ = np.searchsorted(begins, hours, "right") - np.searchsorted(ends, hours, "right")
        return open_.astype(np.float64)

    def waits(self) -> Numbers:
        """The waiting times of the jobs that started meanwhile."""
        lives = self.lives
        here = self.which & (self.since <= lives.begins) & (lives.begins < self.until)
        return np.sort((lives.begins - lives.made)[here])

    def living(self, since: Numbers, until: Numbers) -> Bools:
        """True for each span with a job at some time."""
        begins = np.sort(self.since[self.which])
        ends = np.sort(np.minimum(self.lives.ends, self.until)[self.which])
        alive = np.searchsorted(begins, until, "right") > np.searchsorted(ends, since, "left")
        return np.asarray(alive)

    def points(self, grid: Numbers) -> Numbers:
        """The hours of its curves: from its first moment to its last."""
        within = grid[(self.first < grid) & (grid < self.last)]
        return np.array([self.first, *within, self.last])


def core_hours(edges: Numbers, begins: Numbers, ends: Numbers, cores: Numbers) -> Numbers:
    """Core-hours between each two of the edges, of spans with so many cores. A span that begins
    never (NaN), or not before its end, is none."""
    spans = begins < ends
    since, until = (_until(edges, at[spans], cores[spans]) for at in (begins, ends))
    return np.diff(since - until)


def _until(edges: Numbers, at: Numbers, cores: Numbers) -> Numbers:
    """Core-hours until each of the edges, of what begins then and never ends."""
    order = np.argsort(at, kind="stable")
    at, cores = at[order], cores[order]
    number = np.searchsorted(at, edges, "right")
    sums, products = (np.concatenate([[0.0], np.cumsum(one)]) for one in (cores, cores * at))
    hours: Numbers = edges * sums[number] - products[number]
    return hours


def _columns(rows: Iterable[JobLife], start: datetime) -> dict[str, NDArray[Any]]:
    """Jobs column by column, times in hours. Only `_AT_ONCE` rows are in memory at a time, and a
    word is there once: a million rows take 900 MB."""
    words: dict[str | None, str | None] = {}

    def array(name: str, values: Sequence[Any]) -> NDArray[Any]:
        if name in _NUMBERS:
            return np.array(values, np.int64)
        if name in _TIMES:
            return np.array([hours_after(at, start) for at in values], np.float64)
        return np.array([words.setdefault(word, word) for word in values], object)

    parts = {name: [array(name, ())] for name in JobLife._fields}
    rest = iter(rows)
    while some := list(islice(rest, _AT_ONCE)):
        for name, values in zip(JobLife._fields, zip(*some, strict=True), strict=True):
            parts[name].append(array(name, values))
    return {name: np.concatenate(parts.pop(name)) for name in JobLife._fields}


def _looked_up(values: Mapping[int, float], numbers: Ints, default: float) -> Numbers:
    """The value of each number."""
    return np.array([values.get(number, default) for number in numbers.tolist()], np.float64)


def hours_after(at: datetime | None, start: datetime) -> float:
    """NaN if it has not come."""
    return (at - start) / timedelta(hours=1) if at else float("nan")
