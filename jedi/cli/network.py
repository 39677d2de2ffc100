"""`jedi endpoint`, `jedi network`: where files lie, and the links between places."""

from __future__ import annotations

from typing import Annotated

import typer

from jedi.cli.admin import ChangeComment, ImportedFile, show_changes, show_columns
from jedi.cli.common import Json, application, read_file, show, transaction
from jedi.core.settings import Settings, caller

endpoint_app = application("Storage endpoints: where files can lie.")
network_app = application("Links between places: how near they are, what waits, how fast it was.")
GROUPS = {"endpoint": endpoint_app, "network": network_app}


@endpoint_app.command("import")
def endpoint_import(
    file: ImportedFile, comment: ChangeComment = None, as_json: Json = False
) -> None:
    """Insert or update the storage endpoints of FILE (or of a JSON dump of CRIC); what an entry
    leaves out stays as it is. Which site uses which endpoint stands in the site file.

    Example: `jedi endpoint import endpoints.yaml`
    """
    from jedi.service.sites import import_endpoints

    with transaction() as tx:
        home = Settings.from_environment().home
        changes = import_endpoints(tx, caller(), read_file(file), home, comment)
    show(changes, as_json, lambda: show_changes(changes))


@endpoint_app.command("list")
def endpoint_list(as_json: Json = False) -> None:
    """List the storage endpoints and the sites that use them.

    Example: `jedi endpoint list`
    """
    from jedi.service.sites import list_endpoints

    with transaction() as tx:
        endpoints = list_endpoints(tx)
    columns = "ddm_endpoint type path space_free space_min_free sites"
    show(endpoints, as_json, lambda: show_columns(columns, endpoints, "space_min_free type"))


@network_app.command("import")
def network_import(file: ImportedFile, as_json: Json = False) -> None:
    """Insert or update what FILE (or a JSON dump of network metrics) says of links, as measured
    now.

    Example: `jedi network import links.yaml`
    """
    from jedi.service.sites import import_links

    with transaction() as tx:
        figures = import_links(tx, caller(), read_file(file))
    show({"figures": figures}, as_json, lambda: typer.echo(f"{figures} figures imported."))


@network_app.command("list")
def network_list(
    place: Annotated[str | None, typer.Argument(help="Only links from or to it.")] = None,
    as_json: Json = False,
) -> None:
    """List what is known of the links between places.

    Example: `jedi network list CERN`
    """
    from jedi.service.sites import list_links

    with transaction() as tx:
        links = list_links(tx, place)
    show(links, as_json, lambda: show_columns("src dst key value ts", links))
