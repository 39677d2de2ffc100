"""Results of a simulation: tables of sites, shares and tasks, and curves over time.

There is one utilisation: cores in use / cores of the slots. The curve has its mean between two
points, the table of sites its mean over all the time, and the total the mean of all sites.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from jedi.core.holds import BY_REASON
from jedi.model.arrays import Bools, Numbers
from jedi.simulator.event_use import EventTotals, event_use, events_by_site
from jedi.simulator.job_times import JobTimes, ShareJobs, hours_after
from jedi.simulator.record import Record, Sample
from jedi.simulator.scenario import ScenarioSite


@dataclass(frozen=True, slots=True)
class SiteUse:
    """Slots and their cores, the part of the cores that was in use (0 to 1), and the ends of
    jobs."""

    site: str
    slots: int
    cores: int
    utilisation: float
    finished: int
    failed: int
    closed: int


@dataclass(frozen=True, slots=True)
class ShareUse:
    """Cores in use and allocated on the average over the second half of its time, as parts of all
    that is shared (None: it is not); how long jobs waited for their start, in hours. Boosted jobs
    have a row of their own."""

    share: str
    usage: float | None
    allocation: float | None
    started: int
    wait_median_h: float | None
    wait_95_h: float | None
    longest_queue: int


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """A task, and its hours from submission to its end (None: it has not ended). A boosted one
    counts for the share that it came with."""

    task: str
    share: str
    boosted: bool
    status: str
    came_h: float
    took_h: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Values at hours after the start (None: the share had no job); a mean is that of the time
    since the point before."""

    hours: list[float]
    values: list[float | None]


@dataclass(frozen=True, slots=True)
class Curves:
    """Cores in use as a part of the cores of the slots of all sites and of each (a mean); and by
    share, each from its first job to the end of its last: jobs that wait, its part of the cores in
    use (a mean), its allocation of them while it has work. `waits` are how long the jobs that
    started had waited, sorted. Events a second of each site that processed some, and of all (a
    mean)."""

    utilisation: dict[str, Curve]
    waiting: dict[str, Curve]
    usage: dict[str, Curve]
    allocation: dict[str, Curve]
    waits: dict[str, list[float]]
    events: dict[str, Curve] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """All results of a simulation."""

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
    events: list[EventTotals] = field(default_factory=list)

    @property
    def utilisation(self) -> float:
        """The part of all cores that was in use."""
        cores = sum(site.cores for site in self.sites)
        return sum(site.cores * site.utilisation for site in self.sites) / max(1, cores)


def measure(record: Record) -> SimulationOutcome:
    """The outcome of a simulation's record."""
    scenario = record.scenario
    lives = JobTimes(record)
    end_h = 24 * scenario.days
    grid = np.append(np.arange(0, end_h - 1e-9, scenario.sample_min / 60), end_h)
    parts = {part.name: part for part in lives.share_jobs()}
    shared = lives.shares.are(*_shared(record)) | lives.queues.are(*_shared(record))
    usage = {
        name: _usage(part, grid, shared) for name, part in parts.items() if shared[part.which].any()
    }
    allocation = _allocation(record.samples)
    names = sorted({*parts, *allocation})
    places = scenario.sites_by_name()
    return SimulationOutcome(
        about=scenario.about,
        days=scenario.days,
        jobs=_counted(row.status for row in record.jobs),
        ends=_counted(row.error_code for row in record.jobs if row.error_code),
        tasks=_counted(row.status for row in record.tasks),
        held=_counted(row.reason_code for row in record.tasks if row.reason_code in BY_REASON),
        sites=[_site(lives, site, place) for site, place in places.items()],
        shares=[
            _share(name, parts.get(name), grid, shared, allocation.get(name)) for name in names
        ],
        task_ends=[_task_end(row, record) for row in record.tasks],
        troubles=dict(sorted(record.troubles.items())),
        wrong=record.wrong,
        curves=Curves(
            utilisation=_utilisation(lives, grid, places),
            waiting={name: _waiting(part, grid) for name, part in parts.items()},
            usage=usage,
            allocation=allocation,
            waits={name: _rounded(part.waits()) for name, part in parts.items()},
            events={
                name: _curve(grid[1:], rates)
                for name, rates in events_by_site(record, grid).items()
            },
        ),
        events=event_use(record, lives),
    )


# ------------------------------------------------------------------------------------------ sites


def _utilisation(
    lives: JobTimes, grid: Numbers, places: dict[str, ScenarioSite]
) -> dict[str, Curve]:
    cores = {site: place.slots * place.cores for site, place in places.items()}
    used = {site: lives.used(lives.sites.are(site), grid) for site in places}
    total = sum(used.values(), np.zeros(len(grid) - 1))
    curves = {"all": (total, sum(cores.values()))}
    curves |= {site: (used[site], cores[site]) for site in places}
    return {
        name: _curve(grid[1:], hours / np.diff(grid) / max(1, of))
        for name, (hours, of) in curves.items()
    }


def _site(lives: JobTimes, site: str, place: ScenarioSite) -> SiteUse:
    here = lives.sites.are(site)
    [used] = lives.used(here, np.array([0.0, lives.end_h]))
    counted = Counter(lives.status.counted(here))
    closed = counted["closed"] + counted["cancelled"]
    cores = place.slots * place.cores
    utilisation = float(used) / (cores * lives.end_h) if cores else 0.0
    return SiteUse(
        site,
        place.slots,
        cores,
        round(utilisation, 4),
        counted["finished"],
        counted["failed"],
        closed,
    )


# ----------------------------------------------------------------------------------------- shares


def _shared(record: Record) -> list[str]:
    """The work queues that shares are computed for."""
    return sorted({sample.share for sample in record.samples})


def _usage(part: ShareJobs, grid: Numbers, shared: Bools) -> Curve:
    hours = part.points(grid)
    moment = 1e-9  # spans that only touch a life have none of it
    alive = part.living(hours[:-1] + moment, hours[1:] - moment)
    return _curve(hours[1:], np.where(alive, _part_of_all(part, hours, shared), np.nan))


def _part_of_all(part: ShareJobs, edges: Numbers, shared: Bools) -> Numbers:
    """Its part of all that is shared between each two of the edges."""
    return part.used(edges) / np.maximum(1e-9, part.lives.used(shared, edges))


def _waiting(part: ShareJobs, grid: Numbers) -> Curve:
    hours = part.points(grid)
    return _curve(hours, np.where(part.living(hours, hours), part.waiting(hours), np.nan))


def _allocation(samples: Sequence[Sample]) -> dict[str, Curve]:
    """The allocated part of each share, from its first moment with work to its last."""
    total: defaultdict[float, float] = defaultdict(float)
    for sample in samples:
        total[sample.at_h] += sample.allocation
    curves = {}
    for share in sorted({sample.share for sample in samples}):
        ours = [one for one in samples if one.share == share and total[one.at_h] > 0]
        active = [place for place, one in enumerate(ours) if one.active]
        if active:
            ours = ours[active[0] : active[-1] + 1]
            curves[share] = _curve(
                np.array([one.at_h for one in ours]),
                np.array([one.allocation / total[one.at_h] for one in ours]),
            )
    return curves


def _share(
    name: str, part: ShareJobs | None, grid: Numbers, shared: Bools, allocation: Curve | None
) -> ShareUse:
    mean = _later_mean(allocation)
    if part is None:
        return ShareUse(name, None, mean, 0, None, None, 0)
    waits = part.waits()
    median, late = np.percentile(waits, [50, 95]) if len(waits) else (None, None)
    usage = None
    if shared[part.which].any():
        later = np.array([(part.first + part.last) / 2, part.last])
        usage = round(float(_part_of_all(part, later, shared)[0]), 4)
    queue = part.waiting(part.points(grid))
    return ShareUse(
        name, usage, mean, len(waits), _or_none(median), _or_none(late), int(queue.max(initial=0))
    )


def _later_mean(curve: Curve | None) -> float | None:
    if curve is None:
        return None
    values = np.array(curve.values[len(curve.values) // 2 :], dtype=np.float64)
    return round(float(values.mean()), 4)


# ------------------------------------------------------------------------------------------ tasks


def _task_end(row: Any, record: Record) -> TaskEnd:
    start: datetime = record.scenario.start
    came = hours_after(row.creation_date, start)
    took = hours_after(row.end_time, start) - came if row.end_time else None
    return TaskEnd(
        row.task_name,
        row.share or "",
        row.jedi_task_id in record.boosted,
        row.status,
        round(came, 3),
        _or_none(took),
    )


def _or_none(value: float | None) -> float | None:
    return None if value is None else round(float(value), 3)


def _curve(hours: Numbers, values: Numbers) -> Curve:
    rounded = [None if np.isnan(value) else round(float(value), 4) for value in values]
    return Curve(_rounded(hours), rounded)


def _rounded(values: Numbers) -> list[float]:
    return [round(float(value), 4) for value in values]


def _counted(names: Any) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
