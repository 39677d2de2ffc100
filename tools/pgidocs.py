"""Generated text about PGI states: the tables in docs/pgi.md."""

from __future__ import annotations

from collections.abc import Iterator

from jedi.core import pgi
from tools.dogdocs import TableWriter


def states_table(grid: TableWriter) -> str:
    """Each state: the statuses it stands for, what it holds, whether the submitter is to know."""
    rows = [
        (
            f"`{name}`",
            ", ".join(_statuses(name)),
            *(now.stage_in, now.exec_storage, now.compute, now.stage_out, now.sandbox, now.notify),
        )
        for name, now in pgi.STATES.items()
    ]
    head = (
        "state",
        "of jobs that are",
        "storage for input",
        "for execution",
        "compute",
        "storage for output",
        "sandbox",
        "message",
    )
    return grid(head, rows)


def transitions_table(grid: TableWriter) -> str:
    """Each transition with PGI's number and name."""
    rows = [
        (f"T{number:02}", f"`{source}`", f"`{target}`", name)
        for number, ((source, target), name) in enumerate(pgi.TRANSITIONS.items(), 1)
    ]
    return grid(("", "from", "to", "name"), rows)


def _statuses(state: str) -> Iterator[str]:
    for status, (now, substate) in pgi.LIVE.items():
        if now == state:
            yield f"`{status}` ({substate})"
        elif pgi.HELD.get(now) == state:
            yield f"`{status}` (held)"
    if state == "Submitted":
        yield "tasks without a job"
    for status, (now, result) in pgi.ENDED.items():
        if now == state:
            yield f"`{status}` ({result})"
    if state == pgi.FAILED:
        yield from (f"`{status}`" for status in pgi.BROKEN_OFF if status != "finished")
        yield "tasks that ended without a job"
