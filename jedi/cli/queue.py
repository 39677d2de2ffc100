"""`jedi queue`: shares and limits of the workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from jedi_client.cli.common import DryRun, Json, application, read_file, service, show, table
from jedi_client.cli.task_common import task_ids

queue_app = application("Work queues: shares and limits of the workload.")

QueueFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A YAML file.")]


@queue_app.command("import")
def queue_import(file: QueueFile, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Insert or replace the work queues of FILE, identified by queue_id.

    Example: `jedi queue import queues.yaml`
    """
    with service() as jedi:
        rows = jedi.queue_import(text=read_file(file), dry_run=dry_run)
    show(rows, as_json, lambda: typer.echo(f"{len(rows)} queues imported."), dry_run=dry_run)


@queue_app.command("list")
def queue_list(as_json: Json = False) -> None:
    """List the work queues in the order in which JEDI tries them for a task.

    Example: `jedi queue list`
    """
    with service() as jedi:
        queues = jedi.queue_list()
    headers = ["id", "name", "vo", "label", "share", "order", "partition", "criteria", "status"]
    keys = "queue_id queue_name vo queue_type queue_share queue_order partitionid criteria status"
    show(
        queues,
        as_json,
        lambda: table(
            headers,
            [[getattr(q, k) for k in keys.split()] for q in queues],
            spare=("partition", "order", "share", "criteria"),
        ),
    )


@queue_app.command("test")
def queue_test(
    task: Annotated[
        int | None, typer.Option("--task", autocompletion=task_ids, help="Only this task.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the tasks that each work queue would take now, ended ones left out.

    A task goes to the first queue whose criteria hold; `holds for` counts later ones, too. Invalid
    criteria hold for no task, and `wrong` gives the reason.

    Example: `jedi queue test --task 1`
    """
    with service() as jedi:
        queues = jedi.queue_test(jedi_task_id=task)
    headers = ["queue", "name", "criteria", "takes", "holds for", "such as", "wrong"]
    rows = [
        [q.queue_id, q.queue_name, q.criteria, q.tasks, q.holds_for, q.examples, q.wrong]
        for q in queues
    ]
    show(queues, as_json, lambda: table(headers, rows))


@queue_app.command("explain")
def queue_explain(as_json: Json = False) -> None:
    """Show the allocation and use of each work queue in cores, in the order of service.

    Example: `jedi queue explain`
    """
    with service() as jedi:
        shares = jedi.queue_shares()
    headers = [
        "queue",
        "share",
        "stretches",
        "active",
        "entitled",
        "allocated",
        "used",
        "wanted",
        "used/allocated",
    ]
    keys = "queue_name queue_share stretchable active entitlement allocation usage demand ratio"
    rows = [[getattr(q, k) for k in keys.split()] for q in shares]
    show(shares, as_json, lambda: table(headers, rows))
