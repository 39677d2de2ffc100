"""`jedi-task events`: the ranges of events of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import Json, console, service, show, table
from jedi_client.cli.pace import pace_sentence
from jedi_client.cli.task_common import TaskArgument, job_ids

if TYPE_CHECKING:
    from jedi_client.models import ListedRange, TaskEvents

ROWS = 30
"""Default number of files, consumers and ranges for people; programs get 1000."""
_ALL = 1_000


def events(
    task: TaskArgument,
    job: Annotated[
        int | None,
        typer.Option(
            "--job",
            metavar="PANDAID",
            autocompletion=job_ids,
            help="Ranges of this job; of a merge job, of its job set.",
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Ranges in this status, such as ready; repeatable."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help=f"Most rows of a table; default {ROWS}."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the ranges of events of a task: by status, file and consumer; rate and forecast.

    With a job or a status, each range, too. Example: `jedi-task events 1 --status failed`
    """
    with service() as jedi:
        found = jedi.task_events(
            task, panda_id=job, status=status, limit=limit or (_ALL if as_json else ROWS)
        )
    show(found, as_json, lambda: _show(found, whole=status is None, now=job is None))


def _show(found: TaskEvents, *, whole: bool, now: bool) -> None:
    """Print the tables; `whole`: of ranges in all statuses, `now`: of all jobs."""
    print_line = console().print
    if not found.statuses:
        print_line(f"Task {found.jedi_task_id} has no such ranges of events.")
        return
    if whole:
        lost = sum(one.n_events for one in found.statuses if one.status == "fatal")
        n_events = found.n_processed + found.n_left + lost
        parts = [
            f"{found.n_processed} of {n_events} events processed",
            f"{lost} failed for good" if lost else "",
            pace_sentence(found.rate_per_s, found.n_left, "events") if now and found.n_left else "",
        ]
        if n_events:  # none of a task that has failed
            print_line("; ".join(filter(None, parts)))
    rows = [[one.status, one.n_ranges, one.n_events] for one in found.statuses]
    table(["status", "ranges", "events"], rows)
    table(
        ["file", "events", "ranges", "processed", "left"],
        [[one.lfn, one.n_events, one.n_ranges, one.n_processed, one.n_left] for one in found.files],
        spare=("events",),
        short=("file",),
    )
    table(
        ["job", "kind", "status", "sub-status", "site", "events", "ranges", "processed", "left"],
        [
            [
                one.panda_id,
                one.kind,
                one.status,
                one.substatus,
                one.site,
                one.n_events,
                one.n_ranges,
                one.n_processed,
                one.n_left,
            ]
            for one in found.consumers
        ],
        spare=("kind", "site", "events"),
    )
    if found.ranges:
        _ranges(found.ranges)


def _ranges(found: list[ListedRange]) -> None:
    table(
        ["range", "file", "first", "last", "status", "attempts", "job", "zip", "error"],
        [
            [
                one.range_id,
                one.lfn,
                one.start_event,
                one.end_event,
                one.status,
                one.attempt_nr,
                one.panda_id,
                one.zip_lfn,
                one.error_diag,
            ]
            for one in found
        ],
        spare=("zip", "attempts", "job"),
        short=("file", "error"),
    )
