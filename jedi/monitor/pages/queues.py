"""Work queues, shares, their flow to sites, and the order in which tasks get jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from jedi.monitor.charts import Bar, Part, bars
from jedi.monitor.flows import FlowPath, flow
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.queues.held import HeldTasks
from jedi.service.queues.order import ShareSummary
from jedi.taskbuffer.reports.loads import QueueFlow

TURNS = 50
NO_QUEUE = "no queue"

_QUEUES = (
    Column("queue_name", "Queue", "id", link=lambda row: f"/tasks?queue={row['queue_id']}"),
    Column("status", "Status", "status"),
    Column("vo", "VO", wide=True),
    Column("queue_type", "Label"),
    Column("queue_order", "Order", "number", wide=True),
    Column("criteria", "Criteria"),
    Column("caps", "Caps (jobs)"),
    Column("tasks", "Live tasks", "number"),
    Column("waits", "Held by"),
)
_SHARES = (
    Column("queue_name", "Queue", "id"),
    Column("queue_share", "Share", "number"),
    Column("entitlement", "Entitled, cores", "number", wide=True),
    Column("allocation", "Allocation, cores", "number"),
    Column("usage", "In use, cores", "number"),
    Column("demand", "Demand, cores", "number"),
    Column("used", "Use of allocation", "bar"),
    Column("computed_at", "As of", "time", wide=True),
)
_TURNS = (
    Column("place", "Turn", "number"),
    Column("jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row['jedi_task_id']}"),
    Column("task_name", "Name"),
    Column("user_name", "Owner"),
    Column("status", "Status", "status"),
    Column("share", "Share"),
    Column("priority", "Priority", "number", wide=True),
    Column("reason", "Why here", "reason"),
    Column("next_run_at", "Next try", "time", wide=True),
)


@page("queues", "/queues", menu="Queues", topics=("tasks", "jobs"))
def queues(ask: Ask) -> View:
    """Work queues with their tasks, shares with their use, the flow to sites, turns of tasks."""
    held: list[HeldTasks] = ask("queue.tasks")
    known = ask("queue.list")
    shares: list[ShareSummary] = ask("queue.shares")
    turns = [
        {"place": at, **{one.key: getattr(turn, one.key) for one in _TURNS[1:]}}
        for at, turn in enumerate(ask("queue.turns", limit=TURNS), 1)
    ]
    sheets = (
        Sheet(
            "queues",
            "Work queues, in the order in which they are tried",
            _QUEUES,
            [_queue(one, held) for one in known],
            "queue_name",
            empty="There are no work queues: jedi queue import FILE.",
        ),
        Sheet(
            "shares",
            "Shares, in the order of service",
            _SHARES,
            [_share(one) for one in shares],
            "queue_name",
            empty="The dog shares has not run yet.",
        ),
        Sheet(
            "turns",
            f"The next {TURNS} tasks that want jobs",
            _TURNS,
            turns,
            "jedi_task_id",
            empty="No task wants jobs.",
        ),
    )
    facts = {"flow": to_sites(ask("queue.flow")), "tasks": _tasks(held)}
    return View("Queues and shares", facts, sheets)


def to_sites(streams: Sequence[QueueFlow]) -> Markup:
    """Cores from shares through work queues to sites: those in use, or those wanted if none is."""
    running = any(one.cores_running for one in streams)
    paths = [
        FlowPath(
            (one.share or "no share", one.queue_name or NO_QUEUE, one.site or "no site"),
            one.cores_running if running else one.cores_waiting,
        )
        for one in streams
    ]
    kind = "Cores in use" if running else "Cores that jobs wait for"
    caption = f"{kind}: share → work queue → site"
    return flow("flow", caption, ("Share", "Work queue", "Site"), paths, "cores")


def _tasks(held: Sequence[HeldTasks]) -> Markup:
    """Live tasks of each work queue by status."""
    found: dict[str, Counter[str]] = {}
    for one in held:
        found.setdefault(one.queue_name or NO_QUEUE, Counter())[_mood(one)] += one.tasks
    rows = [
        Bar(name, [Part(mood, counts[mood], look) for mood, look in _LOOKS.items() if counts[mood]])
        for name, counts in sorted(found.items())
    ]
    return bars("queue-tasks", "Live tasks by work queue", rows, "tasks")


_LOOKS: dict[str, Any] = {
    "with jobs": "busy",
    "in turn": "good",
    "waiting": "slow",
    "need a person": "bad",
}


def _mood(one: HeldTasks) -> str:
    if one.hold in ("problem", "exhausted", "paused"):
        return "need a person"
    return {"": "with jobs", "in_turn": "in turn"}.get(one.hold, "waiting")


def _queue(one: Any, held: Sequence[HeldTasks]) -> dict[str, Any]:
    mine = [row for row in held if row.queue_name == one.queue_name]
    holds: Counter[str] = Counter()
    for row in mine:
        holds[row.hold or "jobs"] += row.tasks
    caps = one.caps or {}
    return {
        **{
            name: getattr(one, name)
            for name in ("queue_id", "queue_name", "status", "vo", "queue_type", "queue_order")
        },
        "criteria": _criteria(one),
        "caps": ", ".join(f"{name} {n}" for name, n in caps.items()),
        "tasks": sum(row.tasks for row in mine),
        "waits": ", ".join(f"{hold} {n}" for hold, n in holds.most_common(4)),
    }


def _criteria(one: Any) -> str:
    return f"{one.criteria} ({one.variables})" if one.variables else one.criteria or "every task"


def _share(one: ShareSummary) -> dict[str, Any]:
    names = [column.key for column in _SHARES if column.key != "used"]
    used = 100 * one.ratio if one.ratio is not None else None
    return {**{name: getattr(one, name) for name in names}, "used": used}
