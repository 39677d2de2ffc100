"""Charts as SVG by the server: stacked bars, bars by category, intervals on a timeline, sparks.

Each chart is a figure with a caption, a title and a description for screen readers, a legend, and
its numbers as a table. Lengths are parts of a hundred of the width, so that texts keep their size
on every screen. A look is a colour; looks that people could take for each other have a pattern,
too. All texts are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from jedi_client.times import written
from markupsafe import Markup

from jedi.monitor.filters import MOODS, clean, moment, number

Look = Literal[
    "good", "busy", "bad", "slow", "idle", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"
]
"""Colours: five moods of statuses, and eight of series (monitor.css)."""

SERIES: tuple[Look, ...] = ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7")
PATTERNS = {
    "bad": "cross",
    "slow": "hatch",
    "idle": "dots",
    "s1": "hatch",
    "s3": "dots",
    "s5": "cross",
    "s6": "hatch",
}
"""The patterns of looks that have one."""

BAR = 22
"""Height of a bar in pixels; GAP lies below it."""

GAP = 6
LABEL, TOTAL = 22, 10
"""Parts of a hundred of the width: names at the left of bars, sums at their right."""

NAMED_FROM = 6
"""Parts of a hundred of a bar from which a part shows its number."""

TICKS = 6
_ID = re.compile(r"[a-z][a-z0-9-]*")
_SHAPES = {
    "hatch": '<pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path d="M0 0V6"/></pattern>',
    "cross": '<pattern id="{}" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<path d="M0 0L7 7M7 0L0 7"/></pattern>',
    "dots": '<pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<circle cx="3" cy="3" r="1"/></pattern>',
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar, with its look in the legend. `link`: the page of its things."""

    label: str
    value: float
    look: Look
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a category. `most`: its full length, if that is more than the sum of its parts."""

    label: str
    parts: Sequence[Part]
    most: float | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """An interval of a lane; `end` None: it goes on."""

    label: str
    begin: datetime
    end: datetime | None
    look: Look


@dataclass(frozen=True, slots=True)
class Lane:
    """A line of a timeline."""

    label: str
    spans: Sequence[LaneSpan]


def look_of(status: str) -> Look:
    """The look of a status: its mood."""
    found: Look = MOODS.get(status, "idle")  # type: ignore[assignment]
    return found


def by_status(counts: Iterable[tuple[str, float]], link: str | None = None) -> list[Part]:
    """Counts by status as parts of a bar; `link`: an address that a status completes."""
    return [
        Part(name, n, look_of(name), f"{link}{name}" if link else None) for name, n in counts if n
    ]


def stacked(name: str, caption: str, parts: Sequence[Part], unit: str) -> Markup:
    """One bar of parts. `name`: the id of the figure."""
    whole = sum(one.value for one in parts)
    drawn = _bar(name, parts, whole or 1, unit)
    head = ("", unit)
    rows = [(_linked(one.label, one.link), number(one.value)) for one in parts]
    svg = drawing(name, caption, _said(parts, unit), BAR, drawn, parts)
    return figure(name, caption, Markup("{}{}").format(svg, legend(name, parts)), head, rows)


def bars(name: str, caption: str, rows: Sequence[Bar], unit: str) -> Markup:
    """A bar for each category, all of one scale."""
    most = max((max(_sum(one), one.most or 0) for one in rows), default=0) or 1
    looks = _looks(rows)
    drawn = Markup("").join(
        _row(name, at * (BAR + GAP), one, most, unit) for at, one in enumerate(rows)
    )
    high = len(rows) * (BAR + GAP)
    said = "; ".join(f"{one.label}: {_said(one.parts, unit)}" for one in rows[:20])
    svg = drawing(name, caption, said, high, drawn, looks)
    head = ("", *(one.label for one in looks), unit)
    table = [
        (_linked(one.label, one.link), *(_value(one, kind) for kind in looks), number(_sum(one)))
        for one in rows
    ]
    return figure(
        name, caption, Markup("{}{}").format(svg, legend(name, looks, False)), head, table
    )


def timeline(
    name: str, caption: str, lanes: Sequence[Lane], begin: datetime, end: datetime
) -> Markup:
    """Intervals on lines, between two times."""
    length = max((end - begin).total_seconds(), 1.0)
    drawn = Markup("").join(
        _lane(name, at * (BAR + GAP), one, begin, end) for at, one in enumerate(lanes)
    )
    high = len(lanes) * (BAR + GAP)
    axis = Markup("").join(
        Markup('<text class="tick" x="{:.2f}%" y="{}" text-anchor="{}">{}</text>').format(
            LABEL + (100 - LABEL) * step / (TICKS - 1),
            high + 12,
            "start" if step == 0 else "end" if step == TICKS - 1 else "middle",
            _tick(begin + timedelta(seconds=length * step / (TICKS - 1)), length)
            + (" UTC" if step == TICKS - 1 else ""),
        )
        for step in range(TICKS)
    )
    looks = [Part(one.label, 0, one.look) for lane in lanes for one in lane.spans]
    kinds = list({one.label: one for one in looks}.values())
    first, last = written(begin, seconds=False), written(end, seconds=False)
    said = f"{len(lanes)} lines from {first} to {last}"
    svg = drawing(name, caption, said, high + 16, drawn + axis, kinds)
    rows = [
        (lane.label, one.label, moment(one.begin), moment(one.end))
        for lane in lanes
        for one in lane.spans
    ]
    shown = Markup("{}{}").format(svg, legend(name, kinds, False))
    return figure(name, caption, shown, ("", "Status", "From", "To"), rows)


def spark(values: Sequence[float], sentence: str) -> Markup:
    """A small line within a text or a cell; `sentence` says the same in words."""
    most, steps = max(values, default=0) or 1, max(len(values) - 1, 1)
    points = " ".join(
        f"{at * 100 / steps:.1f},{19 - 18 * one / most:.1f}" for at, one in enumerate(values)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img">'
        '<title>{}</title><polyline points="{}" vector-effect="non-scaling-stroke"/></svg>'
    ).format(clean(sentence), points)


def figure(
    name: str,
    caption: str,
    shown: Markup,
    head: Sequence[str],
    rows: Iterable[Sequence[str | Markup]],
    kind: str = "",
) -> Markup:
    """A figure: caption, picture, and its numbers as a table."""
    if not _ID.fullmatch(name):
        raise ValueError(f"no id of a figure: {name}")
    return Markup(
        '<figure class="chart{}" id="{}"><figcaption>{} '
        '<button type="button" class="png" hidden>PNG</button></figcaption>{}'
        '<details class="numbers"><summary>Numbers</summary>{}</details></figure>'
    ).format(f" {kind}" if kind else "", name, clean(caption), shown, table(caption, head, rows))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str | Markup]]) -> Markup:
    """The numbers of a chart."""
    heads = Markup("").join(
        Markup('<th scope="col">{}</th>').format(clean(one)) if one else Markup("<td></td>")
        for one in head
    )
    lines = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            _safe(first), Markup("").join(Markup("<td>{}</td>").format(_safe(one)) for one in rest)
        )
        for first, *rest in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(f"Numbers: {clean(caption)}", heads, lines)


def drawing(
    name: str, caption: str, said: str, high: int, drawn: Markup, parts: Iterable[Part]
) -> Markup:
    """The SVG of a figure, with the patterns of its parts. `said`: its content in words."""
    used = sorted({PATTERNS[one.look] for one in parts if one.look in PATTERNS})
    shapes = Markup("").join(Markup(_SHAPES[one]).format(f"{name}-{one}") for one in used)
    return Markup(
        '<svg class="picture" width="100%" height="{}" role="img" '
        'aria-labelledby="{}-title {}-desc"><title id="{}-title">{}</title>'
        '<desc id="{}-desc">{}</desc><defs>{}</defs>{}</svg>'
    ).format(high, name, name, name, clean(caption), name, clean(said), shapes, drawn)


def legend(name: str, parts: Sequence[Part], valued: bool = True) -> Markup:
    """Looks and their meanings; `valued`: with the numbers."""
    return Markup('<ul class="legend">{}</ul>').format(
        Markup("").join(
            Markup("<li>{} {}{}</li>").format(
                _swatch(name, one.look),
                _linked(one.label, one.link),
                Markup(" <strong>{}</strong>").format(number(one.value)) if valued else "",
            )
            for one in parts
        )
    )


def box(name: str, look: Look, place: str, title: str = "") -> Markup:
    """A rectangle with the colour and the pattern of a look. `place`: its attributes."""
    where = Markup(place)
    over = Markup("")
    if look in PATTERNS:
        over = Markup('<rect {} fill="url(#{}-{})"/>').format(where, name, PATTERNS[look])
    said = Markup("<title>{}</title>").format(clean(title)) if title else ""
    return Markup('<g>{}<rect {} class="f-{}"/>{}</g>').format(said, where, look, over)


def _bar(name: str, parts: Sequence[Part], most: float, unit: str) -> Markup:
    """The parts of a bar, side by side; `most` is its whole length."""
    drawn, at = [], 0.0
    for one in parts:
        wide = 100 * one.value / most
        place = f'x="{at:.2f}%" y="0" width="{wide:.2f}%" height="{BAR}"'
        drawn.append(box(name, one.look, place, f"{one.label}: {number(one.value)} {unit}"))
        if wide >= NAMED_FROM:
            drawn.append(
                Markup(
                    '<text class="inside" x="{:.2f}%" y="{}" text-anchor="middle">{}</text>'
                ).format(at + wide / 2, BAR - 7, number(one.value))
            )
        at += wide
    return Markup("").join(drawn)


def _row(name: str, y: int, one: Bar, most: float, unit: str) -> Markup:
    """A bar with its name and its sum."""
    room = '<rect x="0" y="0" width="{:.2f}%" height="{}" class="room"/>'
    limit = Markup(room).format(100 * one.most / most, BAR) if one.most else ""
    return Markup(
        '<svg x="0" y="{}" width="{}%" height="{}"><text x="0" y="{}">{}</text></svg>'
        '<svg x="{}%" y="{}" width="{}%" height="{}">{}{}</svg>'
        '<text class="sum" x="100%" y="{}" text-anchor="end">{}</text>'
    ).format(
        y,
        LABEL - 1,
        BAR,
        BAR - 6,
        clean(one.label),
        LABEL,
        y,
        100 - LABEL - TOTAL,
        BAR,
        limit,
        _bar(name, one.parts, most, unit),
        y + BAR - 6,
        number(_sum(one)),
    )


def _lane(name: str, y: int, one: Lane, begin: datetime, end: datetime) -> Markup:
    length = max((end - begin).total_seconds(), 1.0)
    drawn = []
    for span in one.spans:
        first = max((span.begin - begin).total_seconds(), 0.0)
        last = min(((span.end or end) - begin).total_seconds(), length)
        if last < 0 or first > length:
            continue
        wide = max(100 * (last - first) / length, 0.3)
        place = f'x="{100 * first / length:.2f}%" y="0" width="{wide:.2f}%" height="{BAR}"'
        since = written(span.begin, seconds=False)
        until = written(span.end, seconds=False) if span.end else "now"
        drawn.append(box(name, span.look, place, f"{span.label}: {since} – {until}"))
    return Markup(
        '<svg x="0" y="{}" width="{}%" height="{}"><text x="0" y="{}">{}</text></svg>'
        '<svg x="{}%" y="{}" width="{}%" height="{}"><rect x="0" y="0" width="100%" height="{}" '
        'class="room"/>{}</svg>'
    ).format(
        y,
        LABEL - 1,
        BAR,
        BAR - 6,
        clean(one.label),
        LABEL,
        y,
        100 - LABEL,
        BAR,
        BAR,
        Markup("").join(drawn),
    )


def _looks(rows: Sequence[Bar]) -> list[Part]:
    """Each label of the parts once."""
    found = {part.label: Part(part.label, 0, part.look) for one in rows for part in one.parts}
    return list(found.values())


def _sum(one: Bar) -> float:
    return sum(part.value for part in one.parts)


def _value(one: Bar, kind: Part) -> str | Markup:
    return number(sum(part.value for part in one.parts if part.label == kind.label))


def _said(parts: Sequence[Part], unit: str) -> str:
    """The parts in words."""
    return ", ".join(f"{number(one.value)} {one.label}" for one in parts) + f" ({unit})"


def _swatch(name: str, look: Look) -> Markup:
    return Markup('<svg class="swatch" width="12" height="12" aria-hidden="true">{}</svg>').format(
        box(name, look, 'x="0" y="0" width="12" height="12"')
    )


def _linked(label: str, link: str | None) -> Markup:
    if link:
        return Markup('<a href="{}">{}</a>').format(clean(link), clean(label))
    return Markup("{}").format(clean(label))


def _safe(found: str | Markup) -> str | Markup:
    return found if isinstance(found, Markup) else clean(found)


def _tick(at: datetime, length_s: float) -> str:
    form = "%H:%M:%S" if length_s < 600 else "%H:%M" if length_s < 100_000 else "%m-%d"
    return f"{at.astimezone(UTC):{form}}"
