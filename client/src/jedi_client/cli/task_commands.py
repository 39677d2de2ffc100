"""The verbs of `jedi-task` that command tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jedi_client.cli.common import NO, DryRun, Json, service, show
from jedi_client.cli.task_common import AnyTaskIds, TaskArgument, TaskIds
from jedi_client.cli.upload import upload
from jedi_client.errors import BadInput, Problem

if TYPE_CHECKING:
    from jedi_client.models import Answered


class ChangeableAttribute(StrEnum):
    """Attributes of a task that may change while it runs."""

    PRIORITY = "priority"


CommandComment = Annotated[
    str | None, typer.Option("--comment", help="The reason, shown with the task.")
]
CommandKey = Annotated[
    str | None,
    typer.Option(
        "--key", help="Repeating the command with the same key gives its answer again; no more."
    ),
]


def kill(
    tasks: TaskIds, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Kill tasks: their jobs end, and finished outputs stay.

    Example: `jedi-task kill 1 2 --comment "wrong input"`
    """
    _command("kill", tasks, comment, dry_run, as_json)


def finish(
    tasks: TaskIds,
    soft: Annotated[
        bool, typer.Option("--soft", help="Let running jobs end; only queued ones are killed.")
    ] = False,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Finish tasks early with their present outputs: the remaining files count as failed.

    Example: `jedi-task finish 1 --soft`
    """
    _command("finish", tasks, comment, dry_run, as_json, soft=soft)


def retry(
    tasks: TaskIds,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the present priority.")] = False,
    sole: Annotated[bool, typer.Option("--sole", help="Their children don't follow.")] = False,
    discard: Annotated[
        bool,
        typer.Option(
            "--discard", help="Process whole files again if only some of their events failed."
        ),
    ] = False,
    staged: Annotated[
        bool, typer.Option("--staged", help="Don't wait for files from tape.")
    ] = False,
    transcend: Annotated[
        bool, typer.Option("--transcend", help="Ignore the limits of cost (knobs retry.*).")
    ] = False,
    new_code: Annotated[
        list[str] | None,
        typer.Option("--new-code", metavar="FILE", help="Run these local files; repeatable."),
    ] = None,
    like_job: Annotated[
        int | None,
        typer.Option(
            "--like",
            metavar="JOB",
            min=1,
            help="Only files whose last job failed by the same cause as this one.",
        ),
    ] = None,
    key: CommandKey = None,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Try failed files of finished, failed or exhausted tasks again.

    Example: `jedi-task retry 1 --new-code mended.sh && jedi-task watch 1`
    """
    sandbox = _keep(tasks, new_code) if new_code else None
    _command(
        "retry",
        tasks,
        comment,
        dry_run,
        as_json,
        key,
        keep=keep,
        sole=sole,
        discard=discard,
        staged=staged,
        transcend=transcend,
        sandbox=sandbox,
        like_job=like_job,
    )


def _keep(tasks: list[int], files: list[str]) -> str:
    """Keep new code; warn of commands that do not use it."""
    with service() as jedi:
        sandbox = upload(jedi, files, Path.cwd())
        for warning in jedi.task_cautions(jedi_task_ids=tasks, sandbox=sandbox):
            typer.echo(f"Warning: {warning}", err=True)
    return sandbox


def recover(
    tasks: AnyTaskIds = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="All tasks that made files of this dataset.")
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--files",
            metavar="LFN",
            help="Lost files; repeatable. Default: all that data management does not have.",
        ),
    ] = None,
    sole: Annotated[bool, typer.Option("--sole", help="Their children don't follow.")] = False,
    key: CommandKey = None,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Make lost outputs again, and their inputs, too, if these are lost.

    Example: `jedi-task recover 1` or `jedi-task recover --dataset me:out --files out.000003.txt`
    """
    if not tasks and not dataset:
        remedy = "Name tasks, or a dataset with --dataset"
        raise BadInput([Problem("ID", None, "nothing is named", remedy)])
    with service() as jedi:
        jedi.key = key
        found = jedi.task_recover(
            jedi_task_ids=tasks,
            dataset=dataset,
            files=files,
            sole=sole,
            comment=comment,
            dry_run=dry_run,
        )

    def people() -> None:
        for one in found.tasks:
            for name, lfns in one.files.items():
                typer.echo(
                    f"Task {one.jedi_task_id} makes files of {name} again, as attempt "
                    f"{one.attempt_nr}: {len(lfns)}."
                )
        for name, lfn in found.gone:
            typer.echo(f"Input {lfn} of {name} is lost, too, and no task makes it.")
        for refused in found.refused:
            typer.echo(refused.sentence, err=True)

    show(found, as_json, people, dry_run=dry_run)
    if found.refused:
        raise typer.Exit(NO)


def incexec(
    tasks: TaskIds,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a parameter; null removes it."),
    ] = None,
    key: CommandKey = None,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Continue tasks that have ended, with new files of their inputs or changed parameters.

    Example: `jedi-task incexec 1 --set nFilesPerJob=2 --set maxAttempt=5`
    """
    _command("incexec", tasks, comment, dry_run, as_json, key, settings=settings)


def pause(
    tasks: TaskIds, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Pause tasks: they start nothing new, and running jobs run to their end.

    Example: `jedi-task pause 1 --comment "the storage is being repaired"`
    """
    _command("pause", tasks, comment, dry_run, as_json)


def resume(
    tasks: TaskIds, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Resume paused tasks.

    Example: `jedi-task resume 1`
    """
    _command("resume", tasks, comment, dry_run, as_json)


def avalanche(
    tasks: TaskIds, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Release all jobs of tasks without waiting for their scouts.

    Example: `jedi-task avalanche 1`
    """
    _command("avalanche", tasks, comment, dry_run, as_json)


def release(
    tasks: TaskIds, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Stop waiting for files from tape: jobs read the tape themselves.

    Example: `jedi-task release 1`
    """
    _command("release", tasks, comment, dry_run, as_json)


def reassign(
    tasks: TaskIds,
    site: Annotated[str | None, typer.Option("--site", help="The site of new jobs.")] = None,
    nucleus: Annotated[
        str | None, typer.Option("--nucleus", help="The nucleus that collects the outputs.")
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Kill only jobs that are queued.")] = False,
    nokill: Annotated[
        bool, typer.Option("--nokill", help="Kill no job: only new ones go to the new place.")
    ] = False,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Send tasks to another site or nucleus. Their jobs are closed; new ones are made there.

    Example: `jedi-task reassign 1 --site HERE --soft`
    """
    _command(
        "reassign",
        tasks,
        comment,
        dry_run,
        as_json,
        site=site,
        nucleus=nucleus,
        soft=soft,
        nokill=nokill,
    )


def change(
    task: TaskArgument,
    key: Annotated[
        ChangeableAttribute, typer.Argument(metavar="ATTRIBUTE", help="The attribute to change.")
    ],
    value: Annotated[int, typer.Argument(metavar="VALUE", help="The new value.")],
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Change the priority of a task and of its waiting jobs. (Parameters of a task that has ended
    change with `incexec --set`.)

    Example: `jedi-task set 1 priority 1100`
    """
    with service() as jedi:
        done = jedi.task_set_priority(task, priority=value, dry_run=dry_run)
    sentence = f"Task {task} has priority {done.priority}; waiting jobs that follow: {done.jobs}."
    show(done, as_json, lambda: typer.echo(sentence), dry_run=dry_run)


def _command(
    name: str,
    tasks: list[int],
    comment: str | None,
    dry_run: bool,
    as_json: bool,
    key: str | None = None,
    **arguments: Any,
) -> None:
    """Command each task; a refusal does not stop the others."""
    given = {key: value for key, value in arguments.items() if value}
    with service() as jedi:
        jedi.key = key
        ask: Callable[..., list[Answered]] = getattr(jedi, f"task_{name}")
        answers = ask(jedi_task_ids=tasks, comment=comment, dry_run=dry_run, **given)

    def people() -> None:
        for one in answers:
            typer.echo(f"Task {one.jedi_task_id}: {one.sentence}")

    show(
        [
            {key: value for key, value in asdict(one).items() if value is not None}
            for one in answers
        ],
        as_json,
        people,
        dry_run=dry_run,
    )
    if not all(one.accepted for one in answers):
        raise typer.Exit(NO)
