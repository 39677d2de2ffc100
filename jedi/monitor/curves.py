"""Curves over time. The server draws lines, which need no script; static/curves.js draws them again
by uPlot from the same table, with a cursor and a zoom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jedi_client.times import written
from markupsafe import Markup

from jedi.monitor.charts import SERIES, Look, drawing, figure
from jedi.monitor.filters import NONE, clean, moment, number

HIGH = 150
"""Height in pixels of the place for the lines; their axis lies below it."""

AXIS = 18
LEFT = 6
"""Parts of a hundred of the width for the numbers at the left."""

_DASHES = {
    "s0": "none",
    "s1": "7 3",
    "s2": "2 3",
    "s3": "9 3 2 3",
    "s4": "12 4",
    "s5": "4 4",
    "s6": "1 4",
    "s7": "12 3 2 3",
    "bad": "7 3",
    "slow": "2 3",
}
"""The dashes of lines: colour is never the only sign."""


@dataclass(frozen=True, slots=True)
class DrawnCurve:
    """The values of a curve at the times of its chart; None: there is none."""

    label: str
    values: Sequence[float | None]
    look: Look | None = None


def curves(
    name: str, caption: str, at: Sequence[datetime], series: Sequence[DrawnCurve], unit: str
) -> Markup:
    """Curves over the same times; `name`: the id of the figure."""
    looks = [one.look or SERIES[nr % len(SERIES)] for nr, one in enumerate(series)]
    known = [one for curve in series for one in curve.values if one is not None]
    most = max(known, default=0) or 1
    lines = Markup("").join(
        _line(one.values, look, most) for one, look in zip(series, looks, strict=True)
    )
    last = ", ".join(f"{one.label} {_latest(one)}" for one in series)
    svg = drawing(
        name,
        caption,
        f"{last} ({unit}) at the end",
        HIGH + AXIS,
        Markup("").join(
            (
                _frame(most, unit),
                Markup(
                    '<svg x="{}%" y="0" width="{}%" height="{}" viewBox="0 0 1000 {}" '
                    'preserveAspectRatio="none">{}</svg>'
                ).format(LEFT, 100 - LEFT, HIGH, HIGH, lines),
                _ends(at),
            )
        ),
        (),
    )
    head = ("Time", *(one.label for one in series))
    rows = [
        (moment(time), *(_number(one.values[nr]) for one in series)) for nr, time in enumerate(at)
    ]
    plot = Markup(
        '<div class="plot" id="{}-plot" hx-morph-skip data-unit="{}" data-looks="{}"></div>'
    ).format(name, clean(unit), " ".join(looks))
    return figure(name, caption, plot + svg + _legend(series, looks, unit), head, rows, "curves")


def _line(values: Sequence[float | None], look: Look, most: float) -> Markup:
    """A line, which breaks where a value is missing."""
    steps = max(len(values) - 1, 1)
    path, down = [], False
    for at, one in enumerate(values):
        if one is not None:
            path.append(f"{'L' if down else 'M'}{1000 * at / steps:.1f} {_y(one, most):.1f}")
        down = one is not None
    return Markup(
        '<path d="{}" class="l-{}" stroke-dasharray="{}" vector-effect="non-scaling-stroke"/>'
    ).format(" ".join(path), look, _DASHES.get(look, "none"))


def _y(value: float, most: float) -> float:
    return HIGH - 2 - (HIGH - 14) * value / most


def _frame(most: float, unit: str) -> Markup:
    """The numbers at the left, and their lines."""
    return Markup("").join(
        Markup(
            '<line x1="{}%" x2="100%" y1="{:.1f}" y2="{:.1f}" class="grid"/>'
            '<text class="tick" x="{}%" y="{:.1f}" text-anchor="end">{}</text>'
        ).format(LEFT, _y(one, most), _y(one, most), LEFT - 0.5, _y(one, most) + 4, number(one))
        for one in (0, most / 2, most)
    )


def _ends(at: Sequence[datetime]) -> Markup:
    """The first and the last time."""
    if not at:
        return Markup("")
    return Markup("").join(
        Markup('<text class="tick" x="{}%" y="{}" text-anchor="{}">{}</text>').format(
            x, HIGH + 13, anchor, written(time, seconds=False)
        )
        for x, anchor, time in ((LEFT, "start", at[0]), (100, "end", at[-1]))
    )


def _legend(series: Sequence[DrawnCurve], looks: Sequence[Look], unit: str) -> Markup:
    return Markup('<ul class="legend">{}</ul>').format(
        Markup("").join(
            Markup(
                '<li><svg class="swatch" width="28" height="10" aria-hidden="true">'
                '<path d="M0 5H28" class="l-{}" stroke-dasharray="{}"/></svg> '
                "{} <strong>{}</strong> {}</li>"
            ).format(look, _DASHES.get(look, "none"), clean(one.label), _latest(one), clean(unit))
            for one, look in zip(series, looks, strict=True)
        )
    )


def _latest(one: DrawnCurve) -> str | Markup:
    return number(next((value for value in reversed(one.values) if value is not None), None))


def _number(value: float | None) -> Markup:
    """A value that the script reads."""
    return (
        NONE if value is None else Markup('<data value="{}">{}</data>').format(value, number(value))
    )
