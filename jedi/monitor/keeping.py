"""A page as one file: with its styles, its charts and its data, and without any request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup
from starlette.requests import Request

from jedi.core import clock
from jedi.monitor import static_files
from jedi.monitor.render import render
from jedi.monitor.table import Page, View

LAYOUT = "kept.html"


def kept(page: Page, view: View, facts: Mapping[str, Any], request: Request) -> tuple[bytes, str]:
    """A page as one file, and the file's name. Its links lead to the service."""
    now = clock.now().astimezone(UTC)
    host = f"{request.url.scheme}://{request.url.netloc}"
    query = "&".join(one for one in request.url.query.split("&") if not one.startswith("as="))
    own = {
        "css": Markup(static_files.find("monitor.css").content.decode()),
        "data": {one.name: one.plain() for one in view.sheets},
        "host": host,
        "source": f"{host}{request.url.path}{f'?{query}' if query else ''}",
        "kept_at": now,
    }
    return render(page.template, {**facts, **own}, layout=LAYOUT), _name(page, request, now)


def _name(page: Page, request: Request, now: datetime) -> str:
    """The name of the file: the page, the things in its path, the time."""
    given = map(str, request.path_params.values())
    things = [one for one in given if one.isascii() and one.isalnum()]
    return "-".join([page.name, *things, f"{now:%Y%m%dT%H%M%SZ}"]) + ".html"
