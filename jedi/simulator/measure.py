"""What a simulation shows: tables of sites, shares and tasks, and curves over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.core.holds import BY_REASON
from jedi.simulator.record import Record

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SiteUse:
    """Slots, the part of them that was in use (0 to 1), and the ends of jobs."""

    site: str
    slots: int
    utilisation: float
    finished: int
    failed: int
    closed: int


@dataclass(frozen=True, slots=True)
class ShareUse:
    """Cores in use and allocated on the average over the second half, as parts of all that is
    shared (None: it is not); how long jobs waited for their start, in hours."""

    share: str
    usage: float | None
    allocation: float | None
    started: int
    wait_median_h: float | None
    wait_95_h: float | None
    longest_queue: int


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """A task, and its hours from submission to its end (None: it has not ended)."""

    task: str
    share: str
    status: str
    came_h: float
    took_h: float | None


@dataclass(frozen=True, slots=True)
class Curves:
    """By hour after the start: running cores as a part of the slots of all sites and of each;
    waiting jobs of each share; what shares have and are to have, as parts of all (their own
    hours)."""

    hours: list[float]
    utilisation: dict[str, list[float]]
    waiting: dict[str, list[float]]
    share_hours: list[float]
    usage: dict[str, list[float]]
    allocation: dict[str, list[float]]
    waits: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that is told of a simulation."""

    about: str
    days: float
    jobs: dict[str, int]
    ends: dict[str, int]
    tasks: dict[str, int]
    held: dict[str, int]
    """Tasks that could not go on in the end, by the code of the reason (docs/reasons.md)."""

    sites: list[SiteUse]
    shares: list[ShareUse]
    task_ends: list[TaskEnd]
    troubles: dict[str, int]
    wrong: list[str]
    curves: Curves

    @property
    def utilisation(self) -> float:
        """The part of all slots that was in use."""
        slots = sum(site.slots for site in self.sites)
        return sum(site.slots * site.utilisation for site in self.sites) / max(1, slots)


def measure(record: Record) -> Outcome:
    """The outcome of what a simulation left."""
    scenario = record.scenario
    places = scenario.places()
    lives = Lives(record)
    shares = sorted({*lives.shares.tolist(), *(s.share for s in record.samples)} - {""})
    step = scenario.sample_min / 60
    hours = np.arange(0, 24 * scenario.days + 1e-9, step)
    busy = {"all": _at(hours, *lives.running(lives.made >= 0))}
    busy |= {site: _at(hours, *lives.running(lives.sites == site)) for site in places}
    slots = {"all": sum(p.slots for p in places.values())}
    slots |= {site: place.slots for site, place in places.items()}
    share_hours, usage, allocation = _shared(record)
    return Outcome(
        about=scenario.about,
        days=scenario.days,
        jobs=_counted(row.status for row in record.jobs),
        ends=_counted(row.error_code for row in record.jobs if row.error_code),
        tasks=_counted(row.status for row in record.tasks),
        held=_counted(row.reason_code for row in record.tasks if row.reason_code in BY_REASON),
        sites=[_site(lives, site, place.slots) for site, place in places.items()],
        shares=[_share(lives, share, hours, usage, allocation) for share in shares],
        task_ends=[_task_end(row, scenario.start) for row in record.tasks],
        troubles=dict(sorted(record.troubles.items())),
        wrong=record.wrong,
        curves=Curves(
            hours=_rounded(hours),
            utilisation={site: _rounded(busy[site] / max(1, slots[site])) for site in busy},
            waiting={
                share: _rounded(_at(hours, *lives.waiting(lives.shares == share)))
                for share in shares
            },
            share_hours=_rounded(share_hours),
            usage={share: _rounded(values) for share, values in usage.items()},
            allocation={share: _rounded(values) for share, values in allocation.items()},
            waits={share: _rounded(lives.waits(share)) for share in shares},
        ),
    )


class Lives:
    """The lives of jobs as columns, in hours after the start; what has not come yet comes never
    (NaN)."""

    def __init__(self, record: Record) -> None:
        rows, start = record.jobs, record.scenario.start

        def column(of: Callable[[Any], datetime | None]) -> Numbers:
            return np.array([_hours(of(row), start) for row in rows], dtype=np.float64)

        self.end_h = 24 * record.scenario.days
        self.sites = np.array([row.site for row in rows], dtype=object)
        self.shares = np.array([row.gshare for row in rows], dtype=object)
        self.status = np.array([row.status for row in rows], dtype=object)
        self.made = column(lambda row: row.creationtime)
        self.begins = column(lambda row: row.starttime)
        moved = column(lambda row: row.statechangetime)
        ended = column(lambda row: row.endtime)
        live = np.isin(self.status, ("activated", "assigned", "sent", "starting", "running"))
        gone = np.where(np.isnan(ended), moved, ended)
        self.ends = np.where(live & np.isnan(ended), np.inf, gone)
        """When the payload ended; of others when they were given up."""

    def running(self, which: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """From when to when these jobs ran."""
        which = which & ~np.isnan(self.begins)
        return self.begins[which], self.ends[which]

    def waiting(self, which: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """From when to when these jobs waited for their start."""
        until = np.where(np.isnan(self.begins), self.ends, self.begins)
        return self.made[which], until[which]

    def waits(self, share: str) -> Numbers:
        """How long the jobs of a share that started had waited."""
        return np.sort((self.begins - self.made)[(self.shares == share) & ~np.isnan(self.begins)])


def _at(hours: Numbers, begins: Numbers, ends: Numbers) -> Numbers:
    """How many of these spans each hour lies in."""
    begins, ends = np.sort(begins[~np.isnan(begins)]), np.sort(ends[~np.isnan(ends)])
    open_ = np.searchsorted(begins, hours, "right") - np.searchsorted(ends, hours, "right")
    return open_.astype(np.float64)


def _site(lives: Lives, site: str, slots: int) -> SiteUse:
    here = lives.sites == site
    begins, ends = lives.running(here)
    used = float((np.minimum(ends, lives.end_h) - begins).sum())
    counted = Counter(lives.status[here].tolist())
    closed = counted["closed"] + counted["cancelled"]
    utilisation = used / (slots * lives.end_h) if slots else 0.0
    return SiteUse(site, slots, round(utilisation, 4), counted["finished"], counted["failed"],
                   closed)  # fmt: skip


def _share(
    lives: Lives, share: str, hours: Numbers, usage: dict[str, Numbers],
    allocation: dict[str, Numbers],
) -> ShareUse:  # fmt: skip
    waits = lives.waits(share)
    queue = _at(hours, *lives.waiting(lives.shares == share))
    median, late = np.percentile(waits, [50, 95]) if len(waits) else (None, None)
    return ShareUse(share, _later_mean(usage.get(share)), _later_mean(allocation.get(share)),
                    len(waits), _or_none(median), _or_none(late),
                    int(queue.max(initial=0)))  # fmt: skip


def _shared(record: Record) -> tuple[Numbers, dict[str, Numbers], dict[str, Numbers]]:
    """When shares were looked at, and which part each had and was to have."""
    hours = sorted({sample.at_h for sample in record.samples if sample.allocation > 0})
    at = {hour: place for place, hour in enumerate(hours)}
    names = sorted({sample.share for sample in record.samples})
    usage = {name: np.zeros(len(hours)) for name in names}
    allocation = {name: np.zeros(len(hours)) for name in names}
    for sample in (sample for sample in record.samples if sample.at_h in at):
        usage[sample.share][at[sample.at_h]] = sample.usage
        allocation[sample.share][at[sample.at_h]] = sample.allocation
    for parts in (usage, allocation):
        total = np.maximum(1e-9, sum(parts.values(), np.zeros(len(hours))))
        parts |= {name: values / total for name, values in parts.items()}
    return np.array(hours), usage, allocation


def _later_mean(values: Numbers | None) -> float | None:
    if values is None or not len(values):
        return None
    return round(float(values[len(values) // 2 :].mean()), 4)


def _task_end(row: Any, start: datetime) -> TaskEnd:
    came = _hours(row.creationdate, start)
    took = _hours(row.endtime, start) - came if row.endtime else None
    return TaskEnd(row.taskname, row.gshare or "", row.status, round(came, 3), _or_none(took))


def _hours(at: datetime | None, start: datetime) -> float:
    return (at - start) / timedelta(hours=1) if at else float("nan")


def _or_none(value: float | None) -> float | None:
    return None if value is None else round(float(value), 3)


def _rounded(values: Numbers) -> list[float]:
    return [round(float(value), 4) for value in values]


def _counted(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
