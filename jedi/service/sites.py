"""Sites and their storage: list, import, change. Only operators may change them; others get
Forbidden."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from jedi_client.times import written
from sqlalchemy import Connection

from jedi.core import clock, strictyaml
from jedi.core.errors import NotFound
from jedi.core.suggest import suggest
from jedi.model.sites import cric, link_file, site_file
from jedi.model.sites.site_file import Endpoint, SiteEntry
from jedi.service.steering import must_be_operator
from jedi.taskbuffer.sites import pilots, sites
from jedi.taskbuffer.sites.sites import AttributeChange
from jedi.taskbuffer.tasks import waking
from jedi.taskbuffer.users import users

_T = TypeVar("_T")
_HISTORY = 20
"""Number of changes shown for a site."""
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class PilotToken:
    """A token that authenticates pilots of a site, with its expiry."""

    site: str
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SiteDetails:
    """A site with its endpoints and its last changes, as dictionaries of columns; `trouble`: why
    it gets no pilots, or fewer."""

    attributes: dict[str, Any]
    endpoints: list[dict[str, Any]]
    history: list[dict[str, Any]]
    trouble: str | None


def import_sites(
    tx: Connection, who: str, text: str, home: Path, comment: str | None = None
) -> list[AttributeChange]:
    """Insert or update the sites of a site file, or of a schedconfig dump of CRIC; attributes "
    "that it leaves out stay unchanged. Relative directories of endpoints lie below `home`. The "
    "first nuclei of a grid replace this machine as nucleus: it collects no outputs of the grid, "
    "unless an operator sets its role back. BadInput
    holds every mistake of the file; then nothing is stored.
    """
    must_be_operator(tx, who)
    return _put(tx, who, _read(text, site_file.read_sites, cric.read_queues), home, comment)


def import_endpoints(
    tx: Connection, who: str, text: str, home: Path, comment: str | None = None
) -> list[AttributeChange]:
    """Insert or update the endpoints of a file, or of a dump of CRIC. BadInput holds every mistake
    of the file; then nothing is stored."""
    must_be_operator(tx, who)
    entries = _read(text, site_file.read_endpoints, cric.read_endpoints)
    patches = {entry.ddm_endpoint: entry.attributes() for entry in entries}
    for values in patches.values():
        if values.get("path") is not None:
            values["path"] = str(home / Path(values["path"]).expanduser())
        if any(key.startswith("space_") and key != "space_min_free" for key in values):
            values["space_timestamp"] = clock.now().isoformat()
    owners = {entry.ddm_endpoint: entry.site or entry.ddm_endpoint for entry in entries}
    changes = sites.put_endpoints(tx, patches, owners)
    sites.note_changes(tx, changes, who, comment)
    if changes:
        waking.wake_unbrokered(tx)
    return changes


def make_roots(changes: Sequence[AttributeChange]) -> None:
    """Make the root directories that an import gave to endpoints. Nothing else makes them: a root
    that is missing later is a storage that is not mounted. OSError."""
    for change in changes:
        if change.attribute.endswith(".path") and change.new:
            Path(change.new).mkdir(parents=True, exist_ok=True)


def import_links(tx: Connection, who: str, text: str) -> int:
    """Insert or update the link measurements of a file, or of a dump of network metrics, with the
    present time. Return their number. BadInput holds every mistake; then nothing is stored."""
    must_be_operator(tx, who)
    figures = _read(text, link_file.read_links, cric.read_metrics)
    sites.put_links(tx, figures)
    waking.wake_unbrokered(tx)
    return len(figures)


def list_links(tx: Connection, place: str | None) -> list[dict[str, Any]]:
    """Return the measurements of all links, or of the links from and to one place."""
    return [row._asdict() for row in sites.ALL_LINKS.rows(tx, place=place)]


def _read(text: str, plain: Callable[[str], list[_T]], dump: Callable[[str], list[_T]]) -> list[_T]:
    """Read a file: a dump is a JSON object, a file by hand is a list."""
    return dump(text) if text.lstrip().startswith("{") else plain(text)


def set_site(
    tx: Connection, who: str, name: str, assignments: Sequence[str], comment: str | None
) -> list[AttributeChange]:
    """Set attributes of a site, each `name=value` with the value written as in a site file."""
    must_be_operator(tx, who)
    _row(tx, name)
    written = {}
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        written[key.strip()] = strictyaml.load(value, f"{name}.{key.strip()}")
    return _put(tx, who, [site_file.read_attributes(name, written)], Path(), comment)


def new_token(tx: Connection, who: str, site: str, days: float) -> PilotToken:
    """Return a new token for pilots that the submitter does not send; JEDI can't show it again.
    NotFound: no such site."""
    must_be_operator(tx, who)
    _row(tx, site)
    until = clock.now() + timedelta(days=days)
    sites.note_changes(
        tx, [AttributeChange(site, "token", None, f"until {written(until)}")], who, None
    )
    token = users.put_token(tx, "pilot", site=site, lifetime_s=days * _DAY_S)
    return PilotToken(site, token, until)


def revoke_token(tx: Connection, who: str, site: str, token: str) -> None:
    """Revoke a token of a site. NotFound: there is no such site, or token of it."""
    must_be_operator(tx, who)
    _row(tx, site)
    if users.check_token(tx, token) != users.Identity("pilot", site, None):
        raise NotFound(f"{site} has no such valid token.", code="no_such_token", site=site)
    users.REVOKE_TOKEN.run(tx, hash=users.token_hash(token))
    sites.note_changes(tx, [AttributeChange(site, "token", "valid", "taken back")], who, None)


def attributes() -> list[tuple[str, Any, str]]:
    """Return the attributes of a site file: (name, default, meaning with its unit)."""
    models = (("", SiteEntry), ("endpoints[].", Endpoint))
    return [
        (prefix + name, None if field.is_required() else field.default, field.description or "")
        for prefix, model in models
        for name, field in model.model_fields.items()
    ]


def list_sites(tx: Connection) -> list[dict[str, Any]]:
    """Return all sites, with the names of their endpoints."""
    return sites.ALL_SITES.rows(tx)


def list_endpoints(tx: Connection) -> list[dict[str, Any]]:
    """Return all storage endpoints, with the names of the sites that use them."""
    return sites.ALL_ENDPOINTS.rows(tx)


def show_site(tx: Connection, name: str) -> SiteDetails:
    """Return one site in detail; NotFound suggests the nearest name."""
    attributes = _row(tx, name)
    endpoints = [e for e in list_endpoints(tx) if name in e["sites"]]
    history = sites.HISTORY.rows(tx, site=name, limit=_HISTORY)
    return SiteDetails(attributes, endpoints, history, pilots.TROUBLE.row(tx, site=name))


def _row(tx: Connection, name: str) -> dict[str, Any]:
    rows = {row["site"]: row for row in list_sites(tx)}
    if name not in rows:
        hint = suggest(name, rows, "`jedi site list` shows all.")
        raise NotFound(f"There is no site {name}. {hint}", code="no_site", site=name)
    return rows[name]


def _put(
    tx: Connection, who: str, entries: Sequence[SiteEntry], home: Path, comment: str | None
) -> list[AttributeChange]:
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
    sites.note_changes(tx, changes, who, comment)
    if changes:
        waking.wake_unbrokered(tx)
    return changes
