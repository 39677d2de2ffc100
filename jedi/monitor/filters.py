"""Forms of values on pages: numbers, sizes, times, statuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from urllib.parse import quote, urlencode

from jedi_client.times import written
from markupsafe import Markup, escape

from jedi.monitor.sheets import Column, value

_STEPS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_BIDI = re.compile("[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LONGEST = 300
"""Characters of a text in a cell; the whole text is its title, up to TITLE_MOST."""

TITLE_MOST = 2_000
NONE = Markup('<span class="none">–</span>')

MOODS: Mapping[str, str] = {
    **dict.fromkeys(
        ("done", "finished", "ready", "online", "healthy", "yes", "active", "gained", "kept"),
        "good",
    ),
    **dict.fromkeys(
        ("running", "scouting", "transferring", "merging", "starting", "sent", "staging", "passed"),
        "busy",
    ),
    **dict.fromkeys(
        (
            "failed",
            "broken",
            "aborted",
            "exhausted",
            "cancelled",
            "closed",
            "offline",
            "lost",
            "no",
            "urgent",
            "silent",
            "fails",
            "refused",
        ),
        "bad",
    ),
    **dict.fromkeys(
        ("pending", "throttled", "holding", "paused", "brokeroff", "soon", "test", "standby"),
        "slow",
    ),
}
"""The mood of a status; a page shows it by a colour and by a sign, for readers who see no
colours."""

SIGNS = {"good": "✓", "busy": "▶", "bad": "✕", "slow": "‖", "idle": "·"}


def clean(found: object) -> str:
    """A text without the characters that would turn the direction of others, or be seen nowhere:
    their numbers stand in their place."""
    return _BIDI.sub(lambda one: f"\\u{ord(one[0]):04x}", str(found))


def number(found: float | int | None) -> str | Markup:
    """A number with thin spaces between thousands, and at most four digits after them."""
    if found is None:
        return NONE
    if isinstance(found, float) and not isfinite(found):
        return "∞"
    if isinstance(found, int) or float(found).is_integer():
        return f"{int(found):,}".replace(",", "\u202f")
    return f"{found:.4g}" if abs(found) < 1000 else f"{found:,.0f}".replace(",", "\u202f")


def counted(found: int, noun: str) -> str:
    """A number of things: `1 site`, `3 sites`."""
    return f"{number(found)} {noun}" + ("" if found == 1 else "s")


def size(found: float | None) -> str | Markup:
    """Bytes in the unit that suits them (1 kB = 1000 B)."""
    if found is None:
        return NONE
    step = 0
    while abs(found) >= 1000 and step < len(_STEPS) - 1:
        found, step = found / 1000, step + 1
    return f"{found:.0f} {_STEPS[step]}" if step == 0 else f"{found:.3g} {_STEPS[step]}"


def seconds(found: float | None) -> str | Markup:
    """A length of time in its two largest units."""
    if found is None:
        return NONE
    if found < 60:
        return f"{found:.3g} s"
    whole = round(found)
    for unit, length, below, part in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def moment(found: datetime | None) -> Markup:
    """A time, which a script shows relative to now; without scripts in UTC."""
    if found is None:
        return NONE
    return Markup('<time datetime="{}">{}</time>').format(
        found.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"), written(found)
    )


def percent(found: float | None) -> Markup:
    """A part of a hundred, as a bar with its number."""
    if found is None:
        return NONE
    part = min(max(found, 0), 100)
    return Markup('<progress max="100" value="{}"></progress> {} %').format(
        round(part, 1), f"{found:.0f}"
    )


def status(found: str | None) -> Markup:
    """A status with the colour and the sign of its mood."""
    if not found:
        return NONE
    mood = MOODS.get(found, "idle")
    return Markup('<span class="status {}"><span aria-hidden="true">{}</span> {}</span>').format(
        mood, SIGNS[mood], clean(found)
    )


def text(found: object) -> Markup:
    """A text; a long one is cut, and its title goes on."""
    if found is None or found == "":
        return NONE
    if isinstance(found, datetime):
        return moment(found)
    if isinstance(found, bool):
        found = str(found).lower()
    if isinstance(found, (list, tuple)):
        found = ", ".join(map(str, found))
    said = clean(found)
    if len(said) <= LONGEST:
        return escape(said)
    return Markup('<span title="{}">{}…</span>').format(said[:TITLE_MOST], said[:LONGEST])


_FORMS: Mapping[str, Callable[[Any], str | Markup]] = {
    "text": text,
    "id": text,
    "reason": text,
    "code": text,
    "number": number,
    "bytes": size,
    "seconds": seconds,
    "percent": percent,
    "time": moment,
    "status": status,
    "bar": percent,
    "whole": clean,
}


def cell(row: Any, column: Column) -> Markup:
    """A cell of a sheet."""
    shown = escape(_FORMS[column.kind](value(row, column.key)))
    target = column.link(row) if column.link else None
    return Markup('<a href="{}">{}</a>').format(target, shown) if target else shown


def query(given: Mapping[str, Any], **changed: Any) -> str:
    """The query of a page with some of its arguments changed (None: left out), from `?` on."""
    found = {name: one for name, one in {**given, **changed}.items() if one not in (None, "", [])}
    return f"?{urlencode(found, doseq=True)}" if found else "?"


def site_page(site: str) -> str:
    """The address of a site's page."""
    return f"/sites/{quote(site, safe='')}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "clean": clean,
    "number": number,
    "counted": counted,
    "bytes": size,
    "seconds": seconds,
    "moment": moment,
    "percent": percent,
    "status": status,
    "text": text,
    "cell": cell,
    "value": value,
    "query": query,
    "site_page": site_page,
}
