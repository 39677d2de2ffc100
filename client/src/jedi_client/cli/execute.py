"""`jedi-task exec -- COMMAND`: a task without a file, for one command."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jedi_client.cli.common import DryRun, Json, show
from jedi_client.cli.task_commands import CommandKey
from jedi_client.cli.upload import all_mistakes, submitting, upload
from jedi_client.errors import BadInput


def execute(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="The command with its arguments, or one line."
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option("--input", metavar="SCOPE:NAME", help="A dataset: one job for each file."),
    ] = None,
    per_job: Annotated[int, typer.Option("--files-per-job", min=1, help="Files of a job.")] = 1,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", metavar="FILE", help="A local file that the task uploads; repeatable."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The task's name.")] = None,
    key: CommandKey = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run a command as a job, or once for each file of a dataset; its stdout is the output.

    The file's name takes the place of ${IN}, or stands at the end. Quote a line with pipes.

    Example: `jedi-task exec --input user.me:texts -- wc -w`
    """
    with submitting() as jedi:
        ask = partial(
            jedi.task_exec,
            command=command,
            dataset=dataset,
            files_per_job=per_job,
            name=name,
            files=files,
        )
        try:
            sandbox = upload(jedi, files, Path.cwd()) if files else None
        except BadInput as error:
            bad = [(files or [], error.problems)]
            raise BadInput(all_mistakes(bad, lambda: ask(dry_run=True))) from None
        jedi.key = key
        done = ask(sandbox=sandbox, dry_run=dry_run)
    if dry_run:
        show(
            {"valid": True}, as_json, lambda: typer.echo("The task can be submitted."), dry_run=True
        )
        return
    task = done.jedi_task_id
    value = {"jedi_task_id": task, "status": done.status}
    get = f"`jedi-task watch {task}` follows it, `jedi-task get {task}` gets its output."
    show(value, as_json, lambda: typer.echo(f"Task {task} is submitted ({done.status}). {get}"))
