"""`jedi site`, `queue`, `config`, `dataset`, `user`: the objects of operators."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from jedi_client.cli.common import DryRun, Json, application, read_file, service, show, table
from jedi_client.cli.dataset import dataset_app

from jedi.cli import notify
from jedi.cli.database import must_be_here, transaction
from jedi.cli.queue import queue_app
from jedi.core.errors import JediError

if TYPE_CHECKING:
    from jedi_client.models import AttributeChange, KnobValue

site_app = application("Sites, at which jobs run.")
config_app = application("Knobs: live settings, each with the author and time of its last change.")
user_app = application("Users: their permissions and notifications.")
user_app.command("notify")(notify.notify)
GROUPS = {
    "site": site_app,
    "queue": queue_app,
    "config": config_app,
    "dataset": dataset_app,
    "user": user_app,
}


def _complete_site(incomplete: str) -> list[str]:
    try:
        with service() as jedi:
            names = [one.site for one in jedi.site_list()]
    except JediError:  # completion has nobody to complain to
        return []
    return [name for name in names if name.startswith(incomplete)]


Site = Annotated[str, typer.Argument(help="A site.", autocompletion=_complete_site)]
ImportedFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A YAML file.")]
ChangeComment = Annotated[
    str | None, typer.Option("--comment", help="The reason, for the history.")
]


def _complete_knob(incomplete: str) -> list[str]:
    from jedi.core.knobs import KNOBS

    return [name for name in KNOBS if name.startswith(incomplete)]


KnobName = Annotated[
    str, typer.Argument(help="A knob, `component.key`.", autocompletion=_complete_knob)
]


class Role(StrEnum):
    """Roles of users."""

    USER = "user"
    PRODUCTION = "production"
    OPERATOR = "operator"


class Preset(StrEnum):
    """Values of unset knobs."""

    CLASSIC = "classic"
    CURRENT = "current"


@site_app.command("import")
def site_import(
    file: ImportedFile,
    comment: ChangeComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Insert or update the sites of FILE (or of a JSON dump of CRIC). Attributes that an
    entry leaves out stay unchanged.

    Example: `jedi site import sites.yaml --comment "new storage"`
    """
    with service() as jedi:
        changes = jedi.site_import(text=read_file(file), comment=comment, dry_run=dry_run)
    show(changes, as_json, lambda: show_changes(changes), dry_run=dry_run)


@site_app.command("set")
def site_set(
    site: Site,
    attributes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    comment: Annotated[str, typer.Option("--comment", help="The reason, for the history.")],
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Set attributes of a site, values as in a site file.

    Example: `jedi site set LOCAL nslots=8 status=online --comment "back from repair"`
    """
    with service() as jedi:
        changes = jedi.site_set(site, settings=attributes, comment=comment, dry_run=dry_run)
    show(changes, as_json, lambda: show_changes(changes), dry_run=dry_run)


def show_changes(changes: Sequence[AttributeChange]) -> None:
    if not changes:
        typer.echo("Nothing changed.")
        return
    rows = [[c.site, c.attribute, c.old, c.new] for c in changes]
    table(["site", "attribute", "before", "now"], rows, folded=True)


@site_app.command("attributes")
def site_attributes(as_json: Json = False) -> None:
    """List the attributes of a site file, with their units and defaults.

    Example: `jedi site attributes`
    """
    with service() as jedi:
        attributes = jedi.site_attributes()
    rows = [[one.name, one.default, one.meaning] for one in attributes]
    show(attributes, as_json, lambda: table(["attribute", "default", "meaning"], rows))


@site_app.command("list")
def site_list(as_json: Json = False) -> None:
    """List the sites.

    Example: `jedi site list`
    """
    with service() as jedi:
        sites = jedi.site_list()
    columns = "site status role nslots corecount maxrss submitter endpoints"
    spare = "submitter maxrss corecount role endpoints"
    show(sites, as_json, lambda: show_columns(columns, sites, spare))


@site_app.command("show")
def site_show(site: Site, as_json: Json = False) -> None:
    """Show all attributes of a site, its endpoints and its last changes.

    Example: `jedi site show LOCAL`
    """
    with service() as jedi:
        found = jedi.site_show(site)

    def people() -> None:
        pilots = {"pilots wait": found.trouble} if found.trouble else {}
        table(["attribute", "value"], (found.attributes | pilots).items())
        show_columns("ddm_endpoint type path space_free space_min_free", found.endpoints)
        columns = "modificationtime username attribute oldvalue newvalue comment"
        show_columns(columns, found.history)

    show(found, as_json, people)


@site_app.command("token")
def site_token(
    site: Site,
    days: Annotated[
        float, typer.Option("--days", min=0, max=36500, help="Life of the token.")
    ] = 30.0,
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="TOKEN", help="Revoke this token instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a token for pilots that another system starts at a site. It is shown once.

    Example: `jedi site token GRID --days 90`
    """
    with service() as jedi:
        if revoke:
            jedi.site_revoke_token(site, token=revoke)
            return
        made = jedi.site_create_token(site, days=days)
    show(made, as_json, lambda: typer.echo(made.token))


@config_app.command("list")
def config_list(as_json: Json = False) -> None:
    """List every knob with the value in force.

    Example: `jedi config list`
    """
    with service() as jedi:
        settings = jedi.config_list()
    show(
        settings,
        as_json,
        lambda: table(
            ["knob", "value", "unit", "set by", "meaning"],
            [[s.name, s.value, s.unit, s.set_by, s.meaning] for s in settings],
            spare=("set by", "unit"),
        ),
    )


@config_app.command("get")
def config_get(knob: KnobName, as_json: Json = False) -> None:
    """Show a knob, its meaning and its changes.

    Example: `jedi config get agent.poll_s`
    """
    with service() as jedi:
        setting, history = jedi.config_show(knob), jedi.config_history(knob)

    def people() -> None:
        typer.echo(f"{setting.name} = {setting.value} [{setting.unit}]")
        typer.echo(f"{setting.meaning}; preset {setting.default!r}")
        if history:
            rows = [[c.at, c.by, "preset" if c.value is None else c.value] for c in history]
            table(["when", "who", "value"], rows)

    show({"setting": setting, "history": history}, as_json, people)


@config_app.command("set", context_settings={"ignore_unknown_options": True})  # -1 is a value
def config_set(knob: KnobName, value: str, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Set a knob. Agents use it from their next cycle.

    Example: `jedi config set pilot.idle_s 30`
    """
    with service() as jedi:
        now = jedi.config_set(knob, value=value, dry_run=dry_run)
    for warning in now.warnings:
        typer.echo(f"Warning: {warning[0].lower()}{warning[1:]}", err=True)
    _show_knob(now, dry_run, as_json)


@config_app.command("unset")
def config_unset(
    knob: KnobName,
    here: Annotated[
        bool,
        typer.Option("--here", help="In JEDI_HOME's database, for a service that can't start."),
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Unset a knob: the preset's value holds again.

    Example: `jedi config unset pilot.idle_s`
    """
    if here:
        from jedi_client.models import KnobValue

        from jedi.core.settings import caller
        from jedi.host.home import Home
        from jedi.service.operations.table import Call, KnownCaller
        from jedi.service.system import knobs

        must_be_here("jedi config unset --here")
        with transaction() as tx, tx.begin_nested() as point:
            done = knobs.unset(Call(tx, KnownCaller(caller(), "socket"), Home.current()), knob)
            if dry_run:
                point.rollback()
        now = KnobValue(knob, done.value, [])
    else:
        with service() as jedi:
            now = jedi.config_unset(knob, dry_run=dry_run)
    _show_knob(now, dry_run, as_json)


@config_app.command("preset")
def config_preset(preset: Preset, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Choose the values of unset knobs: the JEDI document's or PanDA's of today.

    Example: `jedi config preset current`
    """
    with service() as jedi:
        now = jedi.config_set("core.preset", value=preset.value, dry_run=dry_run)
    _show_knob(now, dry_run, as_json)


def _show_knob(now: KnobValue, dry_run: bool, as_json: bool) -> None:
    show(now, as_json, lambda: typer.echo(f"{now.name} = {now.value}"), dry_run=dry_run)


@user_app.command("list")
def user_list(as_json: Json = False) -> None:
    """List the users with a role, special permissions, a limit or notices.

    Example: `jedi user list`
    """
    with service() as jedi:
        users = jedi.user_list()
    show(users, as_json, lambda: show_columns("user role gridpref running_jobs", users))


@user_app.command("set")
def user_set(
    user: str,
    role: Annotated[
        Role | None,
        typer.Option("--role", help="The user's permissions.", show_default="unchanged"),
    ] = None,
    gridpref: Annotated[
        str | None,
        typer.Option(
            "--gridpref",
            help="Letters: s super user, g super group; k key-pairs and p proxies, for other "
            "services; '' for none.",
            show_default="unchanged",
        ),
    ] = None,
    running_jobs: Annotated[
        int | None,
        typer.Option(
            "--running-jobs",
            min=0,
            help="Most running analysis jobs, instead of the knob caps.user_jobs; 0: no limit.",
            show_default="unchanged",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Set the role of a user, special permissions, and the limit of running jobs.

    Example: `jedi user set alice --role production --gridpref s`
    """
    with service() as jedi:
        value = jedi.user_set(
            user,
            role=role.value if role else None,
            gridpref=gridpref,
            running_jobs=running_jobs,
            dry_run=dry_run,
        )
    pref = f", special permissions {value.gridpref}" if value.gridpref else ""
    cap = "" if value.running_jobs is None else f", running jobs {value.running_jobs or 'any'}"
    sentence = f"{user} is a user of role {value.role}{pref}{cap}."
    show(value, as_json, lambda: typer.echo(sentence), dry_run=dry_run)


def show_columns(columns: str, rows: Sequence[object], spare: str = "") -> None:
    """Print these columns (blank-separated) of rows; `spare` ones go first where a terminal is
    narrow."""
    names = columns.split()
    table(names, [[getattr(row, name) for name in names] for row in rows], spare=spare.split())
