"""Sites, endpoints and links, as people ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.core.suggest import suggest
from jedi.model.sites.site_file import Endpoint, SiteEntry
from jedi.service.operations.answers import typed
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.sites import pilots, sites

_HISTORY = 20
"""Number of changes shown for a site."""


@dataclass(frozen=True, slots=True)
class SiteSummary:
    """A site: slots (nslots), cores a slot (corecount), memory of a slot in MB (maxrss; 0: no
    limit), engine of its pilots (submitter), and endpoints, the first choice first."""

    site: str
    status: str
    type: str
    cloud: str
    role: str
    nslots: int
    corecount: int
    maxrss: int
    submitter: str
    endpoints: list[str]
    lastpilot: datetime | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class EndpointSummary:
    """A storage endpoint with its space in GB and the sites that use it."""

    ddm_endpoint: str
    site: str | None
    type: str
    token: str | None
    path: str | None
    is_tape: bool
    space_total: float | None
    space_free: float | None
    space_min_free: float | None
    space_timestamp: datetime | None
    detailed_status: dict[str, Any]
    sites: list[str]


@dataclass(frozen=True, slots=True)
class SiteChange:
    """A change of a site's attribute; values as text, None: not set."""

    modificationtime: datetime
    username: str | None
    attribute: str
    oldvalue: str | None
    newvalue: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class SiteReport:
    """A site with all attributes by their names, its endpoints and its last changes; `trouble`:
    the reason for no pilots, or for fewer."""

    attributes: dict[str, Any]
    endpoints: list[EndpointSummary]
    history: list[SiteChange]
    trouble: str | None


@dataclass(frozen=True, slots=True)
class SiteAttribute:
    """An attribute of a site file: its default, and its meaning with the unit."""

    name: str
    default: Any
    meaning: str


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """A figure of the link from `src` to `dst`, and the time of its measurement."""

    src: str
    dst: str
    key: str
    value: float | None
    ts: datetime


@operation("site.list", "GET", "/v1/sites", ANYBODY)
def find(call: Call) -> list[SiteSummary]:
    """List the sites."""
    return typed(SiteSummary, sites.ALL_SITES.rows(call.tx))


@operation("site.show", "GET", "/v1/sites/{site}", ANYBODY)
def show(call: Call, site: NameText) -> SiteReport:
    """Show all attributes of a site, its endpoints and its last changes.

    NotFound suggests the nearest name.
    """
    return SiteReport(
        columns_of(call.tx, site),
        [one for one in endpoints(call) if site in one.sites],
        typed(SiteChange, sites.HISTORY.rows(call.tx, site=site, limit=_HISTORY)),
        pilots.TROUBLE.row(call.tx, site=site),
    )


def columns_of(tx: Connection, site: str) -> dict[str, Any]:
    """All columns of a site. NotFound suggests the nearest name."""
    rows = {row["site"]: row for row in sites.ALL_SITES.rows(tx)}
    if site not in rows:
        hint = suggest(site, rows, "`jedi site list` shows all.")
        raise NotFound(f"There is no site {site}. {hint}", code="no_site", site=site)
    return rows[site]


@operation("site.attributes", "GET", "/v1/site-attributes", ANYBODY)
def attributes(call: Call) -> list[SiteAttribute]:
    """List the attributes of a site file, with their defaults and units."""
    models = (("", SiteEntry), ("endpoints[].", Endpoint))
    return [
        SiteAttribute(
            prefix + name, None if field.is_required() else field.default, field.description or ""
        )
        for prefix, model in models
        for name, field in model.model_fields.items()
    ]


@operation("endpoint.list", "GET", "/v1/endpoints", ANYBODY)
def endpoints(call: Call) -> list[EndpointSummary]:
    """List the storage endpoints, with the sites that use them."""
    return typed(EndpointSummary, sites.ALL_ENDPOINTS.rows(call.tx))


@operation("link.list", "GET", "/v1/links", ANYBODY)
def links(call: Call, place: NameText | None = None) -> list[LinkSummary]:
    """List the figures of links; `place`: only of the links from and to it."""
    return [LinkSummary(*row) for row in sites.ALL_LINKS.rows(call.tx, place=place)]
