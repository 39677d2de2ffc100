"""Looking at tasks: everybody may look at every task. (Submitting: `submission.submit`, apart
because its imports take half a second.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from jedi.core import states
from jedi.core.errors import NotFound
from jedi.core.kills import kill
from jedi.taskbuffer.housekeeping import knobs, purging
from jedi.taskbuffer.reports import listings

MOST_ROWS = 1_000_000
"""Default maximum length of a list."""


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task at a glance; files are those of its master inputs, also those that wait for scouts."""

    jedi_task_id: int
    task_name: str
    user_name: str
    status: str
    prod_source_label: str
    priority: int
    attempt_nr: int
    reason_code: str | None
    reason: str | None
    creation_date: datetime
    state_change_time: datetime
    end_time: datetime | None
    next_run_at: datetime | None
    n_files: int
    n_files_finished: int
    n_files_failed: int
    n_jobs_running: int

    @property
    def percent(self) -> int | None:
        """How much of the input is finished; None: there is none yet."""
        return 100 * self.n_files_finished // self.n_files if self.n_files else None

    @property
    def is_final(self) -> bool:
        """Nothing more will happen unless somebody asks."""
        return self.status in states.TASK.final


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """A dataset of a task, with its counters and how it is used (see Attributes)."""

    dataset_id: int
    name: str
    type: str
    status: str
    state: str | None
    master_id: int | None
    stream_name: str | None
    n_files: int
    n_files_to_be_used: int
    n_files_used: int
    n_files_finished: int
    n_files_failed: int
    n_files_missing: int
    attributes: str | None


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A cause of failed jobs: how many, and the latest of them."""

    error_code: str | None
    error_source: str | None
    exit_code: int | None
    jobs: int
    panda_id: int
    error_diag: str | None


@dataclass(frozen=True, slots=True)
class JobMetric:
    """What is known of a task's jobs since scouts measured them, such as ramCount."""

    name: str
    value: int
    unit: str | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """A figure as foreseen when jobs were made, beside what finished jobs took (the most of each);
    None: nothing was known."""

    name: str
    foreseen: float | tuple[str, ...] | None
    true: float | tuple[str, ...] | None
    unit: str


@dataclass(frozen=True, slots=True)
class Purging:
    """Of how many finished jobs the outputs are gone, or are to go, the first at `leaving_at`."""

    gone: int
    leaving: int
    leaving_at: datetime | None


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """A task with what its scouts measured, its datasets, its jobs by status, what is not kept of
    theirs, why jobs failed, and what was foreseen of them (once one has finished). `pgi`: PGI state
    and substate before there is a job."""

    task: TaskSummary
    pgi: tuple[str, str] | None
    measured: list[JobMetric]
    datasets: list[DatasetSummary]
    jobs: dict[str, int]
    purging: Purging
    failures: list[FailureCause]
    forecasts: list[Forecast]


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job of a task; times in seconds, measured memory in kB, 0 MB: no limit. `predecessors`:
    the jobs whose inputs it has, for the reason that `relation` tells; `retry_effects`: what retry
    rules made of its failure; `kill_number`: what PanDA calls its kill code."""

    panda_id: int
    origin_panda_id: int
    unit_nr: int
    attempt_nr: int
    predecessors: list[int] | None
    relation: str | None
    kind: str
    status: str
    substatus: str | None
    kill_code: str | None
    site: str
    priority: int
    n_inputs: int
    memory_mb: int
    creation_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    exit_code: int | None
    error_source: str | None
    error_code: str | None
    error_diag: str | None
    cpu_s: float | None
    wall_s: float | None
    max_rss_kb: int | None
    stderr_tail: str | None
    retry_effects: list[str] | None
    kill_number: int | None


@dataclass(frozen=True, slots=True)
class FileSummary:
    """A file of a task, or the part of it from `start_event` to `end_event`; size in bytes, adler32
    in 8 hex digits. `gone`: it was made, and is not kept any more."""

    file_id: int
    dataset: str
    lfn: str
    type: str
    status: str
    size: int | None
    adler32: str | None
    guid: str | None
    n_events: int | None
    start_event: int | None
    end_event: int | None
    attempt_nr: int
    max_attempt: int | None
    failed_attempt: int
    panda_id: int | None
    gone: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a task's status: when, who, why."""

    time: datetime
    from_status: str | None
    status: str
    agent: str | None
    reason_code: str | None
    reason: str | None
    attempt_nr: int | None
    user_name: str | None


def find(
    tx: Connection,
    *,
    user_name: str | None = None,
    name: str | None = None,
    statuses: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    begins: str = "",
    limit: int = MOST_ROWS,
) -> list[TaskSummary]:
    """Tasks, newest first; `*` in a name stands for anything; `begins`: how their ids do."""
    unit_s = knobs.load(tx)["throttle.unit_s"]
    found = listings.tasks(tx, limit, user_name, name, statuses, ids, begins, unit_s=unit_s)
    return [TaskSummary(**row._mapping) for row in found]


def show(tx: Connection, jedi_task_id: int) -> TaskDetails:
    """A task in detail; NotFound if there is none."""
    return TaskDetails(
        task=get(tx, jedi_task_id),
        pgi=listings.pgi_state(tx, jedi_task_id),
        measured=[JobMetric(**row._mapping) for row in listings.measured(tx, jedi_task_id)],
        datasets=[DatasetSummary(**row._mapping) for row in listings.datasets(tx, jedi_task_id)],
        jobs=listings.job_counts(tx, jedi_task_id),
        purging=Purging(**purging.of_task(tx, jedi_task_id)._mapping),
        failures=[FailureCause(**row._mapping) for row in listings.failures(tx, jedi_task_id)],
        forecasts=_forecasts(tx, jedi_task_id),
    )


def _forecasts(tx: Connection, jedi_task_id: int) -> list[Forecast]:
    row = listings.foreseen(tx, jedi_task_id)
    if row is None:
        return []
    return [
        Forecast("jobs", row.units, row.jobs, ""),
        Forecast("wall time", row.walltime_s, row.wall_s, "s"),
        Forecast("memory", row.memory_mb, row.used_memory_mb, "MB"),
        Forecast("disk", row.disk_mb, row.used_disk_mb, "MB"),
        Forecast("sites", tuple(row.chosen), tuple(row.sites), ""),
    ]


def get(tx: Connection, jedi_task_id: int) -> TaskSummary:
    """A task at a glance; NotFound if there is none."""
    for task in find(tx, ids=[jedi_task_id]):
        return task
    raise NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)


def jobs(
    tx: Connection,
    jedi_task_id: int,
    *,
    statuses: Sequence[str] | None = None,
    limit: int = MOST_ROWS,
) -> list[JobSummary]:
    """The jobs of a task, or those in these statuses, with the end of what they wrote to stderr."""
    get(tx, jedi_task_id)
    return [_job(row) for row in listings.jobs(tx, jedi_task_id, statuses, limit)]


def descendants(tx: Connection, jedi_task_id: int, panda_id: int) -> list[JobSummary]:
    """The jobs that stand for one of a task by now: itself, or those that took over its inputs,
    whatever others they have; the worst first. NotFound if the task has no such job."""
    get(tx, jedi_task_id)
    ids = listings.standing(tx, jedi_task_id, panda_id)
    found = {row.panda_id: row for row in listings.jobs(tx, jedi_task_id, None, MOST_ROWS, ids)}
    if not ids:
        raise NotFound(
            f"Task {jedi_task_id} has no job {panda_id}.",
            jedi_task_id=jedi_task_id,
            panda_id=panda_id,
        )
    return [_job(found[one]) for one in ids]


def _job(row: Row[Any]) -> JobSummary:
    killed = kill(row.kill_code)
    return JobSummary(**row._mapping, kill_number=killed.number if killed else None)


def files(
    tx: Connection,
    jedi_task_id: int,
    *,
    types: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
    limit: int = MOST_ROWS,
    panda_id: int | None = None,
) -> list[FileSummary]:
    """The files of a task, of datasets of these types (input, output, log, …); or only those that
    one of its jobs was to make."""
    get(tx, jedi_task_id)
    found = listings.files(tx, jedi_task_id, types, statuses, limit, panda_id)
    return [FileSummary(**row._mapping) for row in found]


def outputs(
    tx: Connection, jedi_task_id: int, *, logs: bool = False, panda_id: int | None = None
) -> list[FileSummary]:
    """The finished outputs of a task, or of one of its jobs, that are still kept; with logs if
    wanted."""
    types = ["output", "log"] if logs else ["output"]
    found = files(tx, jedi_task_id, types=types, statuses=["finished"], panda_id=panda_id)
    return [file for file in found if not file.gone]


def history(tx: Connection, jedi_task_id: int) -> list[Step]:
    """Every status the task had."""
    get(tx, jedi_task_id)
    return [Step(**row._mapping) for row in listings.history(tx, jedi_task_id)]
