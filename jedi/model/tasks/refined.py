"""A task between the rooms: parameters as the refiner reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jedi.model.datasets.dataset import NewDataset, OutputTemplate
from jedi.model.splitting.split_rules import SplitRules


@dataclass(frozen=True, slots=True)
class TaskColumns:
    """Columns of jedi_tasks that refining fills, under their Python names."""

    core_count: int
    architecture: str
    trans_uses: str
    trans_home: str | None
    trans_path: str | None
    gshare: str | None
    resource_type: str
    ram_count: int | None
    ram_unit: str
    base_ram_count: int | None
    cpu_time: int | None
    cpu_time_unit: str
    cpu_efficiency: int
    walltime: int | None
    walltime_unit: str | None
    base_walltime: int | None
    out_disk_count: int | None
    out_disk_unit: str
    work_disk_count: int | None
    work_disk_unit: str
    cloud: str | None
    site: str | None
    nucleus: str | None
    campaign: str | None
    request_type: str | None
    ticket_id: str | None
    ticket_system_type: str | None
    goal: int | None
    term_condition: str | None
    workqueue_id: int | None = None
    merge_ram_count: int | None = None
    merge_core_count: int | None = None
    period: str | None = None
    io_intensity: int | None = None
    io_intensity_unit: str | None = None
    event_service: int | None = None


EXPRESS = "Express"
"""The share that comes before all others: urgent tasks, and almost finished ones."""


@dataclass(frozen=True, slots=True)
class RefinedTask:
    """All rows that define a task. Masters stand first among the datasets, counted from 0."""

    columns: TaskColumns
    rules: SplitRules
    datasets: tuple[NewDataset, ...]
    templates: tuple[OutputTemplate, ...]
    job_params_template: str
    queue_name: str | None = None

    def queued(self, queue_id: int, queue_name: str, processing_type: str | None) -> RefinedTask:
        """In a work queue, which is its share unless the task has another, or is urgent (it ignores
        fairshare then: docs/reference/brokerage.md#express)."""
        share = EXPRESS if processing_type == "urgent" else self.columns.gshare or queue_name
        return replace(self, columns=replace(self.columns, workqueue_id=queue_id, gshare=share))
