"""Ranges of events of tasks for people: counts, rate and forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.model.queries import PAGE, MostRows, RangeStatuses
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import task_details
from jedi.taskbuffer.reports import event_listings
from jedi.taskbuffer.reports.event_listings import (
    LEFT,
    PROCESSED,
    ConsumerShare,
    FileRanges,
    ListedRange,
    RangeQuestion,
    StatusRanges,
)

WINDOW_S = 600.0
"""The rate is that of the last 10 minutes."""


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """Events of a task. `n_processed` and `n_left` are events; `rate_per_s`: events a second that
    consumers reported in the last 10 minutes; `left_s`: seconds for those that are left at that
    rate. `ranges` has single ranges if a job or statuses were asked for."""

    jedi_task_id: int
    n_processed: int
    n_left: int
    rate_per_s: float | None
    left_s: float | None
    statuses: list[StatusRanges]
    files: list[FileRanges]
    consumers: list[ConsumerShare]
    ranges: list[ListedRange]


@operation("task.events", "GET", "/v1/tasks/{jedi_task_id}/events", ANYBODY, heavy=True)
def show(
    call: Call,
    jedi_task_id: TaskId,
    panda_id: TaskId | None = None,
    status: RangeStatuses = None,
    limit: MostRows = PAGE,
) -> TaskEvents:
    """Show the ranges of events of a task: their numbers by status, file and consumer, the rate, a
    forecast. `panda_id`: those of a job; `status`: those in these statuses; then also each range.
    `limit`: most files, consumers and ranges.

    NotFound if there is no such task.
    """
    tx = call.tx
    task_details.must_exist(tx, jedi_task_id)
    asked = RangeQuestion(jedi_task_id, panda_id, status, limit)
    counts = event_listings.BY_STATUS.rows(tx, **asked.values())
    left = _events(counts, LEFT)
    rate = _rate(tx, jedi_task_id)
    single = panda_id is not None or status is not None
    return TaskEvents(
        jedi_task_id,
        _events(counts, PROCESSED),
        left,
        rate,
        left / rate if rate else None,
        counts,
        event_listings.BY_FILE.rows(tx, **asked.values()),
        event_listings.BY_CONSUMER.rows(tx, **asked.values()),
        event_listings.RANGES.rows(tx, **asked.values()) if single else [],
    )


def of_job(tx: Connection, jedi_task_id: int, panda_id: int) -> list[StatusRanges]:
    """Return the numbers of ranges of a job in each status; of a merge job, those of its set."""
    return event_listings.BY_STATUS.rows(tx, **RangeQuestion(jedi_task_id, panda_id).values())


def _events(counts: Sequence[StatusRanges], statuses: Sequence[str]) -> int:
    return sum(one.n_events for one in counts if one.status in statuses)


def _rate(tx: Connection, jedi_task_id: int) -> float | None:
    found = event_listings.pace(tx, jedi_task_id, WINDOW_S)
    return found.n_events / found.within_s if found.n_events and found.within_s else None
