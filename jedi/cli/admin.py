"""`jedi site`, `queue`, `config`, `dataset`, `user`: what operators look after."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from jedi_client.cli.common import Json, application, read_file, show, table

from jedi.cli import notify
from jedi.cli.database import transaction
from jedi.cli.queue import queue_app
from jedi.core.errors import JediError
from jedi.core.settings import Settings, caller

if TYPE_CHECKING:
    from jedi.taskbuffer.sites.sites import AttributeChange

site_app = application("Sites: where jobs can run.")
config_app = application("Knobs: every live setting, with who set it when.")
dataset_app = application("Datasets: put local files in, look at what is there.")
user_app = application("Users, what they may do and how they are told of their tasks.")
user_app.command("notify")(notify.notify)
GROUPS = {
    "site": site_app,
    "queue": queue_app,
    "config": config_app,
    "dataset": dataset_app,
    "user": user_app,
}


def _complete_site(incomplete: str) -> list[str]:
    from jedi.service.sites import list_sites

    try:
        with transaction() as tx:
            names = [row["site"] for row in list_sites(tx)]
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
def site_import(file: ImportedFile, comment: ChangeComment = None, as_json: Json = False) -> None:
    """Insert or update the sites of FILE (or of a JSON dump of CRIC). Attributes that an
    entry leaves out stay unchanged.

    Example: `jedi site import sites.yaml --comment "new storage"`
    """
    from jedi.service.sites import import_sites

    with transaction() as tx:
        home = Settings.from_environment().home
        changes = import_sites(tx, caller(), read_file(file), home, comment)
    show(changes, as_json, lambda: show_changes(changes))


@site_app.command("set")
def site_set(
    site: Site,
    attributes: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    comment: Annotated[str, typer.Option("--comment", help="The reason, for the history.")],
    as_json: Json = False,
) -> None:
    """Set attributes of a site, values as in a site file.

    Example: `jedi site set LOCAL nslots=8 status=online --comment "back from repair"`
    """
    from jedi.service.sites import set_site

    with transaction() as tx:
        changes = set_site(tx, caller(), site, attributes, comment)
    show(changes, as_json, lambda: show_changes(changes))


def show_changes(changes: Sequence[AttributeChange]) -> None:
    if not changes:
        typer.echo("Nothing changed.")
        return
    rows = [[c.site, c.attribute, c.old, c.new] for c in changes]
    table(["site", "attribute", "before", "now"], rows)


@site_app.command("attributes")
def site_attributes(as_json: Json = False) -> None:
    """List the attributes of a site file, with their units and defaults.

    Example: `jedi site attributes`
    """
    from jedi.service.sites import attributes

    rows = attributes()
    show(rows, as_json, lambda: table(["attribute", "default", "meaning"], rows))


@site_app.command("list")
def site_list(as_json: Json = False) -> None:
    """List the sites.

    Example: `jedi site list`
    """
    from jedi.service.sites import list_sites

    with transaction() as tx:
        sites = list_sites(tx)
    columns = "site status role nslots corecount maxrss submitter endpoints"
    spare = "submitter maxrss corecount role endpoints"
    show(sites, as_json, lambda: show_columns(columns, sites, spare))


@site_app.command("show")
def site_show(site: Site, as_json: Json = False) -> None:
    """Show all attributes of a site, its endpoints and its last changes.

    Example: `jedi site show LOCAL`
    """
    from jedi.service.sites import show_site

    with transaction() as tx:
        found = show_site(tx, site)

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
    from jedi.service import sites

    with transaction() as tx:
        if revoke:
            sites.revoke_token(tx, caller(), site, revoke)
            return
        made = sites.new_token(tx, caller(), site, days)
    show(made, as_json, lambda: typer.echo(made.token))


@config_app.command("list")
def config_list(as_json: Json = False) -> None:
    """List every knob with the value in force.

    Example: `jedi config list`
    """
    from jedi.service.config import settings

    with transaction() as tx:
        found = settings(tx)
    show(
        found,
        as_json,
        lambda: table(
            ["knob", "value", "unit", "set by", "meaning"],
            [[s.name, s.value, s.unit, s.set_by, s.meaning] for s in found],
            spare=("set by", "unit"),
        ),
    )


@config_app.command("get")
def config_get(knob: KnobName, as_json: Json = False) -> None:
    """Show a knob, its meaning and its changes.

    Example: `jedi config get agent.poll_s`
    """
    from jedi.service.config import get

    with transaction() as tx:
        setting, history = get(tx, knob)

    def people() -> None:
        typer.echo(f"{setting.name} = {setting.value} [{setting.unit}]")
        typer.echo(f"{setting.meaning}; preset {setting.default!r}")
        if history:
            rows = [[c.at, c.by, "preset" if c.value is None else c.value] for c in history]
            table(["when", "who", "value"], rows)

    show({"setting": setting, "history": history}, as_json, people)


@config_app.command("set")
def config_set(knob: KnobName, value: str, as_json: Json = False) -> None:
    """Set a knob. Agents use it from their next cycle.

    Example: `jedi config set pilot.idle_s 30`
    """
    from jedi.service.config import put, warnings

    with transaction() as tx:
        now = put(tx, caller(), knob, value)
        remarks = warnings(tx, knob)
    for remark in remarks:
        typer.echo(f"Warning: {remark[0].lower()}{remark[1:]}", err=True)
    _show_knob(knob, now, as_json)


@config_app.command("unset")
def config_unset(knob: KnobName, as_json: Json = False) -> None:
    """Unset a knob: the preset's value holds again.

    Example: `jedi config unset pilot.idle_s`
    """
    from jedi.service.config import unset

    with transaction() as tx:
        now = unset(tx, caller(), knob)
    _show_knob(knob, now, as_json)


@config_app.command("preset")
def config_preset(preset: Preset, as_json: Json = False) -> None:
    """Choose the values of unset knobs: those of the JEDI document or of PanDA today.

    Example: `jedi config preset current`
    """
    from jedi.service.config import PRESET, put

    with transaction() as tx:
        now = put(tx, caller(), PRESET, preset.value)
    _show_knob(PRESET, now, as_json)


def _show_knob(name: str, value: Any, as_json: bool) -> None:
    show({"name": name, "value": value}, as_json, lambda: typer.echo(f"{name} = {value}"))


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

    Example: `jedi dataset add user.me:texts *.txt`
    """
    from jedi.ddm import factory
    from jedi.service.datasets import add_files
    from jedi.taskbuffer.housekeeping import knobs

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
    from jedi.ddm import factory
    from jedi.service.datasets import create_dataset
    from jedi.taskbuffer.housekeeping import knobs

    with transaction() as tx:
        ddm = factory.load(tx, knobs.load(tx))
        made = create_dataset(tx, ddm, dataset, endpoint, is_open=is_open)
    show(made, as_json, lambda: typer.echo(f"{made}."))


@dataset_app.command("close")
def dataset_close(
    dataset: Annotated[str, typer.Argument(metavar="SCOPE:NAME")], as_json: Json = False
) -> None:
    """Close a dataset: no more files come, and its tasks can end.

    Example: `jedi dataset close user.me:run7`
    """
    from jedi.ddm import factory
    from jedi.service.datasets import close_dataset
    from jedi.taskbuffer.housekeeping import knobs

    with transaction() as tx:
        closed = close_dataset(tx, factory.load(tx, knobs.load(tx)), dataset)
    show(closed, as_json, lambda: typer.echo(f"{closed}."))


def _complete_dataset(incomplete: str) -> list[str]:
    from jedi.ddm import factory
    from jedi.service.datasets import find_datasets
    from jedi.taskbuffer.housekeeping import knobs

    try:
        with transaction() as tx:
            found = find_datasets(factory.load(tx, knobs.load(tx)), f"{incomplete}*")
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
    from jedi.ddm import factory
    from jedi.service.datasets import find_datasets, show_dataset
    from jedi.taskbuffer.housekeeping import knobs

    with transaction() as tx:
        ddm = factory.load(tx, knobs.load(tx))
        if "*" in pattern:
            some = find_datasets(ddm, pattern)
            rows = [[one.name, one.state or "unreadable"] for one in some]
            show(some, as_json, lambda: table(["dataset", "state"], rows))
            return
        found = show_dataset(ddm, pattern)

    def people() -> None:
        typer.echo(found.info)
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
    as_json: Json = False,
) -> None:
    """Set the role of a user, special permissions, and the limit of running jobs.

    Example: `jedi user set alice --role production --gridpref s`
    """
    from jedi.service.users import set_user

    with transaction() as tx:
        value = set_user(tx, caller(), user, role.value if role else None, gridpref, running_jobs)
    pref = f", special permissions {value.gridpref}" if value.gridpref else ""
    cap = "" if value.running_jobs is None else f", running jobs {value.running_jobs or 'any'}"
    show(value, as_json, lambda: typer.echo(f"{user} is a user of role {value.role}{pref}{cap}."))


def show_columns(columns: str, rows: Sequence[dict[str, Any]], spare: str = "") -> None:
    """Print these columns (blank-separated) of rows; those of `spare` go first where a terminal is
    narrow."""
    names = columns.split()
    table(names, [[row[name] for name in names] for row in rows], spare=spare.split())
