"""Sites, endpoints and links as typed answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from jedi.service import sites

_T = TypeVar("_T")


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


def site_summaries(tx: Connection) -> list[SiteSummary]:
    """Return all sites, by name."""
    return typed(SiteSummary, sites.list_sites(tx))


def endpoint_summaries(tx: Connection) -> list[EndpointSummary]:
    """Return all storage endpoints, by name."""
    return typed(EndpointSummary, sites.list_endpoints(tx))


def link_figures(tx: Connection, place: str | None) -> list[LinkSummary]:
    """Return the figures of all links, or of the links from and to one place."""
    return typed(LinkSummary, sites.list_links(tx, place))


def site_report(tx: Connection, name: str) -> SiteReport:
    """Return a site in detail; NotFound suggests the nearest name."""
    found = sites.show_site(tx, name)
    return SiteReport(
        found.attributes,
        typed(EndpointSummary, found.endpoints),
        typed(SiteChange, found.history),
        found.trouble,
    )


def site_attributes() -> list[SiteAttribute]:
    """Return the attributes of a site file."""
    return [SiteAttribute(*one) for one in sites.attributes()]


def typed(kind: type[_T], rows: Iterable[Mapping[str, Any]]) -> list[_T]:
    """Rows of columns as dataclasses that have some of these columns."""
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    return [kind(**{name: row[name] for name in names}) for row in rows]
