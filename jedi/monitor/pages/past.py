"""Back in time: a task and the work queues as they were, at one time or at two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from markupsafe import Markup
from pydantic import Field

from jedi.core import clock
from jedi.monitor import charts
from jedi.monitor.filters import query, site_page
from jedi.monitor.pages import task
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.operations.arguments import MomentText, TaskId
from jedi.service.queues.past import QueuesThen
from jedi.service.tasks.task_past import TaskMoment, TaskThen

EventNumber = Annotated[int, Field(ge=0, le=10_000)]

_JOBS = (
    Column("status", "Status", "status"),
    Column("site", "Site", "id", link=lambda row: site_page(row["site"])),
    Column("jobs", "Jobs", "number"),
    Column("n_inputs", "Input files", "number", wide=True),
)
_TIMELINE = (
    Column("at", "Time", "time", link=lambda row: row["link"]),
    Column("kind", "Event"),
    Column("title", "", "status"),
    Column("by", "By", wide=True),
    Column("code", "Code", "code", wide=True),
    Column("sentence", "Why", "reason"),
)
_DIFFERENCE = (
    Column("name", "Figure", "id"),
    Column("before", "Earlier"),
    Column("after", "Later"),
    Column("change", "Change"),
)
_KNOBS = (
    Column("name", "Knob", "id"),
    Column("then", "Value then"),
    Column("now", "Value now"),
)
_QUEUES = (
    Column("queue_name", "Work queue", "id"),
    Column("tasks", "Tasks that had not ended"),
    Column("n_tasks", "Tasks", "number"),
    Column("reached", "Jobs that reached a status in that hour", wide=True),
)


@dataclass(frozen=True)
class Difference:
    """A figure at two times."""

    name: str
    before: object
    after: object
    change: str = ""


@page("task_past", "/tasks/{jedi_task_id}/past")
def task_past(
    ask: Ask,
    jedi_task_id: TaskId,
    at: MomentText | None = None,
    against: MomentText | None = None,
    event: EventNumber | None = None,
) -> View:
    """A task as it was at a time, with its timeline until then; `event`: at this event of those
    that the page without a time shows; `against`: compared with another time."""
    if at is None and event is not None:
        at = _of_event(ask, jedi_task_id, event)
    times = [at or written(clock.now()), *([against] if against else [])]
    found = ask("task.at", jedi_task_id=jedi_task_id, at=times)
    then: TaskThen = found.then[0]
    shown, address = _shown(then.at, at), f"/tasks/{jedi_task_id}/past"
    events = [_event(one, address, against) for one in found.moments]
    so_far = [one for one in events if one["time"] <= then.at]
    facts = {
        **task.frame(jedi_task_id, "/past"),
        "then": then,
        "address": address,
        "events": events,
        "n_past": len(so_far),
        "more": found.more,
        "against": against,
        "at": written(then.at),
        "shown": shown,
        "steps": _steps(events, then.at),
        "decision": then.decision,
        "chart": _chart(then),
    }
    sheets = [
        Sheet(
            "jobs", "Jobs then", _JOBS, _numbered(then.sites), "key", empty="There were no jobs."
        ),
        Sheet(
            "timeline",
            "Timeline until then",
            _TIMELINE,
            so_far[::-1],
            "key",
            empty="Nothing had happened.",
        ),
    ]
    if len(found.then) > 1:
        sheets.insert(0, _compared(_task_figures, *found.then))
    if then.knobs:
        sheets.append(_knobs(then.knobs))
    return View(f"Task {jedi_task_id} at {shown} UTC", facts, tuple(sheets))


@page("queues_past", "/queues/past")
def queues_past(ask: Ask, at: MomentText | None = None, against: MomentText | None = None) -> View:
    """The work queues as they were at a time; `against`: compared with another time."""
    times = [at or written(clock.now()), *([against] if against else [])]
    found: list[QueuesThen] = ask("queue.at", at=times)
    then = found[0]
    rows = [
        {
            "queue_id": one.queue_id,
            "queue_name": one.queue_name,
            "tasks": _said(one.tasks),
            "n_tasks": sum(one.tasks.values()) if then.known else None,
            "reached": _said(one.reached),
        }
        for one in then.queues
    ]
    sheets = [
        Sheet(
            "queues",
            "Work queues then",
            _QUEUES,
            rows,
            "queue_id",
            empty="There are no work queues.",
        )
    ]
    if len(found) > 1:
        sheets.insert(0, _compared(_queue_figures, *found))
    if then.knobs:
        sheets.append(_knobs(then.knobs))
    shown = _shown(then.at, at)
    facts = {
        "then": then,
        "against": against,
        "at": written(then.at),
        "shown": shown,
        "address": "/queues/past",
        "steps": _hours(then.at, against),
    }
    return View(f"Work queues at {shown} UTC", facts, tuple(sheets))


def _shown(then: datetime, at: str | None) -> str:
    """The time of a page as people read it: of the present, whole seconds."""
    return written(then if at else then.replace(microsecond=0))


def written(at: datetime) -> str:
    """A time as the address of a page has it."""
    found = at.astimezone(UTC).replace(tzinfo=None)
    return found.isoformat(timespec="microseconds" if found.microsecond else "seconds")


def _of_event(ask: Ask, jedi_task_id: int, number: int) -> str:
    """The time of an event, by its number."""
    now = clock.now().isoformat()
    moments = ask("task.at", jedi_task_id=jedi_task_id, at=[now]).moments
    return written(moments[min(number, len(moments) - 1)].time) if moments else now


def _event(one: TaskMoment, address: str, against: str | None) -> dict[str, Any]:
    """A row of the timeline; its link leads to the page at its time."""
    at = written(one.time)
    link = address + query({"at": at, "against": against})
    title = f"{one.title} {one.number}" if one.kind == "decision" else one.title
    return {
        "key": f"{at}-{one.kind}-{one.number or ''}",
        "at": one.time,
        "time": one.time,
        "written": at,
        "kind": one.kind,
        "title": title,
        "by": one.by,
        "code": one.code,
        "sentence": one.sentence,
        "link": link,
    }


def _steps(events: Sequence[Mapping[str, Any]], at: datetime) -> dict[str, str | None]:
    """The links to the first event, to those before and after a time, and to the last."""
    before = [one["link"] for one in events if one["time"] < at]
    after = [one["link"] for one in events if one["time"] > at]
    return {
        "First event": before[0] if before else None,
        "Event before": before[-1] if before else None,
        "Event after": after[0] if after else None,
        "Last event": after[-1] if after else None,
    }


def _hours(at: datetime, against: str | None) -> dict[str, str | None]:
    """The links to an hour and a day before and after a time."""
    now = clock.now()
    return {
        title: "/queues/past"
        + query(
            {
                "at": written(datetime.fromtimestamp(at.timestamp() + hours * 3600, UTC)),
                "against": against,
            }
        )
        if at.timestamp() + hours * 3600 <= now.timestamp()
        else None
        for title, hours in (
            ("Day before", -24),
            ("Hour before", -1),
            ("Hour after", 1),
            ("Day after", 24),
        )
    }


def _chart(then: TaskThen) -> Markup | None:
    """The jobs by status as a bar; None: there were none."""
    if not then.jobs:
        return None
    caption = "Jobs by status then" + (" (estimated)" if then.estimated else "")
    counts = sorted(then.jobs.items(), key=lambda one: _place(one[0]))
    return charts.stacked("jobs-then", caption, charts.by_status(counts), "jobs")


def _place(status: str) -> int:
    """The place of a status in bars; an unknown one is the last."""
    return task.ORDER.index(status) if status in task.ORDER else len(task.ORDER)


def _numbered(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{one.status}-{one.site}",
            "status": one.status,
            "site": one.site,
            "jobs": one.jobs,
            "n_inputs": one.n_inputs,
        }
        for one in rows
    ]


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {status}" for status, n in counts.items())


def _knobs(rows: Sequence[Any]) -> Sheet:
    shown = [
        {
            "name": one.name,
            "then": "preset" if one.then is None else str(one.then),
            "now": "preset" if one.now is None else str(one.now),
        }
        for one in rows
    ]
    return Sheet("knobs", "Knobs that had other values", _KNOBS, shown, "name")


def _compared(figures: Any, one: Any, other: Any) -> Sheet:
    """The difference between two times, the earlier one first."""
    first, last = sorted((one, other), key=lambda found: found.at)
    before, after = figures(first), figures(last)
    rows = [
        Difference(
            name, before.get(name), after.get(name), _change(before.get(name), after.get(name))
        )
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    caption = f"From {written(first.at)} to {written(last.at)} UTC"
    return Sheet("difference", caption, _DIFFERENCE, rows, "name", empty="Nothing had changed.")


def _change(before: object, after: object) -> str:
    numbers = [0 if one is None else one for one in (before, after)]
    if all(isinstance(one, int) for one in numbers):
        return f"{numbers[1] - numbers[0]:+d}"  # type: ignore[operator]
    return "changed"


def _task_figures(then: TaskThen) -> dict[str, object]:
    """The figures of a task that a comparison shows."""
    inputs = sum(one.n_inputs for one in then.sites if one.status == "finished")
    return {
        "status": then.status,
        "reason": then.reason_code,
        "attempt": then.attempt_nr,
        "input files of finished jobs": inputs,
        **{f"jobs {status}": n for status, n in then.jobs.items()},
        **{f"{one.site}: jobs {one.status}": one.jobs for one in then.sites},
    }


def _queue_figures(then: QueuesThen) -> dict[str, object]:
    """The figures of work queues that a comparison shows."""
    return {
        **{
            f"{one.queue_name}: tasks {status}": n
            for one in then.queues
            for status, n in one.tasks.items()
        },
        **{
            f"{one.queue_name}: jobs {status} in the hour": n
            for one in then.queues
            for status, n in one.reached.items()
        },
    }
