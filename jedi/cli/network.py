"""`jedi endpoint`, `jedi network`: storage, and the links between places."""

from __future__ import annotations

from typing import Annotated

import typer
from jedi_client.cli.common import Json, application, read_file, show

from jedi.cli.admin import ChangeComment, ImportedFile, show_changes, show_columns
from jedi.cli.database import transaction
from jedi.core.settings import Settings, caller

endpoint_app = application("Storage endpoints of sites.")
network_app = application("Links between places: closeness, queued files, speed.")
GROUPS = {"endpoint": endpoint_app, "network": network_app}


@endpoint_app.command("import")
def endpoint_import(
    file: ImportedFile, comment: ChangeComment = None, as_json: Json = False
) -> None:
    """Insert or update the storage endpoints of FILE (or of a JSON dump of CRIC). Attributes
    that an entry leaves out stay unchanged. The site file assigns endpoints to sites.

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
    """Insert or update the link measurements of FILE (or of a JSON dump of network metrics), with
    the present time.

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
    """List the measurements of links between places.

    Example: `jedi network list CERN`
    """
    from jedi.service.sites import list_links

    with transaction() as tx:
        links = list_links(tx, place)
    show(links, as_json, lambda: show_columns("src dst key value ts", links))
