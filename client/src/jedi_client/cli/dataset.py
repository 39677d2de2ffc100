"""`jedi dataset`, `jedi-task dataset`: local files become datasets; datasets are shown, opened and
closed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jedi_client.cli.common import DryRun, Json, application, console, service, show, table
from jedi_client.errors import JediError
from jedi_client.paging import PAGE, pages

dataset_app = application("Datasets: make, fill, close and list them.")


@dataset_app.command("add")
def dataset_add(
    dataset: Annotated[str, typer.Argument(metavar="SCOPE:NAME")],
    files: Annotated[list[Path], typer.Argument(metavar="FILES...")],
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="Endpoint that gets the files.")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Add local files to a dataset, all or none. JEDI makes the dataset if it does not exist, and
    closes it unless it is open already. Your scopes are NAME and user.NAME, with your user name;
    operators use any.

    The files travel to the service, and it verifies them. If it breaks off, run the same command
    again: it goes on where it was, and adds nothing twice.

    Example: `jedi-task dataset add user.me:texts *.txt`
    """
    from rich.progress import Progress

    from jedi_client.dataset_files import offer, send

    name = dataset.removesuffix("/")
    screen = console(stderr=True)
    with service() as jedi:
        local, states = offer(jedi, name, files, endpoint)
        if dry_run:
            rows = [[one.lfn, one.status, one.received] for one in states]
            show(
                states,
                as_json,
                lambda: table(["file", "status", "bytes there"], rows),
                dry_run=True,
            )
            return
        with Progress(console=screen, disable=not screen.is_terminal, transient=True) as progress:
            bar = progress.add_task("uploading", total=None)
            send(
                jedi,
                name,
                local,
                states,
                endpoint,
                lambda sent, total: progress.update(bar, completed=sent, total=total),
            )
        added = jedi.dataset_add(name, files=[*local], endpoint=endpoint)
    new = sum(one.added for one in added)
    before = f", {len(added) - new} were there before" if new < len(added) else ""
    show(added, as_json, lambda: typer.echo(f"Files put into {name}: {new}{before}."))


@dataset_app.command("create")
def dataset_create(
    dataset: Annotated[str, typer.Argument(metavar="SCOPE:NAME")],
    is_open: Annotated[
        bool, typer.Option("--open", help="More files will come: tasks wait for them.")
    ] = False,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="Endpoint of its files.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an empty dataset. Tasks process the files of an open dataset as they arrive, until
    it is closed.

    Example: `jedi dataset create user.me:run7 --open`
    """
    with service() as jedi:
        made = jedi.dataset_create(
            dataset.removesuffix("/"), state="open" if is_open else "closed", endpoint=endpoint
        )
    show(made, as_json, lambda: typer.echo(f"Dataset {made.name} ({made.state})."))


@dataset_app.command("close")
def dataset_close(
    dataset: Annotated[str, typer.Argument(metavar="SCOPE:NAME")], as_json: Json = False
) -> None:
    """Close a dataset: no more files come, and its tasks can end.

    Example: `jedi dataset close user.me:run7`
    """
    with service() as jedi:
        closed = jedi.dataset_close(dataset.removesuffix("/"))
    show(closed, as_json, lambda: typer.echo(f"Dataset {closed.name} ({closed.state})."))


def _complete_dataset(incomplete: str) -> list[str]:
    try:
        with service() as jedi:
            found = jedi.dataset_list(pattern=f"{incomplete}*")
    except JediError:  # completion has nobody to complain to
        return []
    return [one.name for one in found]


@dataset_app.command("list")
def dataset_list(
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="[SCOPE:NAME|PATTERN]",
            autocompletion=_complete_dataset,
            help="A dataset, to list its files; or a pattern of datasets, * is anything.",
        ),
    ] = "*",
    as_json: Json = False,
) -> None:
    """List the datasets that match a pattern; or the files of one dataset or container.

    Example: `jedi dataset list "user.me:*"`
    """
    with service() as jedi:
        if "*" in pattern:
            some = pages(
                lambda last: jedi.dataset_list(
                    pattern=pattern, after=last.name if last else None, limit=PAGE
                )
            )
            rows = [[one.name, one.state or "unreadable"] for one in some]
            show(some, as_json, lambda: table(["dataset", "state"], rows))
            return
        found = jedi.dataset_show(pattern.removesuffix("/"))

    def people() -> None:
        kind = "Container" if found.is_container else "Dataset"
        typer.echo(f"{kind} {found.name} ({found.state})")
        table(
            ["endpoint", "files", "bytes"],
            [[r.endpoint, r.n_files, r.size] for r in found.replicas],
        )
        table(
            ["file", "bytes", "adler32", "events", "GUID"],
            [[f.lfn, f.size, f.adler32, f.nevents, f.guid] for f in found.files],
            spare=("GUID", "events", "adler32"),
            short=("file",),
        )
        if found.left_out:
            table(["left out", "reason"], [[*one] for one in found.left_out.items()])

    show(found, as_json, people)
