"""`jedi-task get` and `log`: outputs and histories of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jedi.cli.common import NO, Json, console, show, table, transaction
from jedi.cli.task_commands import CommandComment
from jedi.cli.task_common import TaskArgument, job_ids
from jedi.core.settings import caller
from jedi.core.terminal import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jedi.service.results import OutputCopy, Printed


def get(
    task: TaskArgument,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", file_okay=False, help="By default task-ID.")
    ] = None,
    logs: Annotated[bool, typer.Option("--log", help="The logs of the jobs, too.")] = False,
    as_json: Json = False,
) -> None:
    """Copy the finished outputs of a task into a directory and verify their adler32.

    What is there already is left alone, so it can be repeated. Exit code 1: there is none.

    Example: `jedi-task get 1 results`
    """
    from jedi.ddm import factory
    from jedi.service import results, tasks
    from jedi.taskbuffer.housekeeping import knobs

    where = directory or Path(f"task-{task}")
    with transaction() as tx:
        copies = results.plan_copies(tx, factory.load(tx, knobs.load(tx)), task, where, logs=logs)
        made = tasks.files(tx, task, types=["output"], statuses=["finished"])
    gone = sum(file.gone for file in made)
    copied = fetch(copies)
    value = {
        "directory": str(where),
        "copied": copied,
        "gone": gone,
        "files": [{"path": str(one.target), **_facts(one)} for one in copies],
    }
    there = f", {len(copies) - copied} were there already" if copied < len(copies) else ""
    sentence = f"Files copied to {where}: {copied}{there}; every adler32 is right."
    none = f"Task {task} has no finished output {'any more' if gone else 'yet'}."
    lost = f" Outputs that were removed: {gone}." if gone else ""
    show(value, as_json, lambda: typer.echo(f"{sentence if copies else none}{lost}"))
    if not copies:
        raise typer.Exit(NO)


def fetch(copies: Sequence[OutputCopy]) -> int:
    """Copy all, with a bar on stderr where that is a terminal; how many were not there yet."""
    from rich.progress import Progress

    from jedi.service import results

    screen = console(stderr=True)
    with Progress(console=screen, disable=not screen.is_terminal, transient=True) as progress:
        return sum(results.fetch(one) for one in progress.track(copies, description="copying"))


def _facts(copy: OutputCopy) -> dict[str, object]:
    file = copy.file
    return {"dataset": file.dataset, "lfn": file.lfn, "size": file.size, "adler32": file.adler32}


KeepDays = Annotated[
    float,
    typer.Option(
        "--after", metavar="DAYS", min=0, max=36_500, help="Days before they are removed."
    ),
]


def clean(
    task: TaskArgument,
    after: KeepDays = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    comment: CommandComment = None,
    as_json: Json = False,
) -> None:
    """Let the outputs of a task that has ended go: they are removed within a minute or, with
    `--after`, in so many days. Logs are kept. It is refused while another task uses them.

    Example: `jedi-task clean 1 --dry-run`
    """
    from jedi.service import cleaning

    with transaction() as tx:
        found = cleaning.clean(tx, caller(), task, after, comment, dry_run=dry_run)

    def people() -> None:
        table(["dataset", "files", "bytes"], [[one.dataset, one.files, one.bytes] for one in found])
        when = f"in {after:g} days" if after else "now"
        tense = "would be" if dry_run else "are"
        typer.echo(f"Files that {tense} removed {when}: {sum(one.files for one in found)}.")

    show(found, as_json, people)


def log(
    task: TaskArgument,
    job: Annotated[
        int | None,
        typer.Option(
            "--job", metavar="PANDAID", autocompletion=job_ids, help="Show the output of this job."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the status history of a task, or the output of one of its jobs.

    Example: `jedi-task log 1 --job 17`
    """
    from jedi.ddm import factory
    from jedi.service import results, tasks
    from jedi.taskbuffer.housekeeping import knobs

    with transaction() as tx:
        if job is not None:
            ddm = factory.load(tx, knobs.load(tx))
            printed = results.printed(tx, ddm, task, job)
            show(printed, as_json, lambda: show_printed(printed))
            return
        steps = tasks.history(tx, task)
    rows = [[s.time, s.status, s.agent, s.user_name, s.reason or s.reason_code] for s in steps]
    show(steps, as_json, lambda: table(["since", "status", "agent", "user", "reason"], rows))


def show_printed(printed: Printed) -> None:
    """stdout goes to stdout; what frames it goes to stderr, so that it can be piped. Controls of
    a terminal are shown, not obeyed: --json and the log file have them as they are."""
    console(stderr=True).print(f"job {printed.panda_id} ({printed.status}), from {printed.source}")
    typer.echo(harmless(printed.stdout), nl=False)
    typer.echo(harmless(printed.stderr), nl=False, err=True)
