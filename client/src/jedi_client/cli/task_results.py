"""`jedi-task get` and `log`: outputs and histories of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import NO, DryRun, Json, console, service, show, table
from jedi_client.cli.download import OutputCopy, fetch, plan_copies
from jedi_client.cli.task_commands import CommandComment
from jedi_client.cli.task_common import TaskArgument, job_ids
from jedi_client.paging import PAGE, pages
from jedi_client.statuses import TASK_FINAL
from jedi_client.terminal import harmless

if TYPE_CHECKING:
    from jedi_client.models import Printed


MOST_FILES = 1_000_000


def get(
    task: TaskArgument,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", file_okay=False, help="By default task-ID.")
    ] = None,
    logs: Annotated[bool, typer.Option("--log", help="The logs of the jobs, too.")] = False,
    as_json: Json = False,
) -> None:
    """Copy the finished outputs of a task into a directory and verify their adler32.

    Files that are there already stay, so it can be repeated. Exit code 1: it has none.

    Example: `jedi-task get 1 results`
    """
    where = directory or Path(f"task-{task}")
    with service() as jedi:
        made = jedi.task_files(task, type=["output"], status=["finished"], limit=MOST_FILES)
        outputs = pages(
            lambda last: jedi.task_outputs(
                task, logs=logs, after=last.file_id if last else None, limit=PAGE
            )
        )
        copies = plan_copies(outputs, f"tasks/{task}/files", where)
        copied = fetch(jedi, copies)
        has_ended = not copies and jedi.task_show(task).task.status in TASK_FINAL
    gone = sum(file.gone for file in made)
    value = {
        "directory": str(where),
        "copied": copied,
        "gone": gone,
        "files": [{"path": str(one.target), **_facts(one)} for one in copies],
    }
    there = f", {len(copies) - copied} were there already" if copied < len(copies) else ""
    sentence = f"Files copied to {where}: {copied}{there}; every adler32 is right."
    when = " any more" if gone else "" if has_ended else " yet"
    none = f"Task {task} has no finished output{when}."
    lost = f" Outputs that were removed: {gone}." if gone else ""
    show(value, as_json, lambda: typer.echo(f"{sentence if copies else none}{lost}"))
    if not copies:
        raise typer.Exit(NO)


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
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the outputs of a task that has ended go: they are removed within a minute or, with
    `--after`, in so many days. Logs are kept. It is refused while another task uses them.

    Example: `jedi-task clean 1 --dry-run`
    """
    with service() as jedi:
        found = jedi.task_clean(task, after_days=after, comment=comment, dry_run=dry_run)

    def people() -> None:
        table(["dataset", "files", "bytes"], [[one.dataset, one.files, one.bytes] for one in found])
        when = f"in {after:g} days" if after else "now"
        tense = "would be" if dry_run else "are"
        typer.echo(f"Files that {tense} removed {when}: {sum(one.files for one in found)}.")

    show(found, as_json, people, dry_run=dry_run)


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
    with service() as jedi:
        if job is not None:
            printed = jedi.task_log(task, job)
            show(printed, as_json, lambda: show_printed(printed))
            return
        steps = jedi.task_history(task)
    rows = [[s.time, s.status, s.agent, s.user_name, s.reason or s.reason_code] for s in steps]
    show(steps, as_json, lambda: table(["since", "status", "agent", "user", "reason"], rows))


def show_printed(printed: Printed) -> None:
    """stdout goes to stdout; its frame goes to stderr, so that it can be piped. Controls of a
    terminal are shown, not obeyed: --json and the log file have them as they are."""
    console(stderr=True).print(f"job {printed.panda_id} ({printed.status}), from {printed.source}")
    typer.echo(harmless(printed.stdout), nl=False)
    typer.echo(harmless(printed.stderr), nl=False, err=True)
