"""The times of simulated jobs in columns, and the curve that each part of a job belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.model.arrays import Bools, Ints, Numbers
from jedi.simulator.record import JobLives, Record
from jedi.taskbuffer.housekeeping.simulation import JobLife

BOOSTED = ", boosted"
"""Behind the name of a share: its jobs and tasks since the dog `boost` made them urgent."""
CONSUMERS = ("consumer", "fine", "jumbo", "co_jumbo")
"""Kinds of jobs that get ranges of events while they run."""
_NUMBERS = ("panda_id", "jedi_task_id")
_WORDS = ("kind", "site", "status", "share", "queue", "gshare")
_TIMES = ("creation_time", "start_time", "end_time", "state_change_time")
_AT_ONCE = 10_000
_LIVE = ("activated", "assigned", "sent", "starting", "running")


class Words:
    """A column of words, each kept once: 4 bytes a job."""

    def __init__(self, numbers: NDArray[np.uint32], known: Mapping[str | None, int]) -> None:
        self.numbers, self._known = numbers, known

    def are(self, *words: str) -> Bools:
        """True for each job that has one of these words."""
        return np.isin(self.numbers, [self._known[word] for word in words if word in self._known])

    def counted(self, which: Bools | slice = slice(None)) -> dict[str | None, int]:
        """The number of these jobs that have each word."""
        counts = np.bincount(self.numbers[which], minlength=len(self._known)).tolist()
        return {word: n for word, number in self._known.items() if (n := counts[number])}


class JobTimes:
    """Jobs in the order of their PandaIDs, with times in hours after the start; a future one never
    comes (NaN, of ends infinity). A job that merges events waits for its consumers, so it counts
    from its start on."""

    def __init__(self, record: Record) -> None:
        # a column that is taken from here is kept no longer than it is needed
        columns, known = _columns(record.jobs, record.scenario.start)
        take = columns.pop
        self.panda_ids, self.tasks = take("panda_id"), take("jedi_task_id")
        self.kinds, self.sites, self.status, self.shares, self.queues, gshares = (
            Words(take(name), known) for name in _WORDS
        )
        self.cores, self.end_h = take("cores"), 24 * record.scenario.days
        self.begins = take("start_time")
        self.made = np.where(self.kinds.are("es_merge"), self.begins, take("creation_time"))
        self.ends = take("end_time")
        """When the payload ended; of others when they were given up."""
        live, gone = self.status.are(*_LIVE), take("state_change_time")
        np.copyto(self.ends, np.where(live, np.inf, gone), where=np.isnan(self.ends))
        del live, gone
        left = _looked_up(record.left, self.panda_ids, np.inf)
        self.free = np.minimum(np.minimum(self.ends, left), self.end_h)
        """When its slot was free again: of a lost job before anybody noticed that."""
        boosted = _looked_up(record.boosted, self.tasks, 0.0)
        boosted = np.where(gshares.numbers != self.shares.numbers, boosted, np.inf)
        self.boosted = np.maximum(boosted, self.made)

    def used(self, which: Bools, edges: Numbers) -> Numbers:
        """Core-hours that these jobs used between each two of the edges."""
        return core_hours(edges, self.begins[which], self.free[which], self.cores[which])

    def share_jobs(self) -> Iterator[ShareJobs]:
        """The jobs of each share until they were boosted, and since then."""
        for share in sorted(word for word in self.shares.counted() if word):
            ours = self.shares.are(share)
            plain = ShareJobs(
                share, self, ours & (self.made < self.boosted), self.made, self.boosted
            )
            never = np.full_like(self.made, np.inf)
            urgent = ShareJobs(
                share + BOOSTED, self, ours & (self.boosted < self.ends), self.boosted, never
            )
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
    """Core-hours until each of the edges, of a job that begins then and never ends."""
    first = np.searchsorted(edges, at)  # the edge that is its first; none: one behind them
    sums, products = (
        np.bincount(first, one, len(edges) + 1)[:-1].cumsum() for one in (cores, cores * at)
    )
    hours: Numbers = edges * sums - products
    return hours


def _columns(
    rows: Sequence[JobLife] | JobLives, start: datetime
) -> tuple[dict[str, NDArray[Any]], dict[str | None, int]]:
    """Jobs column by column, times in hours, and the numbers of their words. Only `_AT_ONCE` rows
    are in memory at a time: a million take 900 MB."""
    known: dict[str | None, int] = {}

    def values(name: str, found: Sequence[Any]) -> Sequence[Any]:
        if name in _TIMES:
            return [hours_after(at, start) for at in found]
        if name in _WORDS:
            return [known.setdefault(word, len(known)) for word in found]
        return found

    kinds = {**dict.fromkeys(_NUMBERS, np.int64), **dict.fromkeys(_WORDS, np.uint32)}
    names = [name for name in JobLife._fields if name != "error_code"]
    columns = {name: np.empty(len(rows), kinds.get(name, np.float64)) for name in names}
    rest = iter(rows)
    for first in range(0, len(rows), _AT_ONCE):
        some = dict(zip(JobLife._fields, zip(*islice(rest, _AT_ONCE), strict=True), strict=True))
        for name in names:
            columns[name][first : first + _AT_ONCE] = values(name, some[name])
    return columns, known


def _looked_up(values: Mapping[int, float], numbers: Ints, default: float) -> Numbers:
    """The value of each number."""
    if not values:
        return np.full(len(numbers), default)
    known = np.array(sorted(values), np.int64)
    of_known = np.array([values[number] for number in known.tolist()], np.float64)
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[place] == numbers, of_known[place], default)


def hours_after(at: datetime | None, start: datetime) -> float:
    """NaN if it has not come."""
    return (at - start) / timedelta(hours=1) if at else float("nan")
