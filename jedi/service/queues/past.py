"""Work queues as they were, from the logs; with the questions that the logs leave open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jedi.core.knobs import KNOBS
from jedi.service.operations.arguments import Moments, read_time
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports import past
from jedi.taskbuffer.scheduling import queues

_QUEUES_OPEN = (
    "Jobs by status at a moment: JEDI keeps only how many reached a status in each hour.",
    "Shares, criteria and limits of work queues are the present ones.",
)


@dataclass(frozen=True, slots=True)
class KnobBefore:
    """A knob that had another value then than now."""

    name: str
    then: Any
    now: Any


@dataclass(frozen=True, slots=True)
class QueueThen:
    """A work queue at a time: its tasks that had not ended, by status, and the jobs of its share
    that reached each status in that hour. Queue 0: tasks without a work queue."""

    queue_id: int
    queue_name: str
    tasks: dict[str, int]
    reached: dict[str, int]


@dataclass(frozen=True, slots=True)
class QueuesThen:
    """All work queues at a time. `known`: False if too many statuses have changed since."""

    at: datetime
    known: bool
    queues: list[QueueThen]
    knobs: list[KnobBefore]
    open: list[str]


@operation("queue.at", "GET", "/v1/queues/at", ANYBODY, heavy=True)
def queues_at(call: Call, at: Moments) -> list[QueuesThen]:
    """Show the work queues as they were at one time or two: tasks by status, and jobs that reached
    each status in that hour. Times such as 2026-11-26T12:00 are UTC.

    BadInput: no time.
    """
    tx = call.tx
    times = [*dict.fromkeys(map(read_time, at))]
    tasks = past.queued_tasks(tx, times)
    reached = past.REACHED.rows(tx, times=times)
    before = past.KNOBS.rows(tx, times=times)
    rows = queues.ALL_QUEUES.rows(tx)
    names = {one.queue_id: one.queue_name for one in rows}
    too_far = {one.at for one in tasks if one.queue_id < 0}
    found = []
    for time in times:
        mine = [one for one in tasks if one.at == time and one.queue_id >= 0]
        ended = [one for one in reached if one.at == time]
        said = f"The tasks then: more than {past.CHANGES_MOST} statuses have changed since."
        found.append(
            QueuesThen(
                time,
                time not in too_far,
                [
                    QueueThen(
                        number,
                        names.get(number, "no work queue"),
                        {one.status: one.tasks for one in mine if one.queue_id == number},
                        {one.status: one.jobs for one in ended if one.gshare == names.get(number)},
                    )
                    for number in [*names, *sorted({one.queue_id for one in mine} - {*names})]
                ],
                knobs_then(one for one in before if one.at == time),
                [*([said] if time in too_far else []), *_QUEUES_OPEN],
            )
        )
    return found


def knobs_then(rows: Iterable[past.KnobThen]) -> list[KnobBefore]:
    """Knobs with other values; a preset's value stands for none."""
    return [KnobBefore(one.name, one.then, one.now) for one in rows if one.name in KNOBS]
