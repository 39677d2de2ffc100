"""Knobs as operators see and set them, with the history of changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection

from jedi.core.addresses import loopback, must_be_networks
from jedi.core.errors import BadInput, Problem
from jedi.core.knobs import KNOBS
from jedi.core.knobs.knob import Knob, words
from jedi.core.suggest import suggest
from jedi.service.operations.arguments import NameText, SettingText
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.service.users import oidc
from jedi.taskbuffer.db import knobs
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


@dataclass(frozen=True, slots=True)
class KnobValue:
    """A knob with its new value, and warnings about it."""

    name: str
    value: Any
    warnings: list[str]


Value = bool | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | float | SettingText


@operation("config.list", "GET", "/v1/config", ANYBODY)
def find(call: Call) -> list[Setting]:
    """List every knob with the value in force."""
    present = knobs.load(call.tx)
    changed = {row.name: row for row in knobs.OVERRIDES.rows(call.tx)}
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


@operation("config.show", "GET", "/v1/config/{name}", ANYBODY)
def show(call: Call, name: NameText) -> Setting:
    """Show a knob with its meaning and the value in force.

    BadInput suggests the nearest name.
    """
    _knob(name)
    [setting] = [one for one in find(call) if one.name == name]
    return setting


@operation("config.history", "GET", "/v1/config/{name}/history", ANYBODY)
def history(call: Call, name: NameText) -> list[KnobChange]:
    """List the changes of a knob, the newest first."""
    _knob(name)
    rows = knobs.history(call.tx, name)
    return [KnobChange(row.modificationtime, row.username, row.value) for row in rows]


@operation("config.set", "PUT", "/v1/config/{name}", OPERATOR, dry_run=True)
def put(call: Call, name: NameText, value: Value) -> KnobValue:
    """Set a knob, `core.preset` too. Agents use it from their next cycle.

    The value may be written as text; the answer has it in its own type.
    """
    call.subject = f"knob {name}"
    checked = _knob(name).check(value)
    oidc.must_be_sound(name, checked)
    if name == "api.proxies":
        must_be_networks(name, checked)
    if name == "api.page" and checked:
        loopback(name, checked)
    knobs.put(call.tx, name, checked, call.who)
    waking.wake_all(call.tx)
    return KnobValue(name, checked, warnings(call.tx, name))


@operation("config.unset", "DELETE", "/v1/config/{name}", OPERATOR, dry_run=True)
def unset(call: Call, name: NameText) -> KnobValue:
    """Unset a knob: the preset's value holds again."""
    call.subject = f"knob {name}"
    knob = _knob(name)
    knobs.put(call.tx, name, None, call.who)
    waking.wake_all(call.tx)
    return KnobValue(name, knob.default(knobs.load(call.tx)[PRESET]), [])


def unknown_sites(tx: Connection) -> list[str]:
    """Return the words of the knob hold.sites that name no site yet."""
    known = {row["site"] for row in sites.ALL_SITES.rows(tx)}
    return [name for name in words(knobs.load(tx).hold.sites) if name not in known]


def warnings(tx: Connection, name: str) -> list[str]:
    """Return remarks on the present value of a knob."""
    unknown = unknown_sites(tx) if name == "hold.sites" else []
    return [f"There is no site {site!r}; `jedi site list` shows all." for site in unknown]


def _knob(name: str) -> Knob[Any]:
    if name not in KNOBS:
        remedy = suggest(name, KNOBS, "`jedi config list` shows all")
        raise BadInput([Problem("name", name, "no such knob", remedy)])
    return KNOBS[name]
