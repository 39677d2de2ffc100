"""Rows of figures of the whole system: hours, sites, tasks that something holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class HourlyJobs:
    """Jobs that reached a status within the hour that begins at `hour`, by status: running
    (started), finished, failed, closed, cancelled."""

    hour: datetime
    jobs: dict[str, int]


@dataclass(frozen=True, slots=True)
class SiteLoad:
    """A site: its slots and their cores, its pilots that have not ended, its live jobs by status,
    and the jobs that reached a status there in the last 24 hours. `trouble`: the reason for no
    pilots, or for fewer."""

    site: str
    status: str
    n_slots: int
    cores: int
    submitter: str
    last_pilot: datetime | None
    comment: str | None
    pilots_running: int
    pilots_submitted: int
    trouble: str | None
    jobs: dict[str, int]
    n_running: int
    n_waiting: int
    cores_running: int
    reached: dict[str, int]


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Live tasks of a work queue (empty: none) in a status for a reason (a code of docs/reasons.md,
    or empty). `hold` is what holds them as far as the tasks alone decide it, a code of docs/why.md;
    empty: their jobs do. `since`: the first of them came to its status."""

    queue_name: str
    status: str
    reason: str
    hold: str
    sentence: str
    tasks: int
    since: datetime | None
