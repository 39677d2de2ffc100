"""Changes of sites, their storage endpoints, and the links between places. Only operators may
change them; others get Forbidden."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from jedi.core import clock, strictyaml
from jedi.model.sites import cric, link_file, site_file
from jedi.model.sites.site_file import SiteEntry
from jedi.service.operations.arguments import FILE_MAX, Comment, FileText, NameText, SettingTexts
from jedi.service.operations.table import OPERATOR, Call, operation
from jedi.service.sites.listing import columns_of
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.sites.sites import AttributeChange
from jedi.taskbuffer.tasks import waking

_T = TypeVar("_T")


@operation("site.import", "POST", "/v1/sites/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def import_sites(call: Call, text: FileText, comment: Comment = None) -> list[AttributeChange]:
    """Insert or update the sites of a file's text, YAML or a JSON dump of CRIC.

    Attributes that it leaves out stay unchanged. Relative directories of endpoints lie below the
    home. The first nuclei of a grid replace this machine as nucleus: it collects no outputs of the
    grid, unless an operator sets its role back. BadInput holds every mistake of the file; then
    nothing is stored.
    """
    entries = _read(text, site_file.read_sites, cric.read_queues)
    changes = _put(call, entries, call.home.path, comment)
    call.afterwards.append(lambda _tx: make_roots(changes))
    call.name_objects("site", [one.site for one in changes])
    return changes


@operation(
    "endpoint.import", "POST", "/v1/endpoints/import", OPERATOR, body_max=FILE_MAX, dry_run=True
)
def import_endpoints(call: Call, text: FileText, comment: Comment = None) -> list[AttributeChange]:
    """Insert or update the endpoints of a file's text, YAML or a JSON dump of CRIC.

    BadInput holds every mistake of the file; then nothing is stored.
    """
    entries = _read(text, site_file.read_endpoints, cric.read_endpoints)
    patches = {entry.ddm_endpoint: entry.attributes() for entry in entries}
    for values in patches.values():
        if values.get("path") is not None:
            values["path"] = str(call.home.path / Path(values["path"]).expanduser())
        if any(key.startswith("space_") and key != "space_min_free" for key in values):
            values["space_timestamp"] = clock.now().isoformat()
    owners = {entry.ddm_endpoint: entry.site or entry.ddm_endpoint for entry in entries}
    changes = sites.put_endpoints(call.tx, patches, owners)
    _note(call, changes, comment)
    call.afterwards.append(lambda _tx: make_roots(changes))
    call.name_objects("endpoint", [one.attribute.partition(".")[0] for one in changes])
    return changes


def _note(call: Call, changes: Sequence[AttributeChange], comment: str | None) -> None:
    """Keep the history of changes; tasks that found no site look again."""
    sites.note_changes(call.tx, changes, call.who, comment)
    if changes:
        waking.wake_unbrokered(call.tx)


def make_roots(changes: Sequence[AttributeChange]) -> None:
    """Make the root directories that an import gave to endpoints. Nothing else makes them: a root
    that is missing later is a storage that is not mounted. OSError."""
    for change in changes:
        if change.attribute.endswith(".path") and change.new:
            Path(change.new).mkdir(parents=True, exist_ok=True)


@operation("link.import", "POST", "/v1/links/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def import_links(call: Call, text: FileText) -> int:
    """Insert or update the link figures of a file's text, and count them.

    They have the present time. BadInput holds every mistake; then nothing is stored.
    """
    figures = _read(text, link_file.read_links, cric.read_metrics)
    sites.put_links(call.tx, figures)
    waking.wake_unbrokered(call.tx)
    return len(figures)


def _read(text: str, plain: Callable[[str], list[_T]], dump: Callable[[str], list[_T]]) -> list[_T]:
    """Read a file: a dump is a JSON object, a file by hand is a list."""
    return dump(text) if text.lstrip().startswith("{") else plain(text)


@operation("site.set", "PUT", "/v1/sites/{site}", OPERATOR, dry_run=True)
def set_site(
    call: Call, site: NameText, settings: SettingTexts, comment: Comment = None
) -> list[AttributeChange]:
    """Set attributes of a site, each NAME=VALUE with its value as in a site file."""
    call.subject = f"site {site}"
    columns_of(call.tx, site)
    written = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        written[key.strip()] = strictyaml.load(value, f"{site}.{key.strip()}")
    return _put(call, [site_file.read_attributes(site, written)], Path(), comment)


def _put(
    call: Call, entries: Sequence[SiteEntry], home: Path, comment: str | None
) -> list[AttributeChange]:
    tx = call.tx
    attributes = {entry.site: entry.attributes() for entry in entries}
    for values in attributes.values():
        if values.get("nslots") == "auto":
            values["nslots"] = os.cpu_count() or 1
        if comment is not None:
            values["comment"] = comment
    endpoints: dict[str, dict[str, Any]] = {}
    owners: dict[str, str] = {}
    for entry in entries:
        for endpoint in entry.endpoints or []:
            columns = {"site": entry.pandasite or entry.site, **endpoint.storage()}
            if endpoint.path is not None:
                columns["path"] = str(home / Path(endpoint.path).expanduser())
            endpoints.setdefault(endpoint.ddm_endpoint, columns)
            owners.setdefault(endpoint.ddm_endpoint, entry.site)
    relations = {
        entry.site: [endpoint.relation() for endpoint in entry.endpoints]
        for entry in entries
        if entry.endpoints is not None
    }
    grid = sites.NUCLEI.rows(tx, here=False)
    changes = [
        *sites.put_sites(tx, attributes),
        *sites.put_endpoints(tx, endpoints, owners),
        *sites.put_relations(tx, relations),
    ]
    if not grid and sites.NUCLEI.rows(tx, here=False):
        apart = [site for site in sites.NUCLEI.rows(tx, here=True) if site not in attributes]
        changes += sites.put_sites(tx, {site: {"role": "satellite"} for site in apart})
    _note(call, changes, comment)
    return changes
