"""`jedi snapshot`: the data that brokers use, as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from jedi_client.cli.common import application, service

snapshot_app = application("The data that brokers use, as a file for `jedi-task plan`.")
GROUPS = {"snapshot": snapshot_app}


@snapshot_app.callback()
def _group() -> None:
    """So that `export` is a verb of its own."""


@snapshot_app.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="Output file; default stdout.")] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset", metavar="SCOPE:NAME", help="Dataset whose files are included; repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of lotteries.")] = 0,
) -> None:
    """Write the sites, endpoints, network, statistics, knobs and these datasets into a file.

    Its form is in docs/plan.md.

    Example: `jedi snapshot export snapshot.json --dataset user.me:texts`
    """
    with service() as jedi:
        snapshot = jedi.snapshot_export(dataset=datasets, seed=seed)
    text = json.dumps(snapshot, indent=1) + "\n"
    if file is None:
        typer.echo(text, nl=False)
    else:
        file.write_text(text)
