"""`jedi-task why`: the reason that holds a task; `list --order generation`: the order of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jedi_client.cli.common import Json, cell, console, service, show, table
from jedi_client.cli.layout import TASKS
from jedi_client.cli.task_common import TaskArgument

if TYPE_CHECKING:
    from jedi_client.models import BrokerOutcome, TaskHold


def why(task: TaskArgument, as_json: Json = False) -> None:
    """Show the reason that holds a task now, since when, and the next try.

    Where a broker has looked for places, its criteria follow with the sites that each refused, and
    the sites that lack one thing only. All codes are in docs/why.md.

    Example: `jedi-task why 1`
    """
    with service() as jedi:
        found = jedi.task_why(task)
    show(found, as_json, lambda: _tell(found))


def _tell(found: TaskHold) -> None:
    print_line = console().print
    print_line(f"task      {found.jedi_task_id}, {found.status}")
    print_line(f"held by   {found.code}: {found.sentence}")
    if found.detail:
        print_line(f"detail    {found.detail}")
    if found.remedy:
        print_line(f"remedy    {found.remedy}")
    print_line(f"since     {cell(found.since) or 'unknown'}")
    if found.next_try:
        print_line(f"next try  {cell(found.next_try)}")
    if found.brokerage:
        _tell_choice(found.brokerage)


def _tell_choice(choice: BrokerOutcome) -> None:
    print_line = console().print
    where = ", ".join(choice.chosen) or "no site"
    what = f" for {choice.dataset}" if choice.dataset else ""
    print_line(
        f"brokerage {choice.broker} chose {where}{what} at {cell(choice.time)} "
        f"(decision {choice.decision_id})"
    )
    if choice.funnel:
        table(
            ["criterion", "refused", "first", "only", "nearest site", "remedy"],
            [[r.code, r.sites, r.first, r.only, r.nearest, r.remedy] for r in choice.funnel],
            spare=("first", "only"),
            folded=True,
        )
    for miss in choice.near_misses:
        print_line(
            f"near miss {miss.sentence}: {', '.join(miss.sites[:5])}"
            f"{', ...' if len(miss.sites) > 5 else ''}"
        )


def list_by_turn(limit: int, as_json: bool) -> None:
    """Tasks that want jobs, in the order in which they get them, and why."""
    with service() as jedi:
        found = jedi.queue_turns(limit=limit)
    headers = ["task", "name", "user", "status", "share", "used", "priority", "why here"]
    rows = [
        [t.jedi_task_id, t.task_name, t.user_name, t.status, t.share, t.ratio, t.priority, t.reason]
        for t in found
    ]
    spare, short = ("user", "used", "share", "status"), ("name",)
    show(found, as_json, lambda: table(headers, rows, spare=spare, short=short, colours=TASKS))
