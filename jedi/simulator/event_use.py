"""Results of a simulation about jobs that get ranges of events while they run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jedi.model.arrays import Bools, Numbers
from jedi.simulator.job_times import CONSUMERS, JobTimes
from jedi.simulator.record import Record


@dataclass(frozen=True, slots=True)
class EventTotals:
    """Events of tasks of one name: processed by consumers, and merged; events a second, from the
    start of the first consumer to the last report; ranges that were handed out, and how often one
    was handed out again; the part of the consumers' core-hours (0 to 1) that was lost with them."""

    task: str
    events: int
    merged: int
    per_s: float | None
    ranges: int
    redone: int
    waste: float | None


def event_use(record: Record, lives: JobTimes) -> list[EventTotals]:
    """The events of each kind of task that has some."""
    return [_use(task, record, lives) for task in sorted(record.ranges)]


def events_by_site(record: Record, grid: Numbers) -> dict[str, Numbers]:
    """Events a second, between each two hours, of each site that processed some, and of all."""
    names = sorted({one.site for one in record.processed})
    rates = {name: _rates(record, grid, name) for name in names}
    return {"all": sum(rates.values(), np.zeros(len(grid) - 1)), **rates} if rates else {}


def _rates(record: Record, grid: Numbers, site: str) -> Numbers:
    ours = [one for one in record.processed if one.site == site]
    counts, _ = np.histogram(
        [one.at_h for one in ours], bins=grid, weights=[one.n_events for one in ours]
    )
    rates: Numbers = counts / (3600 * np.diff(grid))
    return rates


def _use(task: str, record: Record, lives: JobTimes) -> EventTotals:
    ids = [one.jedi_task_id for one in record.tasks if one.task_name.rpartition(".")[0] == task]
    ours = [one for one in record.processed if one.task == task]
    events = sum(one.n_events for one in ours)
    which = np.isin(lives.tasks, ids) & lives.kinds.are(*CONSUMERS) & ~np.isnan(lives.begins)
    per_s = None
    if ours:
        took_h = max(one.at_h for one in ours) - float(lives.begins[which].min())
        per_s = round(events / (3600 * took_h), 4) if took_h > 0 else None
    return EventTotals(
        task,
        events,
        sum(record.merged.get(one, 0) for one in ids),
        per_s,
        record.ranges[task],
        record.redone[task],
        _waste(record, lives, which),
    )


def _waste(record: Record, lives: JobTimes, which: Bools) -> float | None:
    """The part of the core-hours of these consumers after their last report that counted."""
    used = float(lives.used(which, np.array([0.0, lives.end_h])).sum())
    if not used:
        return None
    gone = which & (lives.free < lives.end_h)
    kept = np.array([record.kept.get(one, np.nan) for one in lives.panda_ids[gone].tolist()])
    since = np.where(np.isnan(kept), lives.begins[gone], kept)
    lost = np.maximum(0.0, lives.free[gone] - since) * lives.cores[gone]
    return round(float(lost.sum()) / used, 4)
