"""Templates become pages. All text is escaped; no template calls anything but its filters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from jedi.monitor import filters, static_files

_ROOT = resources.files("jedi.monitor") / "templates"


@cache
def environment() -> Environment:
    """The environment of all templates."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= filters.FILTERS
    made.globals |= {"static": static_files.address}
    return made


def _source(name: str) -> str | None:
    found = _ROOT / name
    return found.read_text() if found.is_file() else None


def render(
    template: str, facts: Mapping[str, Any], *, fragment: bool = False, layout: str = "whole.html"
) -> bytes:
    """A page from its template; `fragment`: only the part of it that changes; `layout`: the
    template around that part."""
    layout = "fragment.html" if fragment else layout
    return environment().get_template(template).render(layout=layout, **facts).encode()
