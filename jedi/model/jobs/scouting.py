"""Scout jobs between the rooms: measurements, the declared figures, and the judgement. Units stand
in the names; MB and kB of sizes are powers of 1024."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jedi.model.jobs.demand import SIZES
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask


@dataclass(frozen=True, slots=True)
class Scout:
    """A finished scout job as its pilot measured it, on `cores` of `core_power` HS06 each.

    `wall_s`: how long its payload ran; `lasted_s`: from its start to its end, by the calendar.
    `n_files`: its master files; `n_events`: theirs, None if unknown; `local_bytes`: read and
    written on the node.
    """

    wall_s: float
    lasted_s: float
    cpu_s: float
    cores: int
    core_power: float
    n_files: int
    n_events: int | None
    memory_kb: int
    workdir_kb: int
    input_bytes: int
    output_bytes: int
    local_bytes: int

    @property
    def counted_events(self) -> int:
        """Events for estimates: a file of unknown contents counts as one."""
        return max(self.n_events or 0, self.n_files, 1)


MEASURED, PROVEN = "measured", "proven"
Figures = dict[str, dict[str, int]]
"""Values of figures of jobs by their names: measured by finished jobs, and proven to be the least
by jobs that failed for want of it. The larger one counts."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared figures of a task's jobs, before scouts report; under the names of jedi_tasks.
    `success_percent`: files that scouts have to process; `min_cpu_efficiency` in percent;
    `max_output_gb`: the size aimed at of the largest output, if that says how large jobs are."""

    label: str
    cpu_time: int | None
    cpu_time_unit: str
    cpu_efficiency: int
    base_walltime_s: int
    core_count: int
    ram_count: int | None
    ram_unit: str
    base_ram_mb: int
    work_disk_kb: float
    success_percent: float | None = None
    min_cpu_efficiency: int = 0
    max_output_gb: float | None = None
    events_per_job: int | None = None
    least_events: int = 1
    max_walltime_s: float | None = None
    figures: Figures = field(default_factory=dict)

    @classmethod
    def of(cls, task: ClaimedTask) -> Declared:
        """From a row of jedi_tasks; unset figures have the defaults of
        docs/reference/estimates.md#walltime."""
        work = (task.work_disk_count or 0) * SIZES[task.work_disk_unit or "kB"]
        rules = SplitRules.model_validate(task.rules or {})
        rate = rules.scout_success_rate
        return cls(
            label=task.prod_source_label,
            cpu_time=task.cpu_time,
            cpu_time_unit=task.cpu_time_unit or "HS06sPerEvent",
            cpu_efficiency=90 if task.cpu_efficiency is None else task.cpu_efficiency,
            base_walltime_s=600 if task.base_walltime is None else task.base_walltime,
            core_count=1 if task.core_count is None else task.core_count,
            ram_count=task.ram_count,
            ram_unit=task.ram_unit or "MB",
            base_ram_mb=task.base_ram_count or 0,
            work_disk_kb=work / SIZES["kB"],
            success_percent=None if rate is None else 10.0 * rate,
            min_cpu_efficiency=rules.min_cpu_efficiency or 0,
            max_output_gb=rules.output_gb_per_job,
            events_per_job=rules.events_to_cut,
            least_events=rules.least_events,
            max_walltime_s=rules.max_walltime_h and 3600 * rules.max_walltime_h,
            figures=task.figures or {},
        )

    def proven(self, name: str) -> int:
        """The least value of a figure that its failed jobs prove; 0: they prove none."""
        return self.figures.get(name, {}).get(PROVEN, 0)


@dataclass(frozen=True, slots=True)
class Progress:
    """Master files of a task: all, and the scouts' by their ends."""

    n_files: int
    finished: int
    failed: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A scout that a limit on time ended, of the pilot, the site or its batch system, and that
    finished in no attempt: how long it lasted, and its events."""

    lasted_s: float
    n_events: int


@dataclass(frozen=True, slots=True)
class Scouted:
    """A task whose scouts have ended, all or enough of them, with the finished ones, in that order,
    and the bytes of the largest of their outputs, all jobs together. `timed_out`: scouts that had
    too little time."""

    declared: Declared
    progress: Progress
    finished: tuple[Scout, ...]
    largest_output: int = 0
    timed_out: tuple[TimedOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """Columns of jedi_tasks that scouts fill, under their Python names; None: not measured, the
    task's value stays."""

    cpu_time: int | None = None
    cpu_time_unit: str | None = None
    ram_count: int | None = None
    out_disk_count: int | None = None
    out_disk_unit: str | None = None
    work_disk_count: int | None = None
    work_disk_unit: str | None = None
    walltime: int | None = None
    walltime_unit: str | None = None
    io_intensity: int | None = None
    io_intensity_unit: str | None = None
    disk_io: int | None = None
    disk_io_unit: str | None = None
    resource_type: str | None = None
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of a task's scouts: its next status (scouting: scouts are made anew) and the
    reason, and their measurements; how large its other jobs are, if they are to be that large
    (input and outputs, in GB, or events)."""

    target: str
    code: str
    reason: str
    facts: dict[str, Any] = field(default_factory=dict)
    measured: Measured = Measured()
    n_gb_per_job: float | None = None
    n_events_per_job: int | None = None


@dataclass(frozen=True, slots=True)
class Master:
    """A master dataset that was just fed: its usable files, and their events where they are
    known."""

    dataset_id: int
    n_files: int
    n_events: int


@dataclass(frozen=True, slots=True)
class Release:
    """The first files of a dataset, up to so many rows or (not None) so many events."""

    dataset_id: int
    n_files: int
    n_events: int | None


def released(
    masters: Sequence[Master], rules: SplitRules, jobs: int, *, more: bool = False
) -> list[Release]:
    """The input of scouts: that of the first `jobs` jobs, counted over the masters in order.
    Nothing if there are no more jobs than that: then scouts would be all there is, unless
    there is `more` input, or may be."""
    size = rules.of_scouts()
    events = size.events_per_job
    largest = rules.max_files_per_job if rules.respect_split_rule else None
    per_job = events or size.files_per_job or largest or 1
    most_jobs = [-(-(one.n_events if events else one.n_files) // per_job) for one in masters]
    if not jobs > 0 or sum(most_jobs) <= (0 if more else jobs):
        return []
    releases = []
    for master, most in zip(masters, most_jobs, strict=True):
        now = min(most, jobs)
        jobs -= now
        if events:
            releases.append(Release(master.dataset_id, master.n_files, now * events))
        else:
            n_files = min(master.n_files, now * per_job)
            releases.append(Release(master.dataset_id, n_files, None))
    return releases
