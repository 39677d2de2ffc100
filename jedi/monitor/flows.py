"""Flows: streams through layers of places, as wide as their values (a Sankey diagram)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jedi.monitor.charts import SERIES, Look, drawing, figure
from jedi.monitor.filters import clean, number

LINE, SPACE, TOP = 26, 8, 18
"""Pixels: the least height of a place with its name, the space below it, the heads of layers."""

MOST = 12
"""Places of a layer; the others become one."""

OTHERS = "others"
_NODE = 10
"""Width of a place, of 1000."""


@dataclass(frozen=True, slots=True)
class FlowPath:
    """A stream through one place of each layer."""

    path: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class _FlowPlace:
    y: float
    high: float
    value: float


def flow(
    name: str, caption: str, layers: Sequence[str], streams: Sequence[FlowPath], unit: str
) -> Markup:
    """Streams through layers; `layers`: their heads; `name`: the id of the figure."""
    shown = _gathered(streams, len(layers))
    most = max((len({one.path[at] for one in shown}) for at in range(len(layers))), default=0)
    high = max(most, 2) * (LINE + SPACE)
    places = [_places(shown, at, high) for at in range(len(layers))]
    looks = _looks(shown)
    drawn = Markup("").join(
        (
            Markup(
                '<svg x="0" y="{}" width="100%" height="{}" viewBox="0 0 1000 {}" '
                'preserveAspectRatio="none">{}</svg>'
            ).format(TOP, high, high, _ribbons(shown, places, looks, unit)),
            *(_names(at, len(layers), head, places[at], unit) for at, head in enumerate(layers)),
        )
    )
    said = "; ".join(f"{' → '.join(one.path)}: {number(one.value)} {unit}" for one in shown[:20])
    svg = drawing(name, caption, said, high + TOP, drawn, ())
    rows = [(*one.path, number(one.value)) for one in shown]
    return figure(name, caption, svg, (*layers, unit), rows, "flow")


def _gathered(streams: Sequence[FlowPath], layers: int) -> list[FlowPath]:
    """The streams with the smallest places of each layer as one, sums of equal paths, the largest
    first."""
    kept = []
    for at in range(layers):
        sums: dict[str, float] = defaultdict(float)
        for one in streams:
            sums[one.path[at]] += one.value
        order = sorted(sums, key=lambda place: (-sums[place], place))
        kept.append(set(order if len(order) <= MOST else order[: MOST - 1]))
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for one in streams:
        path = tuple(p if p in kept[at] else OTHERS for at, p in enumerate(one.path))
        found[path] += one.value
    rows = [FlowPath(path, value) for path, value in found.items() if value > 0]
    return sorted(rows, key=lambda one: (-one.value, one.path))


def _places(streams: Sequence[FlowPath], at: int, high: int) -> dict[str, _FlowPlace]:
    """The places of a layer, from the top: as high as their value, all layers of one scale."""
    sums: dict[str, float] = defaultdict(float)
    for one in streams:
        sums[one.path[at]] += one.value
    room = high - len(sums) * SPACE - len(sums) * LINE / 2
    whole = sum(sums.values()) or 1
    y, found = 0.0, {}
    for place in sorted(sums, key=lambda one: (-sums[one], one)):
        tall = LINE / 2 + room * sums[place] / whole
        found[place] = _FlowPlace(y, tall, sums[place])
        y += tall + SPACE
    return found


def _looks(streams: Sequence[FlowPath]) -> dict[str, Look]:
    """A look for each place of the first layer."""
    first = dict.fromkeys(one.path[0] for one in streams)
    return {place: SERIES[nr % len(SERIES)] for nr, place in enumerate(first)}


def _ribbons(
    streams: Sequence[FlowPath],
    places: Sequence[Mapping[str, _FlowPlace]],
    looks: Mapping[str, Look],
    unit: str,
) -> Markup:
    """The bands between the layers, and the places themselves."""
    drawn = [
        _band(at, len(places), place, out, inn, looks[first], f"{number(value)} {unit}")
        for at in range(len(places) - 1)
        for first, place, value, out, inn in _bands(streams, at, places)
    ]
    for at, layer in enumerate(places):
        x = _x(at, len(places))
        for one in layer.values():
            where = f'x="{x:.1f}" y="{one.y:.1f}" width="{_NODE}" height="{one.high:.1f}"'
            drawn.append(Markup('<rect {} class="node"/>').format(Markup(where)))
    return Markup("").join(drawn)


def _bands(
    streams: Sequence[FlowPath], at: int, places: Sequence[Mapping[str, _FlowPlace]]
) -> list[tuple[str, str, float, tuple[float, float], tuple[float, float]]]:
    """Bands from a layer to the next: first place of their path, name, value, and their upper and
    lower edge at both ends."""
    sums: dict[tuple[str, str, str], float] = defaultdict(float)
    for one in streams:
        sums[(one.path[at], one.path[at + 1], one.path[0])] += one.value
    left, right = places[at], places[at + 1]
    ordered = sorted(sums, key=lambda key: (left[key[0]].y, right[key[1]].y, key[2]))
    used_left: dict[str, float] = defaultdict(float)
    used_right: dict[str, float] = defaultdict(float)
    found = []
    for here, there, first in ordered:
        value = sums[(here, there, first)]
        out = _edge(left[here], used_left[here], value)
        inn = _edge(right[there], used_right[there], value)
        used_left[here] += value
        used_right[there] += value
        found.append((first, f"{here} → {there}", value, out, inn))
    return found


def _edge(place: _FlowPlace, used: float, value: float) -> tuple[float, float]:
    upper = place.y + place.high * used / place.value
    return upper, upper + place.high * value / place.value


def _band(
    at: int,
    layers: int,
    name: str,
    out: tuple[float, float],
    inn: tuple[float, float],
    look: Look,
    said: str,
) -> Markup:
    begin, end = _x(at, layers) + _NODE, _x(at + 1, layers)
    mid = (begin + end) / 2
    path = (
        f"M{begin:.1f} {out[0]:.1f}C{mid:.1f} {out[0]:.1f} {mid:.1f} {inn[0]:.1f} "
        f"{end:.1f} {inn[0]:.1f}V{inn[1]:.1f}C{mid:.1f} {inn[1]:.1f} {mid:.1f} {out[1]:.1f} "
        f"{begin:.1f} {out[1]:.1f}Z"
    )
    return Markup('<path d="{}" class="band f-{}"><title>{}: {}</title></path>').format(
        path, look, clean(name), clean(said)
    )


def _x(at: int, layers: int) -> float:
    return (1000 - _NODE) * at / max(layers - 1, 1)


def _names(at: int, layers: int, head: str, places: Mapping[str, _FlowPlace], unit: str) -> Markup:
    """The names of a layer's places beside them, inside the picture."""
    last = at == layers - 1
    x = _x(at, layers) / 10 + (-0.6 if last else 1.6)
    anchor = "end" if last else "start"
    side = 100 if last else _x(at, layers) / 10
    drawn = [
        Markup('<text class="head" x="{:.1f}%" y="12" text-anchor="{}">{}</text>').format(
            side, anchor, clean(head)
        )
    ]
    drawn += [
        Markup('<text x="{:.1f}%" y="{:.1f}" text-anchor="{}" class="place">{} {}</text>').format(
            x, TOP + one.y + one.high / 2 + 4, anchor, clean(name)[:40], number(one.value)
        )
        for name, one in places.items()
    ]
    return Markup("").join(drawn)
