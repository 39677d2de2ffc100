"""Looking at tasks: everybody may look at every task. (Submitting: `submission.submit`, apart
because its imports take half a second.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.kills import kill
from jedi.model.queries import (
    ALL_ROWS,
    EVERY_FILE,
    EVERY_JOB,
    EVERY_TASK,
    MOST_ROWS,
    PAGE,
    FileQuery,
    JobQuery,
    ListPage,
    MostRows,
    TaskQuery,
)
from jedi.service.operations.arguments import PAGE_ROWS, PageRows, TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import forecasts as job_figures
from jedi.service.tasks.forecasts import Forecast
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.jobs import purging
from jedi.taskbuffer.jobs.purging import Purging
from jedi.taskbuffer.reports import job_groups, job_listings, listings
from jedi.taskbuffer.reports.job_listings import FailureCause, JobMetadata, JobRow
from jedi.taskbuffer.reports.listings import (
    DatasetSummary,
    FileSummary,
    JobMetric,
    Step,
    TaskSummary,
)
from jedi.taskbuffer.tasks import new_tasks


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
    """A job of a task; times in seconds, measured memory in kB, 0 MB: no limit. `predecessors`: the
    jobs whose inputs it has, with the reason in `relation`; `retry_effects`: effects of retry rules
    on its failure; `kill_number`: PanDA's number of its kill code."""

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


def find(
    tx: Connection,
    query: TaskQuery = EVERY_TASK,
    page: ListPage = ALL_ROWS,
    *,
    begins: str = "",
    unit_s: float | None = None,
) -> list[TaskSummary]:
    """Tasks, newest first. `begins`: digits with which ids begin; `unit_s`: the knob
    throttle.unit_s, if it is known. BadInput."""
    return listings.tasks(tx, query, page, begins, _unit_s(tx, unit_s))


def among(
    tx: Connection, ids: Sequence[int], *, jobs: bool = True, unit_s: float | None = None
) -> list[TaskSummary]:
    """Tasks by their ids, newest first. `jobs`: their live jobs are counted."""
    return listings.tasks_by_id(tx, ids, _unit_s(tx, unit_s), jobs=jobs)


def _unit_s(tx: Connection, known: float | None) -> float:
    if known is not None:
        return known
    found: float = knobs.load(tx)["throttle.unit_s"]
    return found


@operation("task.show", "GET", "/v1/tasks/{jedi_task_id}", ANYBODY)
def show(call: Call, jedi_task_id: TaskId) -> TaskDetails:
    """Show a task: status, reason, datasets, jobs by status, causes of failures.

    NotFound if there is none.
    """
    tx = call.tx
    task = get(tx, jedi_task_id)
    groups = job_groups.OF_TASK.rows(tx, task=jedi_task_id)
    jobs = job_figures.counts(groups)
    return TaskDetails(
        task=job_figures.counted(task, jobs),
        pgi=None if jobs else listings.PGI_STATE.row(tx, task=jedi_task_id),
        measured=listings.MEASURED.rows(tx, task=jedi_task_id),
        datasets=listings.DATASETS.rows(tx, task=jedi_task_id),
        jobs=jobs,
        purging=purging.of_task(tx, jedi_task_id)
        if any(group.limited for group in groups)
        else Purging(0, 0, None),
        failures=job_listings.FAILURES.rows(tx, task=jedi_task_id) if jobs.get("failed") else [],
        forecasts=job_figures.forecasts(
            groups, partial(job_groups.CHOSEN.rows, tx, task=jedi_task_id)
        ),
    )


def get(tx: Connection, jedi_task_id: int, *, unit_s: float | None = None) -> TaskSummary:
    """A task at a glance; its live jobs are not counted (job_figures.counted). NotFound."""
    found = listings.TASK.row(tx, task=jedi_task_id, unit_s=_unit_s(tx, unit_s))
    if found is None:
        raise _not_found(jedi_task_id)
    return found


def must_exist(tx: Connection, jedi_task_id: int) -> None:
    """NotFound if there is no such task."""
    if not listings.EXISTS.value(tx, task=jedi_task_id):
        raise _not_found(jedi_task_id)


def _not_found(jedi_task_id: int) -> NotFound:
    return NotFound(f"There is no task {jedi_task_id}.", jedi_task_id=jedi_task_id)


@operation("task.document", "GET", "/v1/tasks/{jedi_task_id}/document", ANYBODY)
def document(call: Call, jedi_task_id: TaskId) -> dict[str, Any]:
    """Show the parameters of a task, with defaults filled in.

    NotFound if there is none.
    """
    must_exist(call.tx, jedi_task_id)
    return dict(new_tasks.PARAMS_OF.rows(call.tx, ids=[jedi_task_id])).get(jedi_task_id, {})


@operation("task.metadata", "GET", "/v1/tasks/{jedi_task_id}/metadata", ANYBODY)
def metadata(call: Call, jedi_task_id: TaskId, limit: MostRows = PAGE) -> list[JobMetadata]:
    """List what the payloads of a task's finished jobs reported about themselves.

    NotFound if there is no such task.
    """
    must_exist(call.tx, jedi_task_id)
    return job_listings.METADATA.rows(call.tx, task=jedi_task_id, limit=limit)


def jobs(
    tx: Connection,
    jedi_task_id: int,
    query: JobQuery = EVERY_JOB,
    *,
    after: int | None = None,
    limit: int = MOST_ROWS,
) -> list[JobSummary]:
    """The jobs of a task, with the end of what they wrote to stderr; `after`: only greater ids.
    NotFound, BadInput."""
    must_exist(tx, jedi_task_id)
    return [_job(row) for row in job_listings.jobs(tx, jedi_task_id, query, limit, after=after)]


@operation(
    "task.descendants", "GET", "/v1/tasks/{jedi_task_id}/jobs/{panda_id}/descendants", ANYBODY
)
def descendants(call: Call, jedi_task_id: TaskId, panda_id: TaskId) -> list[JobSummary]:
    """List the jobs that replace a job of a task now, the worst first.

    NotFound if the task has no such job.
    """
    tx = call.tx
    must_exist(tx, jedi_task_id)
    ids = job_listings.standing(tx, jedi_task_id, panda_id)
    found = {
        row.panda_id: row for row in job_listings.jobs(tx, jedi_task_id, EVERY_JOB, MOST_ROWS, ids)
    }
    if not ids:
        raise NotFound(
            f"Task {jedi_task_id} has no job {panda_id}.",
            jedi_task_id=jedi_task_id,
            panda_id=panda_id,
        )
    return [_job(found[one]) for one in ids]


def _job(row: JobRow) -> JobSummary:
    killed = kill(row.kill_code)
    return JobSummary(**row._asdict(), kill_number=killed.number if killed else None)


@operation("task.datasets", "GET", "/v1/tasks/{jedi_task_id}/datasets", ANYBODY, heavy=True)
def datasets(call: Call, jedi_task_id: TaskId) -> list[DatasetSummary]:
    """List the datasets of a task with the numbers of their files.

    NotFound.
    """
    found = listings.DATASETS.rows(call.tx, task=jedi_task_id)
    if not found:
        must_exist(call.tx, jedi_task_id)
    return found


@operation("task.files", "GET", "/v1/tasks/{jedi_task_id}/files", ANYBODY)
def files(
    call: Call,
    jedi_task_id: TaskId,
    query: FileQuery = EVERY_FILE,
    after: TaskId | None = None,
    limit: MostRows = PAGE,
) -> list[FileSummary]:
    """List the files of a task, inputs and outputs, by dataset. `after`: the id of the last file of
    the page before.

    NotFound; BadInput: the task has no such file, or has it no more: an empty page would pass for
    the end of the list.
    """
    found = listings.files(call.tx, jedi_task_id, query, limit, None, after)
    if not found:
        must_exist(call.tx, jedi_task_id)
        if after is not None and not listings.HAS_FILE.value(
            call.tx, task=jedi_task_id, file=after
        ):
            rule = f"is no file of task {jedi_task_id}"
            raise BadInput([Problem("after", after, rule, "Begin with the first page")])
    return found


@operation("task.outputs", "GET", "/v1/tasks/{jedi_task_id}/outputs", ANYBODY, heavy=True)
def outputs(
    call: Call,
    jedi_task_id: TaskId,
    logs: bool = False,
    after: TaskId | None = None,
    limit: PageRows = PAGE_ROWS,
) -> list[FileSummary]:
    """List the finished outputs of a task that are kept, by dataset; with logs if wanted. `after`:
    the id of the last file of the page before."""
    query = FileQuery(["output", "log"] if logs else ["output"], ["finished"])
    there: list[FileSummary] = []
    rows = limit
    while True:
        found = files(call, jedi_task_id, query, after=after, limit=rows)
        there += [file for file in found if not file.gone]
        if len(found) < rows or len(there) >= limit:
            return there[:limit]
        after, rows = found[-1].file_id, PAGE_ROWS  # else one statement for each file that is gone


def kept(
    tx: Connection, jedi_task_id: int, types: Sequence[str], panda_id: int | None = None
) -> list[FileSummary]:
    """The finished files of these types of a task, or of one of its jobs, that are kept.
    NotFound."""
    query = FileQuery([*types], ["finished"])
    found = listings.files(tx, jedi_task_id, query, MOST_ROWS, panda_id)
    if not found:
        must_exist(tx, jedi_task_id)
    return [file for file in found if not file.gone]


@operation("task.history", "GET", "/v1/tasks/{jedi_task_id}/history", ANYBODY)
def history(call: Call, jedi_task_id: TaskId) -> list[Step]:
    """List the statuses that a task had."""
    must_exist(call.tx, jedi_task_id)
    return listings.HISTORY.rows(call.tx, task=jedi_task_id)
