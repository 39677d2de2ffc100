"""`jedi agent` and `jedi db`: single parts of the system, for cron, systemd and repairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from jedi_client.cli.common import NO, Json, application, show, table

from jedi.cli.database import database
from jedi.core.settings import caller

agent_app = application("The agents: each moves tasks or jobs from one status to the next.")
db_app = application("The database: its URL, the version of its schema, backups.")
GROUPS = {"agent": agent_app, "db": db_app}

Leashed = Annotated[bool, typer.Option("--leashed", hidden=True)]
"""Ends this process with the supervisor, which holds its standard input."""


def _complete(incomplete: str) -> list[str]:
    from jedi.agent.registry import AGENTS

    return [name for name in AGENTS if name.startswith(incomplete)]


@agent_app.command("run")
def agent_run(
    name: Annotated[
        str, typer.Argument(help="An agent of `jedi agent list`.", autocompletion=_complete)
    ],
    once: Annotated[bool, typer.Option("--once", help="End when there is no work.")] = False,
    leashed: Leashed = False,
) -> None:
    """Run an agent until SIGTERM, or until all work is done.

    Example: `jedi agent run JobGenerator --once`
    """
    from jedi.core import loading

    loading.begin()
    from jedi.standalone.parts import run_agent

    run_agent(name, once=once, leashed=leashed)


@agent_app.command("list")
def agent_list(as_json: Json = False) -> None:
    """List the agents and their work.

    Example: `jedi agent list`
    """
    from inspect import getdoc

    from jedi.agent import registry

    abouts = {name: getdoc(registry.load(name)) or "" for name in registry.AGENTS}
    rows = [
        {"agent": name, "about": " ".join(about.partition("\n\n")[0].split())}
        for name, about in abouts.items()
    ]
    show(rows, as_json, lambda: table(["agent", "work"], [[*r.values()] for r in rows]))


@db_app.command("url")
def db_url() -> None:
    """Print the URL of the database for libpq.

    Example: `psql "$(jedi db url)"`
    """
    from jedi.standalone.installation import Installation

    typer.echo(Installation.current().libpq_url)


@db_app.command("upgrade")
def db_upgrade(as_json: Json = False) -> None:
    """Bring the schema to the version of this release. Stop all agents first; services may run.

    Example: `jedi db upgrade`
    """
    _migrate("upgrade", "head", as_json)


@db_app.command("downgrade")
def db_downgrade(
    revision: Annotated[str, typer.Argument(help="The version to go back to; `base` is empty.")],
    as_json: Json = False,
) -> None:
    """Take the schema back to an earlier version, with its data. Stop the agents first.

    Example: `jedi db downgrade 0008`
    """
    _migrate("downgrade", revision, as_json)


def _migrate(direction: Literal["upgrade", "downgrade"], revision: str, as_json: bool) -> None:
    from jedi.service.users import operators
    from jedi.standalone.installation import Installation
    from jedi.taskbuffer.schema import migrate

    with database() as engine:
        before = migrate.current(engine)
        if before is not None:
            with engine.begin() as tx:
                operators.may_migrate(tx, caller())
                if direction == "downgrade" or before != migrate.head():
                    operators.must_run_no_agents(tx)
        if direction == "upgrade":
            migrate.upgrade(engine, revision, Installation.current().seal)
        else:
            migrate.downgrade(engine, revision)
        after = migrate.current(engine)
        if after == migrate.head():
            with engine.begin() as tx:
                operators.make_first_operator(tx, Installation.current().creator)
    value = {"before": before, "after": after}
    show(value, as_json, lambda: typer.echo(f"schema: {before or 'none'} -> {after or 'none'}"))


@db_app.command("backup")
def db_backup(
    target: Annotated[
        Path, typer.Argument(help="A directory, made if need be; or a new file (NAME.dump).")
    ],
    as_json: Json = False,
) -> None:
    """Write the whole database to a file while JEDI runs; files of datasets are not in it.

    Example: `jedi db backup /backups`
    """
    from jedi.standalone.backup import backup
    from jedi.standalone.installation import Installation

    file = backup(Installation.current(), target)
    value = {"file": str(file), "bytes": file.stat().st_size}
    show(value, as_json, lambda: typer.echo(f"{file}: {value['bytes']:,} bytes"))


@db_app.command("restore")
def db_restore(
    source: Annotated[Path, typer.Argument(help="A file of `jedi db backup`.")],
    as_json: Json = False,
) -> None:
    """Make the database of a new home from a backup. Inputs of jobs that ran since are tried again.

    The old system must be down: storage is the same, and outputs that are made again are removed.

    Example: `JEDI_HOME=~/jedi-new jedi db restore /backups/jedi-20260101T000000Z.dump`
    """
    from jedi.standalone.backup import restore
    from jedi.standalone.installation import Installation

    done = restore(Installation.current(), source)
    sentence = (
        f"{done.file} is restored; {done.jobs} jobs are tried again, {done.files} files removed."
    )
    for endpoint, files in done.unseen.items():
        sentence += (
            f" {len(files)} files that wait for a merge, such as {files[0]}, are at the removed "
        )
        sentence += f"endpoint {endpoint}: import it again, or kill their tasks."
    show(done, as_json, lambda: typer.echo(f"{sentence} `jedi up` continues."))


@db_app.command("check")
def db_check(as_json: Json = False) -> None:
    """Compare the schema with that of this release; exit code 1 if they differ.

    Example: `jedi db check && jedi up`
    """
    from jedi.taskbuffer.schema import migrate

    with database() as engine:
        current, head = migrate.current(engine), migrate.head()
        differences = [str(one) for one in migrate.differences(engine)] if current == head else []
    value = {"current": current, "head": head, "differences": differences}

    def people() -> None:
        typer.echo(f"schema: {current or 'none'}, this release: {head}")
        for difference in differences:
            typer.echo(f"differs: {difference}")

    show(value, as_json, people)
    if current != head or differences:
        raise typer.Exit(NO)
