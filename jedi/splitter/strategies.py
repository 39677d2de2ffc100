"""The split strategies by name: JEDI's, and plug-ins of entry point `jedi.split_strategies`.

Source: docs/reference/herds.md; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from jedi.core.installed import plug_ins
from jedi.core.suggest import suggest
from jedi.model.splitting.units import Manifest, OwnStrategy, SplitFile, SplitStrategy, Unit
from jedi.splitter.by_input import ByBoundary, ByEvents, ByFiles, BySize, InputDataBySE
from jedi.splitter.explicit import EXPLICIT, Explicit
from jedi.splitter.parametric import Parametric
from jedi.splitter.plan import OF_JEDI
from jedi.splitter.plug_in import Limits, PlugIn, SplitterFailed

GROUP = "jedi.split_strategies"
_OURS: Mapping[str, OwnStrategy] = {
    EXPLICIT: Explicit(),
    "Parametric": Parametric(),
    "InputDataBySE": InputDataBySE(),
    "ByFiles": ByFiles(),
    "ByEvents": ByEvents(),
    "BySize": BySize(),
    "ByBoundary": ByBoundary(),
}


def names() -> list[str]:
    """The names of all strategies."""
    return sorted(_OURS.keys() | plug_ins(GROUP).keys())


def describe(name: str, limits: Limits | None = None) -> SplitStrategy:
    """The strategy of this name; JEDI's own come before plug-ins. SplitterFailed: there is none."""
    if name in _OURS:
        return _OURS[name]
    if point := plug_ins(GROUP).get(name):
        return PlugIn(point, limits or Limits())
    known = names()
    remedy = suggest(name, known, f"There are {', '.join(known)}.")
    raise SplitterFailed("splitter_unknown", f"There is no splitter {name}. {remedy}")


def is_plug_in(name: str) -> bool:
    """Return True if the strategy of this name is a plug-in."""
    return name not in _OURS and name in plug_ins(GROUP)


def foreign_options(name: str, options: Manifest) -> tuple[list[str], list[str]]:
    """The options that a strategy does not consume, and its own. SplitterFailed."""
    own = describe(name).consumes(options)
    known = {*own, *(_OURS[name].options if name in _OURS else ())}
    return [one for one in options if one not in own], sorted(known)


def unit_options(name: str, manifest: Manifest, values: Iterable[str]) -> list[str] | None:
    """The names of all options that the units of a herd have: the common `values`, the strategy's,
    and JEDI's. None: only the units know, because they come with their own, or a plug-in plans
    them."""
    found = _OURS[name].sets(manifest) if name in _OURS else None
    return None if found is None else [*dict.fromkeys([*values, *found, *OF_JEDI])]


def plan(
    name: str, manifest: Manifest, files: Sequence[SplitFile], limits: Limits
) -> Sequence[Unit]:
    """The units that a strategy makes, at most one more than a herd may have. BadInput: the options
    or the input allow none. SplitterFailed: the strategy itself failed."""
    found: Iterable[Unit] = describe(name, limits).plan(manifest, files)
    return list(islice(found, limits.max_units + 1))
