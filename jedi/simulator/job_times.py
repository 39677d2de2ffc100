"""The times of simulated jobs in columns, and the curve that each part of a job belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.simulator.record import Record
from jedi.spec.arrays import Bools, Numbers

BOOSTED = ", boosted"
"""Behind the name of a share: its jobs and tasks since the dog `boost` made them urgent."""
CONSUMERS = ("consumer", "fine", "jumbo", "co_jumbo")
"""Kinds of jobs that get ranges of events while they run."""
_LIVE = ("activated", "assigned", "sent", "starting", "running")


class JobTimes:
    """Jobs in the order of their PandaIDs, with times in hours after the start; what has not come
    yet comes never (NaN, of ends infinity). A job that merges events waits for its consumers, so it
    counts from its start on."""

    def __init__(self, record: Record) -> None:
        rows, start = record.jobs, record.scenario.start

        def column(of: Callable[[Any], datetime | None]) -> Numbers:
            return np.array([hours_after(of(row), start) for row in rows], dtype=np.float64)

        def words(of: Callable[[Any], Any]) -> NDArray[np.object_]:
            return np.array([of(row) for row in rows], dtype=object)

        self.panda_ids = np.array([row.panda_id for row in rows], dtype=np.int64)
        self.tasks = np.array([row.jedi_task_id for row in rows], dtype=np.int64)
        self.kinds = words(lambda row: row.kind)
        self.end_h = 24 * record.scenario.days
        self.sites, self.status = words(lambda row: row.site), words(lambda row: row.status)
        self.shares, self.queues = words(lambda row: row.share), words(lambda row: row.queue)
        self.cores = np.array([row.cores for row in rows], dtype=np.float64)
        self.begins = column(lambda row: row.start_time)
        created = column(lambda row: row.creation_time)
        self.made = np.where(self.kinds == "es_merge", self.begins, created)
        ended, moved = column(lambda row: row.end_time), column(lambda row: row.state_change_time)
        live = np.isin(self.status, _LIVE)
        gone = np.where(np.isnan(ended), moved, ended)
        self.ends = np.where(live & np.isnan(ended), np.inf, gone)
        """When the payload ended; of others when they were given up."""
        left = np.array([record.left.get(row.panda_id, np.inf) for row in rows], dtype=np.float64)
        self.free = np.minimum(np.minimum(self.ends, left), self.end_h)
        """When its slot was free again: of a lost job before anybody noticed that."""
        boosted = [
            record.boosted.get(row.jedi_task_id, 0.0) if row.gshare != row.share else np.inf
            for row in rows
        ]
        self.boosted = np.maximum(np.array(boosted, dtype=np.float64), self.made)

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


def hours_after(at: datetime | None, start: datetime) -> float:
    """NaN if it has not come."""
    return (at - start) / timedelta(hours=1) if at else float("nan")
