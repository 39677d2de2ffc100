"""`jedi-task herd`, `chain` and `jdl`: tasks with a splitter, as DIRAC's users know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import Json, console, service, show, table
from jedi_client.cli.task_common import TaskArgument, job_ids, task_ids
from jedi_client.errors import BadInput, Problem

if TYPE_CHECKING:
    from jedi_client.models import ChainStep, HerdReport

ROWS = 30
"""Default number of members for people; programs get 1000."""
_ALL = 1_000


TaskOrNone = Annotated[
    int | None,
    typer.Argument(metavar="ID", min=1, autocompletion=task_ids, help="The task's id."),
]
JobOrNone = Annotated[
    int | None,
    typer.Option(
        "--job",
        metavar="PANDAID",
        autocompletion=job_ids,
        help="The task of this job, any attempt, instead of an id.",
    ),
]


def herd(
    task: TaskOrNone = None,
    job: JobOrNone = None,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="UNIT", help="Members behind this unit.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help=f"Most members; default {ROWS}.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the herd of a task or of any of its jobs: splitter, MasterJobID, members.

    Example: `jedi-task herd 1` or `jedi-task herd --job 43`
    """
    _must_be_one(task, job)
    rows = limit or (_ALL if as_json else ROWS)
    with service() as jedi:
        if job is not None:
            found = jedi.job_herd(job, after=after, limit=rows)
        else:
            found = jedi.task_herd(task or 0, after=after, limit=rows)
    show(found, as_json, lambda: _show_herd(found))


def _must_be_one(task: int | None, job: int | None) -> None:
    if (task is None) == (job is None):
        rule = "the id of a task, or --job with that of a job"
        raise BadInput([Problem("ID", task, rule, "Give one of them")])


def _show_herd(found: HerdReport) -> None:
    print_line = console().print
    if found.splitter is None:
        print_line(f"Task {found.jedi_task_id} is no herd: it has no splitter (Single).")
        return
    size = f"{found.n_units} units" if found.n_units is not None else "not split yet"
    print_line(
        f"Task {found.jedi_task_id}: {found.job_split_type} by {found.splitter}, {size}, "
        f"MasterJobID {found.master_job_id}."
    )
    print_line(", ".join(f"{number} {status}" for status, number in found.statuses.items()))
    table(
        [
            "unit",
            "SplitID",
            "JobID",
            "JobSplitType",
            "parameter",
            "latest job",
            "status",
            "attempts",
        ],
        [
            [
                one.unit_nr,
                one.split_id,
                one.origin_panda_id,
                one.job_split_type,
                one.parameter,
                one.panda_id,
                one.status,
                one.n_attempts,
            ]
            for one in found.members
        ],
        spare=("attempts", "JobSplitType"),
        short=("parameter",),
    )
    shown = found.members[-1].unit_nr if found.members else None
    if shown and found.n_units and shown < found.n_units:
        print_line(f"More: --after {shown}, or --limit {found.n_units}.")


def chain(task: TaskArgument, as_json: Json = False) -> None:
    """Show the steps of a task from its submission to its jobs: their states and reasons.

    Example: `jedi-task chain 1`
    """
    with service() as jedi:
        found = jedi.task_chain(task)
    show(found, as_json, lambda: _show_chain(found))


def _show_chain(found: list[ChainStep]) -> None:
    table(
        ["step", "state", "agent", "time", "reason"],
        [[one.name, one.state, one.agent, one.time, one.reason] for one in found],
        spare=("agent",),
        short=("reason",),
    )


def jdl(
    task: TaskOrNone = None,
    job: JobOrNone = None,
    unit: Annotated[
        int | None,
        typer.Option("--unit", min=1, metavar="NUMBER", help="The manifest of this unit, from 1."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the manifest of a task in JDL, as submitted; or that of a unit of a herd.

    Example: `jedi-task jdl 1 --unit 3`
    """
    _must_be_one(task, job)
    with service() as jedi:
        found = task or jedi.job_herd(job or 0, limit=1).jedi_task_id
        text = jedi.task_jdl(found, unit_nr=unit)
    show({"jedi_task_id": found, "jdl": text}, as_json, lambda: typer.echo(text, nl=False))
