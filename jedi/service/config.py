"""Knobs as operators see and set them, with the history of changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from jedi.core.addresses import loopback, must_be_networks
from jedi.core.errors import BadInput, Problem
from jedi.core.knobs import KNOBS
from jedi.core.knobs.knob import Knob, words
from jedi.core.suggest import suggest
from jedi.service import oidc
from jedi.service.steering import must_be_operator
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.tasks import waking

PRESET = "core.preset"


@dataclass(frozen=True, slots=True)
class Setting:
    """A knob with its value in force; `set_by` is None where the preset decides."""

    name: str
    value: Any
    unit: str
    meaning: str
    default: Any
    set_by: str | None
    set_at: datetime | None


@dataclass(frozen=True, slots=True)
class KnobChange:
    """A change of a knob; value None: the preset decides again."""

    at: datetime
    by: str
    value: Any


def settings(tx: Connection) -> list[Setting]:
    """Return every knob, in the order of declaration."""
    present, changed = knobs.load(tx), {row.name: row for row in knobs.overrides(tx)}
    rows = [(knob, changed.get(name)) for name, knob in KNOBS.items()]
    return [
        Setting(
            knob.name,
            present[knob.name],
            knob.unit,
            knob.meaning,
            knob.default(present[PRESET]),
            row.username if row else None,
            row.modificationtime if row else None,
        )
        for knob, row in rows
    ]


def get(tx: Connection, name: str) -> tuple[Setting, list[KnobChange]]:
    """Return a knob and its history, newest change first. BadInput suggests the nearest name."""
    _knob(name)
    [setting] = [one for one in settings(tx) if one.name == name]
    return setting, [
        KnobChange(row.modificationtime, row.username, row.value) for row in knobs.history(tx, name)
    ]


def put(tx: Connection, who: str, name: str, value: Any) -> Any:
    """Set a knob to a value, perhaps written as text. Return the value in its own type. Forbidden:
    `who` is no operator."""
    must_be_operator(tx, who)
    checked = _knob(name).check(value)
    oidc.must_be_sound(name, checked)
    if name == "api.proxies":
        must_be_networks(name, checked)
    if name == "api.page" and checked:
        loopback(name, checked)
    knobs.put(tx, name, checked, who)
    waking.wake_all(tx)
    return checked


def unknown_sites(tx: Connection) -> list[str]:
    """Return the words of the knob hold.sites that name no site yet."""
    known = {row["site"] for row in sites.ALL_SITES.rows(tx)}
    return [name for name in words(knobs.load(tx).hold.sites) if name not in known]


def warnings(tx: Connection, name: str) -> list[str]:
    """Return remarks on the present value of a knob."""
    unknown = unknown_sites(tx) if name == "hold.sites" else []
    return [f"There is no site {site!r}; `jedi site list` shows all." for site in unknown]


def unset(tx: Connection, who: str, name: str) -> Any:
    """Remove a knob's value, so that the preset decides. Return the preset's value. Forbidden as
    above."""
    must_be_operator(tx, who)
    knob = _knob(name)
    knobs.put(tx, name, None, who)
    waking.wake_all(tx)
    return knob.default(knobs.load(tx)[PRESET])


def _knob(name: str) -> Knob[Any]:
    if name not in KNOBS:
        remedy = suggest(name, KNOBS, "`jedi config list` shows all")
        raise BadInput([Problem("name", name, "no such knob", remedy)])
    return KNOBS[name]
