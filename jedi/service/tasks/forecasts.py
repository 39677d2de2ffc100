"""Figures of a task's jobs for people, from groups of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from jedi.core import states
from jedi.taskbuffer.reports.job_groups import JobGroup
from jedi.taskbuffer.reports.listings import TaskSummary

_Figure = TypeVar("_Figure", int, float)
_FORESEEN_KINDS = ("normal", "scout")
"""Kinds of jobs with forecasts. Merging is left out."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A figure as foreseen when jobs were made, beside what finished jobs took (the most of each);
    None: nothing was known."""

    name: str
    foreseen: float | tuple[str, ...] | None
    true: float | tuple[str, ...] | None
    unit: str


def counts(groups: Iterable[JobGroup]) -> dict[str, int]:
    """The number of jobs in each status."""
    found: Counter[str] = Counter()
    for group in groups:
        found[group.status] += group.jobs
    return dict(sorted(found.items()))


def counted(task: TaskSummary, jobs: Mapping[str, int]) -> TaskSummary:
    """A task with the numbers of its live jobs; `jobs`: its jobs by status."""
    waiting = sum(jobs.get(name, 0) for name in states.JOB_QUEUED)
    return replace(task, n_jobs_running=jobs.get("running", 0), n_jobs_waiting=waiting)


def forecasts(groups: Iterable[JobGroup], chosen: Callable[[], Sequence[str]]) -> list[Forecast]:
    """The largest figures that were foreseen of first attempts beside the largest of finished jobs;
    none before a job has finished. A unit has one first attempt. `chosen`: the sites that brokers
    have chosen."""
    jobs = [group for group in groups if group.kind in _FORESEEN_KINDS]
    first = [group for group in jobs if group.is_first]
    finished = [group for group in jobs if group.status == "finished"]
    if not finished:
        return []
    memory_kb = _most(group.used_memory_kb for group in finished)
    disk_kb = _most(group.used_disk_kb for group in finished)
    sites = tuple(sorted({group.site for group in finished}))
    return [
        Forecast("jobs", sum(group.jobs for group in first), sum(group.jobs for group in jobs), ""),
        Forecast(
            "wall time",
            _most(group.walltime_s or None for group in first),
            _most(group.wall_s for group in finished),
            "s",
        ),
        Forecast(
            "memory",
            _most(group.memory_mb or None for group in first),
            None if memory_kb is None else memory_kb // 1024,
            "MB",
        ),
        Forecast(
            "disk",
            _most(group.disk_mb or None for group in first),
            None if disk_kb is None else disk_kb // 1024,
            "MB",
        ),
        Forecast("sites", tuple(chosen()), sites, ""),
    ]


def _most(figures: Iterable[_Figure | None]) -> _Figure | None:
    return max((one for one in figures if one is not None), default=None)
