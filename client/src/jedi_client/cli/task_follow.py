"""`jedi-task watch` and `wait`: until tasks have ended."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import NO, Json, console, plain, service, show, status, table
from jedi_client.cli.layout import GAP, TASKS
from jedi_client.cli.pace import Pace
from jedi_client.cli.task_common import AnyTaskIds, TaskIds
from jedi_client.errors import JediError, Unreachable
from jedi_client.statuses import FAULTS, TASK_FINAL
from jedi_client.terminal import harmless
from jedi_client.times import written

if TYPE_CHECKING:
    from rich.console import Group

    from jedi_client.models import TaskSummary, Watched
    from jedi_client.operations import Client
    from jedi_client.watching import Absence

MOST_WATCHED = 1_000
HELD = ("pending", "throttled", "paused", "staging", "exhausted")
"""Statuses in which a task waits for something."""
BAR, WIDE = 30, 110
"""The length of a bar, a third of it where a terminal is not so wide."""


def watch(tasks: AnyTaskIds = None, as_json: Json = False) -> None:
    """Follow tasks until they end; without ids, all active tasks.

    Bars on a terminal, else a line for each change: with the reason while one waits, and with
    the rate and the time that is left, as far as it was watched. Exit code 0: all are done.
    While the service is away, for ten minutes at most, it waits for it.

    Example: `jedi-task watch 1 2`
    """
    with service() as jedi:
        ids = list(dict.fromkeys(tasks)) if tasks else absence().outlast(partial(_at_work, jedi))
        seen = _follow(jedi, ids, None)
        if as_json:
            last = _lines(seen, lambda task: json.dumps(plain(task), default=str))
        elif sys.stdout.isatty():
            last = _bars(seen)
        else:
            last = _lines(seen, partial(_sentence, Paces()))
    if not ids and not as_json:
        typer.echo("No task is active.")
    _exit(last)


def wait(
    tasks: TaskIds,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, help="Most seconds to wait; then exit code 4."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Wait until tasks have ended. Exit code 0: all are done. While the service is away, it waits
    for it until the time-out; without one, for ten minutes. Stderr has the reasons that hold a
    task.

    Example: `jedi-task wait 1 2 --timeout 600`
    """
    with service() as jedi:
        last = _holds(_follow(jedi, list(dict.fromkeys(tasks)), timeout))
    rows = [[t.jedi_task_id, t.task_name, t.status, t.reason] for t in last]
    headers = ["task", "name", "status", "reason"]
    show(last, as_json, lambda: table(headers, rows, short=("name",), colours=TASKS))
    _exit(last)


def _at_work(jedi: Client) -> list[int]:
    from jedi_client.watching import ACTIVE

    return sorted(t.jedi_task_id for t in jedi.task_list(status=ACTIVE, limit=MOST_WATCHED))


def absence(until: float | None = None) -> Absence:
    """The patience with a service that is away, until a time of the monotonic clock: a word on
    stderr says so once."""
    from jedi_client.watching import Absence

    def notice(error: Unreachable) -> None:
        typer.echo(f"{error} Waiting for it.", err=True)

    return Absence(until, notice=notice)


def _follow(
    jedi: Client, ids: list[int], timeout_s: float | None
) -> Iterator[Sequence[TaskSummary]]:
    """The tasks as they are, again at each change until all are settled."""
    from jedi_client.watching import watch_tasks

    found: dict[int, Watched] = {}
    end = None if timeout_s is None else time.monotonic() + timeout_s
    absent, away = absence(end), ""
    try:
        if ids:
            first = absent.outlast(partial(jedi.task_look, jedi_task_ids=ids))
            found = {one.task.jedi_task_id: one for one in first}
        yield [one.task for one in found.values()]
        if all(one.settled for one in found.values()):
            return
        left_s = None if end is None else end - time.monotonic()
        for changes in watch_tasks(jedi, ids, timeout_s=left_s, absent=absent):
            found |= {one.task.jedi_task_id: one for one in changes}
            yield [one.task for one in found.values()]
            if all(one.settled for one in found.values()):
                return
    except Unreachable as error:
        if end is None or time.monotonic() < end:
            raise
        away = f" {error}"
    open_ids = [n for n in ids if n not in found or not found[n].settled]
    raise JediError(
        f"Tasks not ended after {timeout_s:g} s: {', '.join(map(str, open_ids))}.{away}",
        code="timeout",
        jedi_task_ids=open_ids,
    )


def _holds(seen: Iterator[Sequence[TaskSummary]]) -> Sequence[TaskSummary]:
    """Tell each new reason for which a task that has not ended is held; the last look."""
    told: dict[int, object] = {}
    last: Sequence[TaskSummary] = ()
    for last in seen:
        for task in last:
            reason = task.status in HELD and (task.reason or task.reason_code)
            if reason and told.get(task.jedi_task_id) != reason:
                said = f"Task {task.jedi_task_id} is {task.status}: {reason}"
                typer.echo(harmless(said), err=True)
            told[task.jedi_task_id] = reason
    return last


def _lines(
    seen: Iterator[Sequence[TaskSummary]], line: Callable[[TaskSummary], str]
) -> Sequence[TaskSummary]:
    """Print a line for each task that changed; the last look."""
    printed: dict[int, tuple[object, ...]] = {}
    last: Sequence[TaskSummary] = ()
    for last in seen:
        for task in last:
            state = (
                task.status,
                task.n_files,
                task.n_files_finished,
                task.n_files_failed,
                task.n_events_processed,
                _held(task) and task.reason_code,
            )
            if printed.get(task.jedi_task_id) != state:
                printed[task.jedi_task_id] = state
                typer.echo(line(task))
        sys.stdout.flush()
    return last


class Paces(defaultdict[int, Pace]):
    """The speed of each watched task."""

    def __init__(self) -> None:
        super().__init__(Pace)

    def look(self, task: TaskSummary) -> str:
        """The rate and the time that is left, once they are known and as long as it works."""
        through, whole, unit = _progress(task)
        pace = self[task.jedi_task_id]
        pace.note(time.monotonic(), through)
        return "" if task.status in TASK_FINAL else pace.sentence(whole - through, unit)


def _progress(task: TaskSummary) -> tuple[int, int, str]:
    """The finished part of a task, the whole, and their unit. Events count as they are reported,
    files when their jobs have ended."""
    if task.n_events and task.n_events_processed is not None:
        return task.n_events_processed, task.n_events, "events"
    return task.n_files_finished + task.n_files_failed, task.n_files, task.unit


def _sentence(paces: Paces, task: TaskSummary) -> str:
    parts = [
        f"{written(datetime.now(UTC), None)} task {task.jedi_task_id} {task.task_name}: "
        f"{task.status}, {_files(task)}",
        f"jobs running: {task.n_jobs_running}" if task.n_jobs_running else "",
        paces.look(task),
        (task.reason or task.reason_code or "") if _held(task) or task.status in TASK_FINAL else "",
    ]
    return harmless("; ".join(filter(None, parts)))


def _held(task: TaskSummary) -> bool:
    """True if the task is held, so that people need the reason."""
    return task.status in HELD or task.reason_code in FAULTS


def _files(task: TaskSummary) -> str:
    failed = f", {task.n_files_failed} failed" if task.n_files_failed else ""
    said = f"{task.n_files_finished} of {task.n_files} {task.unit}{failed}"
    through, whole, unit = _progress(task)
    return f"{through} of {whole} events, {said}" if unit == "events" else said


def _bars(seen: Iterator[Sequence[TaskSummary]]) -> Sequence[TaskSummary]:
    """Draw a bar for each task, again at each look; the last look."""
    from rich.live import Live

    last: Sequence[TaskSummary] = ()
    screen, paces = console(), Paces()
    with Live(console=screen, auto_refresh=False) as live:
        for last in seen:
            live.update(_drawn(last, paces, screen.width), refresh=True)
    return last


def _drawn(tasks: Sequence[TaskSummary], paces: Paces, width: int) -> Group:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar = BAR if width >= WIDE else BAR // 3
    cells = [(str(t.jedi_task_id), t.status, _files(t), paces.look(t)) for t in tasks]
    whole = [max(map(len, column)) for column in zip(*cells, strict=True)]
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(width=whole[0])
    grid.add_column(max_width=max(bar, width - sum(whole) - bar - 5 * GAP), no_wrap=True)
    for column in (whole[1], bar, *whole[2:]):
        grid.add_column(width=column, no_wrap=True)
    for task, (number, _, files, pace) in zip(tasks, cells, strict=True):
        through, total, _ = _progress(task)
        drawn = ProgressBar(
            total=total or None,
            completed=through,
            width=bar,
            finished_style="red" if task.n_files_failed else "green",
        )
        name = Text(task.task_name, overflow="ellipsis")
        grid.add_row(number, name, status(task.status), drawn, files, pace)
    reasons = [
        Text(harmless(f"{task.jedi_task_id}: {task.reason or task.reason_code}"), "yellow")
        for task in tasks
        if _held(task) and (task.reason or task.reason_code)
    ]
    return Group(grid, *reasons)


def _exit(tasks: Iterable[TaskSummary]) -> None:
    if any(task.status != "done" for task in tasks):
        raise typer.Exit(NO)
