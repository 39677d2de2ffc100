"""Demand of a task's jobs on a machine, and its formulas.

Brokers ask for one job at every site, the generator for every job at its site: the formulas take
columns, of sites or of jobs. Source: docs/reference/estimates.md. MB and GB are
powers of 1024.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jedi.model.arrays import Numbers
from jedi.model.tasks.rows import ClaimedTask

MB = 2.0**20
GB = 2.0**30
SIZES = {"B": 1.0, "kB": 2.0**10, "MB": MB, "GB": GB}


@dataclass(frozen=True, slots=True)
class InputSize:
    """The input of a job: bytes of all files, events of its master files."""

    bytes: Numbers | float
    events: Numbers | float


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a task for its jobs. None: unknown; 0 cores: any number will do."""

    cores: int
    ram_mb: float
    ram_per_core: bool
    base_ram_mb: float
    hs06_s_per_event: float | None
    efficiency: float
    base_walltime_s: float
    max_walltime_s: float | None
    out_bytes: float
    out_per_event: bool
    work_mb: float
    s_per_mb: float | None = None  # decisions kept from before it counted do not say it

    @classmethod
    def of(cls, task: ClaimedTask, max_walltime_h: float | None) -> Demand:
        """From a row of jedi_tasks."""
        milli = (task.cpu_time_unit or "").startswith("m")
        out_unit = task.out_disk_unit or "kB"
        work = (task.work_disk_count or 0) * SIZES[task.work_disk_unit or "kB"] / MB
        return cls(
            cores=1 if task.core_count is None else task.core_count,
            ram_mb=float(task.ram_count or 0),
            ram_per_core=(task.ram_unit or "").startswith("MBPerCore"),
            base_ram_mb=float(task.base_ram_count or 0),
            hs06_s_per_event=task.cpu_time / (1000 if milli else 1) if task.cpu_time else None,
            efficiency=(90 if task.cpu_efficiency is None else task.cpu_efficiency) / 100,
            base_walltime_s=float(600 if task.base_walltime is None else task.base_walltime),
            max_walltime_s=max_walltime_h and max_walltime_h * 3600,
            out_bytes=(task.out_disk_count or 0) * SIZES[out_unit.removesuffix("PerEvent")],
            out_per_event=out_unit.endswith("PerEvent"),
            work_mb=work,
            s_per_mb=task.walltime or None,
        )

    def roomier(self, mb: float) -> Demand:
        """With so much more room for work, where the task states its needs."""
        return replace(self, work_mb=self.work_mb + mb) if self.work_mb else self

    def shared(self, jobs: int) -> Demand:
        """For each of so many jobs that share the events: they take that part of the time.
        Source: docs/reference/event-service.md#time-of-consumers."""
        if jobs == 1:
            return self
        event, mb = self.hs06_s_per_event, self.s_per_mb
        return replace(self, hs06_s_per_event=event and event / jobs, s_per_mb=mb and mb / jobs)

    @property
    def timed(self) -> bool:
        """Return True if the duration of jobs is known."""
        return self.hs06_s_per_event is not None or self.s_per_mb is not None

    def cores_at(self, site_cores: Numbers) -> Numbers:
        """Cores of a job where slots have `site_cores`; single-core tasks stay so."""
        return np.ones_like(site_cores) if self.cores == 1 else site_cores

    def memory_mb(self, cores: Numbers, factor: float) -> Numbers:
        """Memory of a job with `cores`; 0 if the task says nothing. `factor` is the part of it
        that is insisted on."""
        ram = self.ram_mb * cores + self.base_ram_mb if self.ram_per_core else self.ram_mb
        return factor * ram * np.ones_like(cores) * bool(self.ram_mb)

    def output_bytes(self, load: InputSize) -> Numbers | float:
        """Expected size of the outputs, which scales with events or with megabytes of input."""
        return self.out_bytes * (load.events if self.out_per_event else load.bytes / MB)

    def disk_mb(
        self, load: InputSize, min_output_mb: float = 0.0, copied: bool = True
    ) -> Numbers | float:
        """Scratch space: outputs (never counted as less than `min_output_mb`), work directory and,
        unless they are read over the network, inputs."""
        outputs = np.maximum(self.output_bytes(load) / MB, min_output_mb)
        return outputs + self.work_mb + (load.bytes / MB if copied else 0.0)

    def walltime_s(self, load: InputSize, cores: Numbers, core_power: Numbers) -> Numbers | None:
        """Expected duration on `cores` of `core_power` HS06 each; None if unknown. An efficiency of
        0 means that time does not depend on events. Where the time of an event is unknown, the
        processor seconds for a megabyte of input count, which are the same everywhere."""
        if not self.timed:
            return None
        if self.hs06_s_per_event is None:
            return (self.s_per_mb or 0.0) * load.bytes / MB / cores + self.base_walltime_s
        work = self.hs06_s_per_event * load.events if self.efficiency else 0.0
        return work / (cores * core_power * (self.efficiency or 1.0)) + self.base_walltime_s

    def budget(self, seconds: Any, cores: Any, core_power: Any) -> Any:
        """Work in HS06 s that slots can do in so many seconds."""
        return (seconds - self.base_walltime_s) * cores * core_power * (self.efficiency or 1.0)

    def events_within(self, seconds: float, cores: float, core_power: float) -> float:
        """The number of events that fit into a wall time; infinite where time does not depend on
        them."""
        if self.hs06_s_per_event is None or not self.efficiency:
            return np.inf
        return float(self.budget(seconds, cores, core_power) / self.hs06_s_per_event)

    def bytes_within(self, seconds: float, cores: float) -> float:
        """The bytes of input that fit into a wall time; infinite where time does not depend on
        it."""
        if self.s_per_mb is None or self.hs06_s_per_event is not None:
            return np.inf
        return (seconds - self.base_walltime_s) * cores / self.s_per_mb * MB
