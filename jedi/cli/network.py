"""`jedi endpoint`, `jedi network`: storage, and the links between places."""

from __future__ import annotations

from typing import Annotated

import typer
from jedi_client.cli.common import DryRun, Json, application, read_file, service, show

from jedi.cli.admin import ChangeComment, ImportedFile, show_changes, show_columns

endpoint_app = application("Storage endpoints of sites.")
network_app = application("Links between places: closeness, queued files, speed.")
GROUPS = {"endpoint": endpoint_app, "network": network_app}


@endpoint_app.command("import")
def endpoint_import(
    file: ImportedFile,
    comment: ChangeComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Insert or update the storage endpoints of FILE (or of a JSON dump of CRIC). Attributes
    that an entry leaves out stay unchanged. The site file assigns endpoints to sites.

    Example: `jedi endpoint import endpoints.yaml`
    """
    with service() as jedi:
        changes = jedi.endpoint_import(text=read_file(file), comment=comment, dry_run=dry_run)
    show(changes, as_json, lambda: show_changes(changes), dry_run=dry_run)


@endpoint_app.command("list")
def endpoint_list(as_json: Json = False) -> None:
    """List the storage endpoints and the sites that use them.

    Example: `jedi endpoint list`
    """
    with service() as jedi:
        endpoints = jedi.endpoint_list()
    columns = "ddm_endpoint type path space_free space_min_free sites"
    show(endpoints, as_json, lambda: show_columns(columns, endpoints, "space_min_free type"))


@network_app.command("import")
def network_import(file: ImportedFile, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Insert or update the link measurements of FILE (or of a JSON dump of network metrics), with
    the present time.

    Example: `jedi network import links.yaml`
    """
    with service() as jedi:
        figures = jedi.link_import(text=read_file(file), dry_run=dry_run)
    sentence = f"{figures} figures imported."
    show({"figures": figures}, as_json, lambda: typer.echo(sentence), dry_run=dry_run)


@network_app.command("list")
def network_list(
    place: Annotated[str | None, typer.Argument(help="Only links from or to it.")] = None,
    as_json: Json = False,
) -> None:
    """List the measurements of links between places.

    Example: `jedi network list CERN`
    """
    with service() as jedi:
        links = jedi.link_list(place=place)
    show(links, as_json, lambda: show_columns("src dst key value ts", links))
