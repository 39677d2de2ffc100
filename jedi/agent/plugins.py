"""Plug-ins by entry point: one per use case, chosen by (vo, prodSourceLabel).

A package adds, for example,

    [project.entry-points."jedi.broker"]
    "atlas:managed" = "my_package.broker:Broker"

Rooms: jedi.refiner, jedi.generator, jedi.broker, jedi.postprocessor. `any` stands for every vo or
label; the most exact name wins: vo:label, vo:any, any:label, any:any.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from jedi.core.errors import NotFound

ROOMS = ("refiner", "generator", "broker", "postprocessor")


@cache
def _installed(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"jedi.{room}")}


@cache
def find(room: str, vo: str, label: str) -> Any:
    """The object behind the best entry point of a room for a vo and a prodSourceLabel."""
    points = _installed(room)
    for name in (f"{vo}:{label}", f"{vo}:any", f"any:{label}", "any:any"):
        if name in points:
            return points[name].load()
    raise NotFound(
        f"No plug-in of jedi.{room} serves vo {vo!r} and prodSourceLabel {label!r}.",
        code="no_plugin",
        room=room,
        vo=vo,
        label=label,
    )
