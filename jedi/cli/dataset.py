"""`jedi dataset`: local files become datasets; datasets are shown, opened and closed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from jedi_client.cli.common import Json, application, service, show, table

from jedi.cli.database import must_be_here, transaction
from jedi.core.errors import JediError

dataset_app = application("Datasets: make, fill, close and list them.")


@dataset_app.command("add")
def dataset_add(
    dataset: Annotated[str, typer.Argument(metavar="SCOPE:NAME")],
    files: Annotated[list[Path], typer.Argument(metavar="FILES...")],
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="Endpoint that gets the files.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy local files into a dataset. JEDI makes the dataset if it does not exist, and closes
    it unless it is open already.

    It runs on the machine of JEDI_HOME, with its database and storage: the service takes no uploads
    of datasets yet.

    Example: `jedi dataset add user.me:texts *.txt`
    """
    from jedi.ddm import factory
    from jedi.service.datasets import add_files
    from jedi.taskbuffer.housekeeping import knobs

    must_be_here("jedi dataset add")
    with transaction() as tx:
        added = add_files(tx, factory.load(tx, knobs.load(tx)), dataset, files, endpoint)
    show(added, as_json, lambda: typer.echo(f"Files put into {dataset}: {len(added)}."))


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
            metavar="[SCOPE:NAME|PATTERN]", autocompletion=_complete_dataset,
            help="A dataset, to list its files; or a pattern of datasets, * is anything.",
        ),
    ] = "*",
    as_json: Json = False,
) -> None:  # fmt: skip
    """List the datasets that match a pattern; or the files of one dataset or container.

    Example: `jedi dataset list "user.me:*"`
    """
    with service() as jedi:
        if "*" in pattern:
            some = jedi.dataset_list(pattern=pattern)
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

    show(found, as_json, people)
