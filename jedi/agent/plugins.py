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

from jedi.core.errors import JediError, NotFound

ROOMS = ("refiner", "generator", "broker", "postprocessor")


class PluginFailed(JediError):
    """A plug-in that can't be imported or made: its tasks wait, and the others go on."""

    code = "plugin_failed"


@cache
def _installed(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"jedi.{room}")}


@cache
def find(room: str, vo: str, label: str) -> Any:
    """The object behind the best entry point of a room for a vo and a prodSourceLabel.
    PluginFailed: it can't be imported."""
    point = _best(room, vo, label)
    try:
        return point.load()
    except Exception as error:  # whatever a module of other people raises
        raise _failed(room, point, error) from error


def make(room: str, vo: str, label: str) -> Any:
    """A new object of the plug-in that `find` returns. PluginFailed: it can't be made."""
    plugin = find(room, vo, label)
    try:
        return plugin()
    except Exception as error:
        raise _failed(room, _best(room, vo, label), error) from error


def _best(room: str, vo: str, label: str) -> EntryPoint:
    points = _installed(room)
    for name in (f"{vo}:{label}", f"{vo}:any", f"any:{label}", "any:any"):
        if name in points:
            return points[name]
    raise NotFound(
        f"No plug-in of jedi.{room} serves vo {vo!r} and prodSourceLabel {label!r}.",
        code="no_plugin",
        room=room,
        vo=vo,
        label=label,
    )


def _failed(room: str, point: EntryPoint, error: Exception) -> PluginFailed:
    of = f", of {point.dist.name} {point.dist.version}" if point.dist else ""
    return PluginFailed(
        f"The plug-in {point.name} of jedi.{room} ({point.value}{of}) fails: "
        f"{type(error).__name__}: {error}. Correct or uninstall it, and restart JEDI.",
        room=room,
        plugin=point.name,
    )
