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
    """A plug-in that can't be imported or made, raises, hangs or dies: its task waits, and the
    others go on."""

    code = "plugin_failed"

    def of(self, plugin: str) -> PluginFailed:
        """The same with the name of the plug-in."""
        said = f"The plug-in {plugin} fails: {self.sentence}. Correct or uninstall it, and restart"
        return PluginFailed(f"{said} JEDI.", code=self.code, plugin=plugin)


@cache
def _installed(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"jedi.{room}")}


@cache
def find(room: str, vo: str, label: str) -> Any:
    """The object behind the best entry point of a room for a vo and a prodSourceLabel."""
    return _best(room, vo, label).load()


def make(room: str, vo: str, label: str) -> Any:
    """A new object of the plug-in that `find` returns. NotFound: there is none; PluginFailed: it
    can't be imported or made."""
    try:
        return find(room, vo, label)()
    except Exception as error:  # other people's code
        raise PluginFailed(f"{type(error).__name__}: {error}").of(
            _named(room, _best(room, vo, label))
        ) from error


def foreign(room: str, vo: str, label: str) -> str:
    """The name of the plug-in that `find` returns, with its distribution, if it is other people's;
    else nothing. It loads none of their code."""
    try:
        point = _best(room, vo, label)
    except NotFound:  # whoever makes it says so
        return ""
    return "" if point.value.startswith("jedi.") else _named(room, point)


def any_foreign() -> bool:
    """Return True if any plug-in of other people is installed."""
    return any(
        not point.value.startswith("jedi.") for room in ROOMS for point in _installed(room).values()
    )


def _named(room: str, point: EntryPoint) -> str:
    of = f", of {point.dist.name} {point.dist.version}" if point.dist else ""
    return f"{point.name} of jedi.{room} ({point.value}{of})"


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
