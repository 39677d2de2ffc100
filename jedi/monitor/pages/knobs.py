"""Knobs: all settings with their meaning, and the history of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any

from pydantic import Field

from jedi.core.knobs import KNOBS
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.operations.arguments import NameText
from jedi.service.system.knobs import Setting

_KNOBS = (
    Column("name", "Knob", "id", link=lambda row: f"/knobs/{row['name']}"),
    Column("value", "Value"),
    Column("unit", "Unit"),
    Column("meaning", "Meaning", "reason"),
    Column("default", "Preset's value", wide=True),
    Column("set_by", "Set by"),
    Column("set_at", "Set", "time", wide=True),
)
_HISTORY = (
    Column("at", "Time", "time"),
    Column("by", "By"),
    Column("value", "Value"),
)
PRESET = "core.preset"


@page("knobs", "/knobs", menu="Knobs", topics=("knobs",))
def knobs(
    ask: Ask, q: Annotated[str, Field(max_length=200)] | None = None, changed: bool = False
) -> View:
    """All knobs by component, or those whose name or meaning contains all words of a text."""
    every: list[Setting] = ask("config.list")
    rows = [_row(one) for one in every if _fits(one, q or "") and (one.set_by or not changed)]
    preset = next(one.value for one in every if one.name == PRESET)
    sheet = Sheet("knobs", "Knobs", _KNOBS, rows, "name", empty="No knob has these words.")
    facts = {
        "q": q or "",
        "changed": changed,
        "preset": preset,
        "all": len(every),
        "set": sum(one.set_by is not None for one in every),
        "components": [*_by_component(sheet)],
    }
    return View("Knobs", facts, (sheet,))


def _by_component(sheet: Sheet) -> Iterator[Sheet]:
    """The knobs of each component."""
    for name, rows in groupby(sorted(sheet.rows, key=_component), _component):
        yield replace(sheet, caption=name, rows=[*rows])


def _component(row: Mapping[str, Any]) -> str:
    return str(row["name"]).partition(".")[0]


def _fits(one: Setting, text: str) -> bool:
    said = f"{one.name} {one.meaning} {one.unit}".casefold()
    return all(word in said for word in text.casefold().split())


def _row(one: Setting) -> dict[str, Any]:
    return {
        "name": one.name,
        "value": written(one.value),
        "unit": one.unit,
        "meaning": one.meaning,
        "default": written(one.default) if one.value != one.default else "",
        "set_by": one.set_by,
        "set_at": one.set_at,
    }


def written(value: Any) -> str:
    """A value as `jedi config set` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


@page("knob", "/knobs/{name}", topics=("knobs",))
def knob(ask: Ask, name: NameText) -> View:
    """A knob: meaning, value, presets, every change."""
    history = ask("config.history", name=name)
    rows = [
        {
            "number": len(history) - at,
            "at": one.at,
            "by": one.by,
            "value": "back to the preset" if one.value is None else written(one.value),
        }
        for at, one in enumerate(history)
    ]
    found: Setting = ask("config.show", name=name)
    sheet = Sheet(
        "history",
        "Changes",
        _HISTORY,
        rows,
        "number",
        empty="It has never been set: the preset decides.",
    )
    facts = {
        "knob": found,
        "value": written(found.value),
        "declared": KNOBS[name],
        "written": written,
    }
    return View(f"Knob {name}", facts, (sheet,))
