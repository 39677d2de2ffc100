"""Rows of tasks and of their datasets that pure files of several rooms read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple


class ClaimedTask(NamedTuple):
    """A claimed row of jedi_tasks: the columns that agents read, unset figures None. Their meaning
    is in docs/columns.md."""

    jedi_task_id: int
    req_id: int
    parent_tid: int | None
    lock_seq: int
    worker_deaths: int
    status: str
    old_status: str | None
    state_change_time: datetime
    attempt_nr: int
    vo: str
    prod_source_label: str
    processing_type: str
    user_name: str
    task_name: str
    working_group: str | None
    current_priority: int
    event_service: int | None
    use_jumbo: str | None
    workqueue_id: int | None
    gshare: str | None
    resource_type: str | None
    cloud: str | None
    nucleus: str | None
    site: str | None
    trans_path: str | None
    trans_home: str | None
    trans_uses: str | None
    architecture: str | None
    core_count: int | None
    ram_count: int | None
    ram_unit: str | None
    base_ram_count: int | None
    cpu_time: int | None
    cpu_time_unit: str | None
    cpu_efficiency: int | None
    base_walltime: int | None
    walltime: int | None
    out_disk_count: int | None
    out_disk_unit: str | None
    work_disk_count: int | None
    work_disk_unit: str | None
    io_intensity: int | None
    disk_io: int | None
    merge_ram_count: int | None
    merge_core_count: int | None
    goal: int | None
    period: str | None
    rules: dict[str, Any] | None
    figures: dict[str, dict[str, int]] | None = None


class FedDataset(NamedTuple):
    """An input dataset of a task. `due`: it is to be looked up; `files`: how many files its rows
    stand for, of which each may have many (ranges of events); `fed_upto`: the last file that was
    listed, if later ones are still to be fed; `n_left_out`: entries that no job gets; `last_…`: its
    last lumi block and boundary id, where
    ranges of events respect these, and the events in it."""

    dataset_id: int
    jedi_task_id: int
    dataset_name: str
    container_name: str | None
    attributes: str | None
    type: str
    master_id: int | None
    status: str
    n_files: int
    n_files_to_be_used: int
    n_events: int | None
    files: int
    due: bool
    fed_upto: str | None
    n_left_out: int = 0
    last_lumiblock: int | None = None
    last_boundary: int | None = None
    last_events: int | None = None


class TaskDataset(NamedTuple):
    """A dataset of a task with its counters."""

    jedi_task_id: int
    dataset_id: int
    dataset_name: str
    container_name: str | None
    type: str
    master_id: int | None
    status: str
    state: str | None
    n_files: int
    n_files_to_be_used: int
    n_files_used: int
    n_files_finished: int
    n_files_failed: int
    n_files_missing: int
    n_events: int | None
    n_events_used: int | None
    fed_upto: str | None
