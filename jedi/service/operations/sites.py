"""Operations on sites, their storage endpoints, and the links between places."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from jedi.service import site_reports, sites
from jedi.service.operations.arguments import FILE_MAX, Comment, FileText, NameText, SettingTexts
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.taskbuffer.sites.sites import AttributeChange


@operation("site.list", "GET", "/v1/sites", ANYBODY)
def find(call: Call) -> list[site_reports.SiteSummary]:
    """List the sites."""
    return site_reports.site_summaries(call.tx)


@operation("site.show", "GET", "/v1/sites/{site}", ANYBODY)
def show(call: Call, site: NameText) -> site_reports.SiteReport:
    """Show all attributes of a site, its endpoints and its last changes."""
    return site_reports.site_report(call.tx, site)


@operation("site.attributes", "GET", "/v1/site-attributes", ANYBODY)
def attributes(call: Call) -> list[site_reports.SiteAttribute]:
    """List the attributes of a site file, with their defaults and units."""
    return site_reports.site_attributes()


@operation("site.import", "POST", "/v1/sites/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def put_file(call: Call, text: FileText, comment: Comment = None) -> list[AttributeChange]:
    """Insert or update the sites of a file's text, YAML or a JSON dump of CRIC."""
    changes = sites.import_sites(call.tx, call.who, text, call.home.path, comment)
    call.afterwards.append(lambda _tx: sites.make_roots(changes))
    call.name_objects("site", [one.site for one in changes])
    return changes


@operation("site.set", "PUT", "/v1/sites/{site}", OPERATOR, dry_run=True)
def change(
    call: Call, site: NameText, settings: SettingTexts, comment: Comment = None
) -> list[AttributeChange]:
    """Set attributes of a site, each NAME=VALUE with its value as in a site file."""
    call.subject = f"site {site}"
    return sites.set_site(call.tx, call.who, site, settings, comment)


@operation("site.create_token", "POST", "/v1/sites/{site}/tokens", OPERATOR, secret=True)
def create_token(
    call: Call, site: NameText, days: Annotated[float, Field(ge=0, le=36_500)] = 30.0
) -> sites.PilotToken:
    """Make a token for pilots that another system starts at a site."""
    call.subject = f"site {site}"
    return sites.new_token(call.tx, call.who, site, days)


@operation("site.revoke_token", "POST", "/v1/sites/{site}/tokens/revoke", OPERATOR, dry_run=True)
def revoke_token(call: Call, site: NameText, token: NameText) -> None:
    """Revoke a token of a site's pilots."""
    call.subject = f"site {site}"
    sites.revoke_token(call.tx, call.who, site, token)


@operation("endpoint.list", "GET", "/v1/endpoints", ANYBODY)
def endpoints(call: Call) -> list[site_reports.EndpointSummary]:
    """List the storage endpoints, with the sites that use them."""
    return site_reports.endpoint_summaries(call.tx)


@operation(
    "endpoint.import", "POST", "/v1/endpoints/import", OPERATOR, body_max=FILE_MAX, dry_run=True
)
def put_endpoints(call: Call, text: FileText, comment: Comment = None) -> list[AttributeChange]:
    """Insert or update the endpoints of a file's text, YAML or a JSON dump of CRIC."""
    changes = sites.import_endpoints(call.tx, call.who, text, call.home.path, comment)
    call.afterwards.append(lambda _tx: sites.make_roots(changes))
    call.name_objects("endpoint", [one.attribute.partition(".")[0] for one in changes])
    return changes


@operation("link.list", "GET", "/v1/links", ANYBODY)
def links(call: Call, place: NameText | None = None) -> list[site_reports.LinkSummary]:
    """List the figures of links; `place`: only of the links from and to it."""
    return site_reports.link_figures(call.tx, place)


@operation("link.import", "POST", "/v1/links/import", OPERATOR, body_max=FILE_MAX, dry_run=True)
def put_links(call: Call, text: FileText) -> int:
    """Insert or update the link figures of a file's text, and count them."""
    return sites.import_links(call.tx, call.who, text)
